//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestHostCheck: a host looks for itself, asked from afar and on the host alone, and
// doctor shows what it finds.
func TestHostCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	type finding struct{ Object, Check, Result, Cause, Mend string }
	parse := func(out string) map[string]finding {
		t.Helper()
		var all []finding
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found := make(map[string]finding)
		for _, f := range all {
			name, _, _ := strings.Cut(f.Check, ":") // an address without its port
			name, _, _ = strings.Cut(name, " 127.")
			found[f.Object+" "+name] = f
		}
		return found
	}
	far := parse(w.must(t, "host", "check", "edge-01", "--all", "-o", "json"))
	for _, check := range []string{"API", "broker", "certificate", "memory", "commands", "lxc"} {
		if f := far["host edge-01 "+check]; f.Result != "ok" {
			t.Errorf("%s: %+v, of %+v", check, f, far)
		}
	}
	near := parse(h.local(t, "--local", "host", "check", "--all", "-o", "json").exits(t, 0).stdout)
	if f := near["this host broker"]; f.Result != "ok" {
		t.Errorf("on the host: %+v", near)
	}
	all := parse(w.must(t, "doctor", "edge-01", "--all", "-o", "json"))
	for _, check := range []string{"host edge-01 memory", "host edge-01 ring", "host edge-01 policy", "coordinator work", "coordinator certificate", "coordinator database", "coordinator broker", "coordinator disk of state"} {
		if f := all[check]; f.Result != "ok" {
			t.Errorf("doctor does not show what the host and the coordinator find of %s: %+v of %+v", check, f, all)
		}
	}
	if ring := show[api.Host](t, w, "host", "show", "edge-01").Ring; ring == 0 {
		t.Error("the host is shown with no ring")
	}
	w.cli(t, "host", "check").exits(t, 2, "name a host")
	h.local(t, "--local", "host", "check", "edge-01").exits(t, 2, "leave the name out")
}
