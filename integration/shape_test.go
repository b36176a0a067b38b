//go:build integration

package integration

import (
	"strings"
	"testing"
)

// TestShape: containers of both runtimes have the command, variables, host name, labels
// and limits that they were made with, and settings are changed together or not at all.
func TestShape(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, s := w.addPodmanHost(t, "edge-01")
	s.Image(t, "localhost/talker:1", `CMD ["/bin/false"]`, "STOPSIGNAL SIGKILL")
	for name, made := range map[string][]string{
		"pod": {"localhost/talker:1", "--", "/bin/sh", "-c", "sleep 1000000"},
		"lxc": {"busybox"},
	} {
		at := "edge-01/" + name
		shape := []string{"--start", "--limit", "memory=256MiB", "--limit", "pids=200", "--env", "COLOUR=dark blue", "--label", "app=web", "--hostname", "shaped"}
		w.must(t, append(append([]string{"ct", "create", at, made[0]}, shape...), made[1:]...)...)
		if out := w.must(t, "exec", at, "--", "hostname"); strings.TrimSpace(out) != "shaped" {
			t.Errorf("%s calls itself %q", name, out)
		}
		if out := w.must(t, "exec", at, "--", "cat", "/proc/1/environ"); !strings.Contains(out, "COLOUR=dark blue\x00") {
			t.Errorf("the variables of %s are %q", name, out)
		}
		config := func() string { return w.must(t, "ct", "config", "ls", at, "-o", "csv", "--no-headers") }
		for _, want := range []string{"env.COLOUR,dark blue,", "hostname,shaped,", "image," + made[0], "label.app,web,", "limit.memory,256MiB,", "limit.pids,200,"} {
			if got := config(); !strings.Contains(got, want) {
				t.Errorf("the settings of %s lack %q:\n%s", name, want, got)
			}
		}
		w.must(t, "ct", "config", "set", at, "label.tier=front", "limit.memory=128MiB")
		before := config()
		w.cli(t, "ct", "config", "set", at, "label.tier=back", "limit.memory=4KiB").exits(t, 1, "below present use")
		if after := config(); after != before || !strings.Contains(after, "label.tier,front,") || !strings.Contains(after, "limit.memory,128MiB,") {
			t.Errorf("the settings of %s were\n%s\nand are\n%s", name, before, after)
		}
		if out := w.must(t, "ct", "limit", at, "-o", "csv", "--no-headers"); !strings.Contains(out, "memory,128MiB,128MiB\n") {
			t.Errorf("the limits of %s are\n%s", name, out)
		}
		h.local(t, "ct", "--local", "config", "unset", name, "label.tier", "limit.pids").exits(t, 0)
		h.local(t, "ct", "--local", "config", "get", name, "label.tier").exits(t, 3, "no such setting")
		if out := h.local(t, "ct", "--local", "config", "get", name, "label.app").exits(t, 0).stdout; out != "web\n" {
			t.Errorf("the label of %s is %q", name, out)
		}
	}
	w.cli(t, "ct", "create", "edge-01/no", "busybox", "--", "/bin/true").exits(t, 1, "unsupported")
	for _, name := range []string{"pod", "lxc"} {
		w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
	}
}
