//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/builttest"
)

// TestHookHangs starts a container whose hook never ends: whoever asks is told what
// is being done, by which process and until when, and a stop that does not wait
// ends all of it.
func TestHookHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox")
	config, ready, hook := h.path("lxc/web/config"), w.path("ready"), w.path("hook")
	before := read(t, config)
	if err := builttest.Write(hook, "#!/bin/sh\necho $$ >"+ready+"\nexec sleep 1000\n"); err != nil {
		t.Fatal(err)
	}
	write(t, config, before+"lxc.hook.pre-start = "+hook+"\n")
	id := strings.TrimSpace(w.must(t, "ct", "start", "edge-01/web", "--no-wait"))
	fileUntil(t, ready, "the hook runs", func(s string) bool { return strings.HasSuffix(s, "\n") })

	var pid int
	told := func(e api.Event) bool {
		if e.Type != "action.state" || e.Object != id {
			return false
		}
		_, err := fmt.Sscanf(w.action(t, id).Detail, "under way: lxc start of web, process %d, since", &pid)
		return err == nil
	}
	w.event(t, 0, "it is told what is under way", told)
	if line := strings.ReplaceAll(read(t, fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " "); !strings.Contains(line, "hostler-lxc start") {
		t.Errorf("process %d, which is told of, is %q", pid, line)
	}
	for _, verb := range []string{"why", "action show"} {
		if out := w.must(t, append(strings.Fields(verb), id)...); !strings.Contains(out, "it is killed unless it has ended at") {
			t.Errorf("hostler %s says\n%s", verb, out)
		}
	}
	w.cli(t, "action", "cancel", id).exits(t, 1, "not cancelled: container.start cannot be, once it runs; it continues")
	w.must(t, "ct", "stop", "edge-01/web", "--now")
	if got := w.ended(t, id)[id]; got != "FAILED preempted" {
		t.Errorf("its start is %s", got)
	}
	if _, err := fmt.Sscan(read(t, ready), &pid); err != nil {
		t.Fatal(err)
	}
	awaitExit(pid)
	write(t, config, before)
	w.must(t, "ct", "start", "edge-01/web")
	w.must(t, "exec", "edge-01/web", "--", "true")
}
