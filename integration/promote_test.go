//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestPromote makes images of containers of LXC and podman that run, makes others of
// these, and makes them containers again, from the coordinator and on the host alone.
func TestPromote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.addPodmanHost(t, "edge-01")
	for runtime, image := range map[string]string{"lxc": "busybox", "podman": podmantest.Image} {
		t.Run(runtime, func(t *testing.T) {
			where, ref := "edge-01/"+runtime, "localhost/my-"+runtime+":1.2"
			w.must(t, "ct", "create", where, image, "--start", "--label", "app=web", "--limit", "pids=300")
			w.must(t, "exec", where, "--", "sh", "-c", "echo one > /root/state; chown 7:8 /root/state; mkdir -p /etc/ssh; echo secret > /etc/ssh/ssh_host_key; echo abc > /etc/machine-id")
			w.cli(t, "image", "promote", where, "../my").exits(t, 2, "no name of an image")
			w.must(t, "image", "promote", where, "my-"+runtime+":1.2")
			w.cli(t, "image", "promote", where, "my-"+runtime+":1.2").exits(t, 1, "another version")
			w.container(t, where, "runs on", func(c ct) bool { return c.State == "running" })
			if out := w.must(t, "image", "ls", "edge-01", "-o", "csv"); !strings.Contains(out, ref+","+runtime+",") {
				t.Errorf("the list is %s", out)
			}
			w.must(t, "ct", "create", where+"-2", ref, "--runtime", runtime, "--start")
			look := "cat /root/state; stat -c %u:%g /root/state"
			if out := w.must(t, "exec", where+"-2", "--", "sh", "-c", look); out != "one\n7:8\n" {
				t.Errorf("its files are %q", out)
			}
			if out := w.must(t, "exec", where+"-2", "--", "sh", "-c", "ls /etc/ssh; cat /etc/machine-id"); out != "" {
				t.Errorf("it has %q of the first one", out)
			}
			w.must(t, "image", "demote", where+"-3", ref, "--start")
			if out := w.must(t, "exec", where+"-3", "--", "sh", "-c", look); out != "one\n7:8\n" {
				t.Errorf("its files are %q", out)
			}
			if out := w.must(t, "ct", "config", "ls", where+"-3", "-o", "csv"); !strings.Contains(out, "label.app,web") || !strings.Contains(out, "limit.pids,300") {
				t.Errorf("it is kept as %s", out)
			}
			w.cli(t, "image", "demote", where+"-4", ref).exits(t, 3, "does not have the image")
			for _, name := range []string{runtime, runtime + "-2", runtime + "-3"} {
				w.must(t, "exec", "edge-01/"+name, "--", "true")
				w.must(t, "ct", "stop", "edge-01/"+name, "--now")
			}
			h.local(t, "image", "promote", runtime, "again").exits(t, 0)
			h.local(t, "image", "demote", runtime+"-5", "localhost/again:latest", "--keep").exits(t, 0)
			for _, name := range []string{runtime, runtime + "-2", runtime + "-3", runtime + "-5"} {
				w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
			}
			h.local(t, "image", "rm", "localhost/again:latest", "--yes").exits(t, 0)
		})
	}
}
