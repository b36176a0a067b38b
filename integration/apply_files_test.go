//go:build integration

package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestApplyFiles: the files of a manifest are in containers of both runtimes before these
// start for the first time, and are kept as the manifest says without a restart.
func TestApplyFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, s := w.addPodmanHost(t, "edge-01")
	s.Image(t, "localhost/reader:1", `CMD ["/bin/sh","-c","cat /etc/app.conf >/seen; sleep 1000000"]`, "STOPSIGNAL SIGKILL")
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	manifest := func(old ...string) {
		t.Helper()
		text := `version: 1
profiles:
  app: {files: [{path: /etc/app.conf, source: app.conf, mode: 0640, owner: "7:8"}, {path: /etc/empty, content: ""}]}
containers:
  - {host: edge-01, name: pod, image: localhost/reader:1, profiles: [app], start: true}
  - {host: edge-01, name: lxc, image: busybox, profiles: [app]}
`
		write(t, path, strings.NewReplacer(old...).Replace(text))
	}
	plan := func(code int, want string) {
		t.Helper()
		if out := w.cli(t, "ct", "apply", "-f", path, "--dry-run", "-o", "csv", "--no-headers").exits(t, code).stdout; out != want {
			t.Errorf("the plan is\n%s\nwant\n%s", out, want)
		}
	}
	const same = "edge-01,pod,unchanged,\nedge-01,lxc,unchanged,\n"
	here := func(flags ...string) result {
		return h.local(t, append([]string{"--local", "ct", "apply", "-f", path}, flags...)...)
	}
	in := func(name, want string, argv ...string) {
		t.Helper()
		if out := w.must(t, append([]string{"exec", "edge-01/" + name, "--"}, argv...)...); out != want {
			t.Errorf("in %s %q prints %q, want %q", name, argv, out, want)
		}
	}

	manifest()
	w.cli(t, "ct", "apply", "-f", path, "--yes").exits(t, 2, "app.conf", "no such file")
	write(t, filepath.Join(dir, "app.conf"), "first\n")
	manifest("/etc/empty", "/proc/empty")
	w.cli(t, "ct", "apply", "-f", path, "--yes").exits(t, 2, "/proc/empty")
	manifest()
	plan(10, "edge-01,pod,create,\"file=/etc/app.conf, file=/etc/empty\"\nedge-01,lxc,create,\"file=/etc/app.conf, file=/etc/empty\"\n")
	w.must(t, "ct", "apply", "-f", path, "--yes")
	in("pod", "first\n", "cat", "/seen")
	in("pod", "640 7:8\n", "stat", "-c", "%a %u:%g", "/etc/app.conf")
	plan(0, same)
	here("--dry-run").exits(t, 0)

	// Of a stopped container, and of one that runs, what differs is written, and nothing is restarted.
	w.must(t, "exec", "edge-01/pod", "--", "sh", "-c", "echo other >/etc/app.conf; rm /etc/empty")
	plan(10, "edge-01,pod,change,\"file=/etc/app.conf, file=/etc/empty\"\nedge-01,lxc,unchanged,\n")
	write(t, filepath.Join(dir, "app.conf"), "second "+strings.Repeat("2", 100<<10))
	plan(10, "edge-01,pod,change,\"file=/etc/app.conf, file=/etc/empty\"\nedge-01,lxc,change,file=/etc/app.conf\n")
	here("--yes").exits(t, 0)
	plan(0, same)
	in("pod", "first\n", "cat", "/seen")
	in("pod", "644 0:0\n", "stat", "-c", "%a %u:%g", "/etc/empty")
	w.must(t, "ct", "stop", "edge-01/pod")
	plan(10, "edge-01,pod,change,start\nedge-01,lxc,unchanged,\n")
	write(t, filepath.Join(dir, "app.conf"), "third\n")
	manifest("0640", "0600", "profiles: [app]}", "profiles: [app], start: true}")
	plan(10, "edge-01,pod,change,\"file=/etc/app.conf, start\"\nedge-01,lxc,change,\"file=/etc/app.conf, start\"\n")
	w.must(t, "ct", "apply", "-f", path, "--yes")
	plan(0, same)
	in("pod", "third\n", "cat", "/seen")
	for _, name := range []string{"pod", "lxc"} {
		in(name, "600 7:8\n", "stat", "-c", "%a %u:%g", "/etc/app.conf")
		in(name, "third\n", "cat", "/etc/app.conf")
	}

	// What a container puts into the place of a file is not followed to the host, nor read to its end.
	w.must(t, "exec", "edge-01/lxc", "--", "sh", "-c", "rm /etc/app.conf; ln -s "+filepath.Join(dir, "app.conf")+" /etc/app.conf; rm /etc/empty; dd if=/dev/zero of=/etc/empty bs=1M seek=5000 count=0")
	plan(10, "edge-01,pod,unchanged,\nedge-01,lxc,change,\"file=/etc/app.conf, file=/etc/empty\"\n")
	w.must(t, "ct", "apply", "-f", path, "--yes")
	plan(0, same)
	w.must(t, "exec", "edge-01/lxc", "--", "sh", "-c", "rm /etc/empty; mkdir /etc/empty")
	w.cli(t, "ct", "apply", "-f", path, "--yes").exits(t, 1, "cannot compare /etc/empty", "not a file")
	manifest("/etc/empty", "/srv/empty", "image: busybox", "image: busybox, volumes: ['data:/srv']")
	w.cli(t, "ct", "apply", "-f", path, "--yes").exits(t, 2, "volume or mount")
	for _, name := range []string{"pod", "lxc"} {
		w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
	}
}
