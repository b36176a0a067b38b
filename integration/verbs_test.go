//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestVerbs: freeze, unfreeze, logs and stats on both runtimes, by the coordinator and on
// the host alone.
func TestVerbs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, s := w.addPodmanHost(t, "edge-01")
	s.Image(t, "localhost/talker:1", `CMD ["/bin/sh","-c","echo said first; sleep 1000000"]`, "STOPSIGNAL SIGKILL")
	for name, image := range map[string]string{"pod": "localhost/talker:1", "lxc": "busybox"} {
		w.must(t, "ct", "create", "edge-01/"+name, image, "--start")
		at := "edge-01/" + name
		w.must(t, "ct", "freeze", at)
		w.container(t, at, "is frozen", func(c ct) bool { return c.State == "frozen" && c.Intended == "running" })
		h.local(t, "ct", "--local", "freeze", name).exits(t, 0)
		h.local(t, "ct", "--local", "unfreeze", name).exits(t, 0)
		w.must(t, "ct", "unfreeze", at)
		w.must(t, "exec", at, "--", "true")
		w.cli(t, "ct", "rename", at, "other").exits(t, 1, "it is running; stop it first")
		w.must(t, "ct", "stop", at, "--grace", "1s")
		w.cli(t, "ct", "freeze", at).exits(t, 1, "not running")
		w.must(t, "ct", "start", at)
	}
	w.must(t, "exec", "edge-01/lxc", "--", "sh", "-c", "echo said first > /dev/console")
	for _, name := range []string{"pod", "lxc"} {
		if out := w.must(t, "ct", "logs", "edge-01/"+name); !strings.Contains(out, "said first") {
			t.Errorf("the log of %s is %q", name, out)
		}
		if out := h.local(t, "ct", "--local", "logs", name, "--tail", "1").exits(t, 0).stdout; strings.Count(out, "\n") != 1 {
			t.Errorf("the last line of %s is %q", name, out)
		}
	}
	w.cli(t, "ct", "logs", "edge-01/lxc", "--since", "1h").exits(t, 1, "unsupported")
	w.cli(t, "ct", "logs", "edge-01/pod", "--runtime").exits(t, 1, "unsupported")
	w.must(t, "ct", "logs", "edge-01/pod", "--since", "1h")
	for until := time.Now().Add(time.Minute); ; {
		var uses []struct{ Name string }
		if err := json.Unmarshal([]byte(w.must(t, "ct", "stats", "edge-01", "-o", "json")), &uses); err != nil {
			t.Fatal(err)
		}
		if len(uses) == 2 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("ct stats tells of %+v", uses)
		}
	}
	if out := h.local(t, "ct", "--local", "top").exits(t, 0).stdout; strings.Count(out, "edge-01") != 2 || !strings.Contains(out, "lxc") || !strings.Contains(out, "pod") {
		t.Errorf("ct top says %s", out)
	}
	for _, name := range []string{"pod", "lxc"} {
		at := "edge-01/" + name
		if out := w.must(t, "ct", "limit", at); !strings.Contains(out, "RESOURCE ") {
			t.Errorf("the limits of %s are no table:\n%s", name, out)
		}
		limits := func() string { return w.must(t, "ct", "limit", at, "-o", "csv", "--no-headers") }
		w.must(t, "ct", "limit", at, "cpu=150%", "memory=256MiB", "pids=200", "net=10Mbit", "io=5MiB")
		const set = "io,5MiB,5MiB\nmemory,256MiB,256MiB\nnet,10Mbit,10Mbit\n"
		if got := limits(); !strings.Contains(got, "cpu,150%,150%\n") || !strings.Contains(got, set) || !strings.Contains(got, "pids,200,200\n") {
			t.Errorf("the limits of %s are\n%s", name, got)
		}
		w.cli(t, "ct", "limit", at, "memory=4KiB").exits(t, 1, "below present use", "--force")
		w.cli(t, "ct", "limit", at, "disk=5GiB").exits(t, 1, "unsupported")
		w.must(t, "ct", "restart", at, "--grace", "1s")
		h.local(t, "ct", "--local", "limit", name, "pids=none").exits(t, 0)
		if got := limits(); !strings.Contains(got, "cpu,150%,150%\n") || !strings.Contains(got, set) || strings.Contains(got, "pids") {
			t.Errorf("after a restart, the limits of %s are\n%s", name, got)
		}
	}
	for name, says := range map[string]string{"pod": `"signal": "SIGKILL"`, "lxc": `"asked": true`} {
		w.must(t, "ct", "stop", "edge-01/"+name, "--grace", "1s")
		if out := w.must(t, "ct", "exits", "edge-01/"+name, "-o", "json"); !strings.Contains(out, says) || name == "pod" && !strings.Contains(out, "said first") {
			t.Errorf("%s ended: %s", name, out)
		}
		if out := h.local(t, "ct", "--local", "exits", name).exits(t, 0).stdout; strings.Count(out, "\n") < 3 {
			t.Errorf("%s ended: %s", name, out)
		}
	}
	for _, name := range []string{"pod", "lxc"} {
		w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
	}
}
