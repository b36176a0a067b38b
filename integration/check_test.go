//go:build integration

package integration

import (
	"encoding/json"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// finding is what a check has found; hostler-agent check names no object.
type finding struct{ Object, Check, Result, Cause, Mend string }

// findings are those of an output, by object and check.
func findings(t *testing.T, out string) map[string]finding {
	t.Helper()
	var all []finding
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := make(map[string]finding)
	for _, f := range all {
		name, _, _ := strings.Cut(f.Check, ":") // an address without its port
		name, _, _ = strings.Cut(name, " 127.")
		found[strings.TrimSpace(f.Object+" "+name)] = f
	}
	return found
}

// TestHostCheck: a host looks for itself, asked from afar and on the host alone, and
// doctor shows what it finds.
func TestHostCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	far := findings(t, w.must(t, "host", "check", "edge-01", "--all", "-o", "json"))
	for _, check := range []string{"API", "broker", "certificate", "memory", "commands", "lxc"} {
		if f := far["host edge-01 "+check]; f.Result != "ok" {
			t.Errorf("%s: %+v, of %+v", check, f, far)
		}
	}
	near := findings(t, h.local(t, "--local", "host", "check", "--all", "-o", "json").exits(t, 0).stdout)
	if f := near["this host broker"]; f.Result != "ok" {
		t.Errorf("on the host: %+v", near)
	}
	all := findings(t, w.must(t, "doctor", "edge-01", "--all", "-o", "json"))
	for _, check := range []string{"host edge-01 memory", "host edge-01 ring", "host edge-01 policy", "coordinator work", "coordinator certificate", "coordinator database", "coordinator broker"} {
		if f := all[check]; f.Result != "ok" {
			t.Errorf("doctor does not show what the host and the coordinator find of %s: %+v of %+v", check, f, all)
		}
	}
	// how full the disk is depends on the machine that runs the test
	if f := all["coordinator disk of state"]; f.Result != api.FindingOK && !strings.Contains(f.Cause, "% of the file system of") {
		t.Errorf("doctor does not show how full the coordinator's disk is: %+v of %+v", f, all)
	}
	if ring := show[api.Host](t, w, "host", "show", "edge-01").Ring; ring == 0 {
		t.Error("the host is shown with no ring")
	}
	w.cli(t, "host", "check").exits(t, 2, "name a host")
	h.local(t, "--local", "host", "check", "edge-01").exits(t, 2, "leave the name out")
}

// TestBrokerTaken: another program has the port of the broker. The coordinator says so and
// ends, hostler doctor and hostler-agent check tell what is not reached and what to do, and
// all is well once the port is free.
func TestBrokerTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	w.coordinator.end(t, term)
	other := httptest.NewUnstartedServer(nil)
	other.Listener.Close()
	var err error
	if other.Listener, err = net.Listen("tcp", w.mqtt); err != nil {
		t.Fatal(err)
	}
	other.StartTLS()
	defer other.Close()
	w.startCoordinator(t)
	if r := w.coordinator.finish(t).exits(t, 1, "the broker cannot listen at mqtt.listen", "end the program that listens there (ss -ltnp names it)"); !strings.Contains(r.stderr, w.mqtt) {
		t.Errorf("the coordinator does not name %s: %s", w.mqtt, r.stderr)
	}
	told := findings(t, w.cli(t, "doctor", "-o", "json").exits(t, 1).stdout)
	if f := told["this machine coordinator"]; f.Result != api.FindingFailed || f.Cause == "" || !strings.Contains(f.Mend, "does the coordinator run?") {
		t.Errorf("doctor tells %+v", told)
	}
	told = findings(t, h.spawn(t, "edge-01-check", "check", "-o", "json").finish(t).exits(t, 1).stdout)
	if f := told["broker"]; f.Result != api.FindingFailed || !strings.Contains(f.Cause, "certificate") || !strings.Contains(f.Mend, "mqtt.addresses") {
		t.Errorf("hostler-agent check tells %+v", told)
	}

	other.Close()
	from := w.events.mark()
	w.startCoordinator(t)
	h.online(t, from)
	if f := findings(t, w.must(t, "doctor", "--all", "-o", "json"))["coordinator broker"]; f.Result != api.FindingOK {
		t.Errorf("with its port back the broker is %+v", f)
	}
}

// TestWithoutSystemd: a host where systemd does not run joins and works. Its check says that
// no unit starts the agent and what to do, and names no command that asks systemd; where
// systemd runs it says nothing of that.
func TestWithoutSystemd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.newHost(t, "edge-01", false)
	own := func(systemd string) []string { // a /run of its own
		return []string{"unshare", "--mount", "sh", "-ec", "mount -t tmpfs none /run; " + systemd + `exec "$@"`, "sh"}
	}
	h.within = own("")
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", "edge-01", "--words", words)
	joined := p.finish(t).exits(t, 0)
	h.start(t)
	w.done(t, w.submit(t, "edge-01", "true"))
	asks := func(text string) bool {
		return strings.Contains(text, "systemctl") || strings.Contains(text, "journalctl") || strings.Contains(text, "timedatectl")
	}
	if asks(joined.stdout + joined.stderr) {
		t.Errorf("join names a command of systemd: %s%s", joined.stdout, joined.stderr)
	}
	look := func() result {
		t.Helper()
		return h.spawn(t, "edge-01-check", "check", "-o", "json").finish(t).exits(t, 0)
	}
	alone := look()
	afar := w.must(t, "host", "check", "edge-01", "--all", "-o", "json")
	for object, text := range map[string]string{"": alone.stdout, "host edge-01 ": afar} {
		found := findings(t, text)
		if f := found[object+"service manager"]; f.Result != api.FindingWarning || !strings.Contains(f.Cause, "systemd does not run here, so no unit starts hostler-agent") || !strings.Contains(f.Mend, "hostler-agent run") || !strings.Contains(f.Mend, "another supervisor") {
			t.Errorf("the check tells %+v", found)
		}
		if f := found[object+"podman"]; f.Result != api.FindingWarning || !strings.Contains(f.Mend, "podman system service") {
			t.Errorf("podman is mended by %+v", f)
		}
		if asks(text) {
			t.Errorf("the check names a command of systemd:\n%s", text)
		}
	}
	h.within = own("mkdir -p /run/systemd/system; ")
	found := findings(t, look().stdout)
	if f := found["service manager"]; f.Result != api.FindingOK {
		t.Errorf("where systemd runs: %+v", f)
	}
	if f := found["podman"]; !strings.Contains(f.Mend, "systemctl enable --now podman.socket") {
		t.Errorf("where systemd runs, podman is mended by %+v", f)
	}
}
