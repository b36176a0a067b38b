//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/builttest"
)

// powerSwitch is a program of fence-agents whose device is a file, and which takes the
// power from the processes that another file names.
const powerSwitch = `#!/bin/sh
while IFS='=' read -r key value; do
	case $key in
	action) action=$value ;;
	status_file) file=$value ;;
	esac
done
case $action in
metadata) echo '<resource-agent name="x"><parameters><parameter name="status_file"/></parameters><actions><action name="on"/><action name="off"/><action name="status"/><action name="monitor"/></actions></resource-agent>' ;;
off)
	while read -r pid; do kill -9 "$pid"; done <"$file.pids"
	printf off >"$file" ;;
on) printf on >"$file" ;;
status) [ "$(cat "$file")" = on ] || exit 2 ;;
monitor) ;;
*) exit 1 ;;
esac
`

// hungSwitch is a program of fence-agents whose device takes every off, and never answers.
const hungSwitch = `#!/bin/sh
while IFS='=' read -r key value; do
	[ "$key" = action ] && action=$value
done
case $action in
metadata) echo '<resource-agent name="x"><parameters/><actions><action name="on"/><action name="off"/><action name="status"/><action name="monitor"/></actions></resource-agent>' ;;
off) sleep 600 ;;
esac
`

// fences is the history, the newest first.
func (w *world) fences(t testing.TB, args ...string) (all []api.Fence) {
	t.Helper()
	out := w.must(t, append([]string{"fence", "history", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("fence history: %s", out)
	}
	return all
}

// uniqueWorld is a world with short leases and fences, in which two hosts can hold unique
// containers.
func uniqueWorld(t *testing.T) (w *world, a, b *host) {
	t.Helper()
	w, hosts := uniqueFleet(t, 2, 12*time.Second)
	return w, hosts[0], hosts[1]
}

// uniqueFleet makes a fleet of n hosts whose guards hold leases, which are good for ttl.
func uniqueFleet(t *testing.T, n int, ttl time.Duration) (w *world, hosts []*host) {
	t.Helper()
	w = newWorld(t)
	mkdir(t, w.path("agents"))
	dummy, err := os.ReadFile("/usr/sbin/fence_dummy")
	if err != nil {
		t.Fatalf("install fence-agents: %v", err)
	}
	for name, text := range map[string]string{"fence_dummy": string(dummy), "fence_power": powerSwitch, "fence_hung": hungSwitch} {
		if err := builttest.Write(w.path("agents/"+name), text); err != nil {
			t.Fatal(err)
		}
	}
	w.must(t, "key", "generate", "ann", "--no-passphrase")
	w.must(t, "fleet", "ring", "add-approver", "ann", "ann", "--out", w.path("ring-3"))
	w.must(t, "fleet", "ring", "publish")
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+fmt.Sprintf("[lease]\nmin_self_fence = \"guard\"\nttl_seconds = %.0f\nkill_seconds = 2\nmargin_seconds = 1\n", ttl.Seconds())+
		fmt.Sprintf("[fence]\ngrace_seconds = 1\nreconnect_seconds = 2\nagents_dir = %q\nsecrets_dir = %q\n", w.path("agents"), w.path("agents")))
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	for i := range n {
		h := w.newHost(t, fmt.Sprintf("edge-%02d", i+1), false)
		hosts = append(hosts, h)
		write(t, h.config(), read(t, h.config())+"[unique]\nguard = true\npausable = \"no\"\n"+
			fmt.Sprintf("[fence]\ndevices_dir = %q\nagents_dir = %q\n", h.path("fence"), w.path("agents")))
		p, words := h.join(t, w.invite(t))
		w.must(t, "host", "approve", h.name, "--words", words)
		p.finish(t).exits(t, 0)
		h.start(t)
	}
	return w, hosts
}

// TestFence: a host that is lost while it runs a container that goes on without a lease is
// switched off by its devices, one of which another host asks, and the container starts elsewhere only when the device has
// said that the host is off. A device that hangs is given up, and one that lies or answers for
// another host is found and not used; without a device, a person's signed word is taken, and of
// nobody else.
func TestFence(t *testing.T) {
	t.Parallel()
	w, a, b := uniqueWorld(t)
	power := w.path("power-01")
	write(t, power, "on")
	w.cli(t, "fence", "device", "add", "pdu", "--agent", "fence_power", "--host", "edge-01", "-p", "colour=red").exits(t, 2, "knows no parameter colour")
	w.must(t, "fence", "device", "add", "pdu", "--agent", "fence_power", "--host", "edge-01", "--level", "2", "-p", "status_file="+power)
	w.must(t, "fence", "device", "test", "pdu")
	w.must(t, "fence", "device", "add", "hung", "--agent", "fence_hung", "--host", "edge-01", "--host-delay", "edge-01=1s", "--timeout", "2s")
	// Its second power supply hangs on a strip that edge-02 alone reaches: both have to be off.
	far := w.path("power-02")
	write(t, far, "on")
	write(t, far+".pids", "")
	w.cli(t, "fence", "device", "add", "strip", "--via", "edge-02", "--host", "edge-01", "-p", "ip=1").exits(t, 2, "write them into /etc/hostler/fence/strip.toml there")
	w.cli(t, "fence", "device", "add", "strip", "--via", "edge-01", "--host", "edge-01").exits(t, 2, "host edge-01 cannot switch itself off")
	w.cli(t, "fence", "device", "add", "strip", "--via", "edge-02", "--host", "edge-01").exits(t, 2, b.path("fence/strip.toml")+" is not there")
	mkdir(t, b.path("fence"))
	write(t, b.path("fence/strip.toml"), fmt.Sprintf("agent = \"fence_power\"\n[params]\nstatus_file = %q\n", far))
	w.must(t, "fence", "device", "add", "strip", "--via", "edge-02", "--host", "edge-01", "--level", "2")
	w.must(t, "fence", "device", "test", "strip")
	// Debian's fence_dummy with a file that cannot be: it would say Already OFF.
	w.must(t, "fence", "device", "add", "liar", "--agent", "fence_dummy", "--host", "edge-02", "-p", "status_file="+w.path("no/such"))
	w.cli(t, "fence", "device", "test", "liar").exits(t, 1, "it is the device of another host, or it lies")
	// The cable of a machine that is off was plugged in for edge-02.
	write(t, w.path("power-99"), "off")
	w.must(t, "fence", "device", "add", "mixed", "--agent", "fence_power", "--host", "edge-02", "-p", "status_file="+w.path("power-99"))
	w.cli(t, "fence", "device", "test", "mixed").exits(t, 1, "it is the device of another host, or it lies")
	w.cli(t, "host", "fence", "edge-02", "--yes").exits(t, 1, "it is the device of another host, or it lies")

	w.must(t, "ct", "create", "edge-01/vault", "--template", "busybox", "--class", "unique", "--data", "none", "--offline", "keep", "--start")
	pid := a.initPID(t, "vault")
	write(t, power+".pids", fmt.Sprintln(pid))
	w.cli(t, "host", "confirm-fenced", "edge-01", "--reason", "I say so", "--yes", "--key", "ann").exits(t, 1, "so it is not off")
	if h := show[api.Host](t, w, "host", "show", "edge-01"); h.SelfFence != "guard" || !slices.Contains(h.Features, "lxc.unique") || h.LeaseLeftMS <= 0 || h.Fencing != "3 fence devices can switch it off; a device comes before the end of its lease (fence.first = auto)" {
		t.Errorf("edge-01 shows %+v", h)
	}

	a.agent.end(t, kill)
	gone := w.awaitLease(t, "edge-02 holds it", func(l api.Lease) bool { return l.Host == "edge-02" && l.Phase == "held" })
	if alive(pid) {
		t.Fatalf("it still runs on edge-01 when edge-02 is to start it: %+v", gone)
	}
	w.container(t, "edge-02/vault", "runs", func(c ct) bool { return c.State == "running" })
	now := time.Now()
	all := w.fences(t)
	if len(all) != 1 || all[0].Cause != "host_lost" || all[0].Proof != "device strip says that it is off" || all[0].Action != "reboot" || !all[0].Closes || read(t, power)+read(t, far) != "onon" {
		t.Fatalf("%+v, the power is %s and %s", all, read(t, power), read(t, far))
	}
	said := fmt.Sprint(all[0].Log)
	if !strings.Contains(said, "waits for 1s before level 1") || !strings.Contains(said, "device hung answered after 2") || !strings.Contains(said, "level 1 has failed") {
		t.Errorf("the device that hangs was not given up: %s", said)
	}
	for _, device := range []string{"pdu", "strip"} {
		if !strings.Contains(said, "off is sent to device "+device) || !strings.Contains(said, "on is sent to device "+device) {
			t.Errorf("device %s was not used: %s", device, said)
		}
	}
	t.Logf("takeover_after_decision_s: %.1f", now.Sub(*all[0].BegunAt).Seconds())

	// Back, with its copy stopped: it is let in.
	from := w.events.mark()
	a.start(t)
	w.container(t, "edge-01/vault", "is kept, and stays stopped", func(c ct) bool { return c.State == "stopped" })
	w.event(t, from, "edge-01 is let in", func(e api.Event) bool { return e.Type == "fence.returned" && e.Host == "edge-01" })

	// Without a device that can be used, a person's word.
	for _, name := range []string{"liar", "mixed"} {
		w.must(t, "fence", "device", "rm", name)
	}
	if out := w.must(t, "fence", "device", "ls"); strings.Contains(out, "liar") || !strings.Contains(out, "strip") {
		t.Errorf("fence device ls: %s", out)
	}
	pid = b.initPID(t, "vault")
	b.agent.end(t, kill)
	w.awaitLease(t, "it waits for a person", func(l api.Lease) bool { return strings.Contains(l.Why, "offline contract keep") })
	if !alive(pid) {
		t.Fatal("what keeps on was killed")
	}
	if err := syscall.Kill(pid, kill); err != nil { // its power is taken
		t.Fatal(err)
	}
	w.cli(t, "host", "confirm-fenced", "edge-02", "--yes", "--key", "ann").exits(t, 2, "the reason is missing")
	w.must(t, "key", "generate", "eve", "--no-passphrase")
	w.cli(t, "host", "confirm-fenced", "edge-02", "--reason", "I say so", "--yes", "--key", "eve").exits(t, 4, "no approver of ring")
	w.must(t, "host", "confirm-fenced", "edge-02", "--reason", "unplugged it myself", "--yes", "--key", "ann")
	w.awaitLease(t, "edge-01 holds it", func(l api.Lease) bool { return l.Host == "edge-01" && l.Phase == "held" })
	w.container(t, "edge-01/vault", "runs", func(c ct) bool { return c.State == "running" })
	if f := w.fences(t, "edge-02")[0]; f.Action != "confirm" || f.By != "person:ann" || f.Reason != "unplugged it myself" {
		t.Errorf("%+v", f)
	}
	if out := w.must(t, "audit", "ls", "-o", "json"); !strings.Contains(out, "host.fence.done") {
		t.Errorf("the audit log says nothing of fences: %s", out)
	}
	w.must(t, "ct", "stop", "edge-01/vault")
	w.must(t, "ct", "rm", "edge-01/vault", "--yes")
}
