//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestVolumes: a volume stays when its container goes, belongs to the next one then, of
// whichever runtime, and is removed by its name alone; what is planted in a container leads
// no mount elsewhere.
func TestVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.addPodmanHost(t, "edge-01")
	if err := os.WriteFile(h.path("shared"), []byte("of the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mount := h.path("shared") + ":/etc/shared:ro"
	sh := func(name, script string) string {
		t.Helper()
		return w.must(t, "exec", "edge-01/"+name, "--", "sh", "-c", script)
	}
	images := []string{"busybox", podmantest.Image, "busybox"}
	for i, image := range images {
		w.must(t, "ct", "create", "edge-01/web", image, "--volume", "data:/srv/data", "--mount", mount, "--start")
		look := strings.Repeat("again\n", i) + "of the host\n0:0\n"
		if out := sh("web", "touch /srv/data/log; cat /srv/data/log /etc/shared; stat -c %u:%g /srv/data/log; echo again >> /srv/data/log"); out != look {
			t.Errorf("with %s it has %q, want %q", image, out, look)
		}
		w.cli(t, "exec", "edge-01/web", "--", "sh", "-c", "echo x > /etc/shared").exits(t, 1, "Read-only")
		if c := show[ct](t, w, "ct", "show", "edge-01/web"); len(c.Volumes) != 1 || c.Volumes[0] != "data:/srv/data" || len(c.Mounts) != 1 || c.Mounts[0] != mount {
			t.Errorf("ct show says %+v", c)
		}
		w.cli(t, "volume", "rm", "edge-01", "data", "--yes").exits(t, 1, "container web has volume data")
		w.cli(t, "ct", "create", "edge-01/other", "busybox", "--volume", "data:/srv").exits(t, 1, "share a volume only if both are privileged")
		w.must(t, "ct", "restart", "edge-01/web", "--grace", "1s")
		w.must(t, "ct", "rm", "edge-01/web", "--yes")
	}
	all := show[[]api.Volume](t, w, "volume", "ls", "edge-01")
	if len(all) != 1 || all[0].Name != "data" || len(all[0].Containers) != 0 {
		t.Fatalf("volume ls says %+v", all)
	}

	t.Run("a link that is planted", func(t *testing.T) {
		w.must(t, "ct", "create", "edge-01/web", "busybox", "--volume", "data:/srv/deep/data")
		target := h.path("target")
		if err := os.Mkdir(target, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(h.path("lxc"), "web", "rootfs", "srv")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(h.path("lxc"), "web", "rootfs", "srv")); err != nil {
			t.Fatal(err)
		}
		w.cli(t, "ct", "start", "edge-01/web").exits(t, 1, "/srv in the container is no directory")
		if entries, err := os.ReadDir(target); err != nil || len(entries) != 0 {
			t.Errorf("there are %v, %v", entries, err)
		}
		w.must(t, "ct", "rm", "edge-01/web", "--yes")
	})
	t.Run("clones, snapshots and backups have none", func(t *testing.T) {
		w.must(t, "ct", "create", "edge-01/web", "busybox", "--volume", "data:/srv/data", "--start")
		w.must(t, "ct", "clone", "edge-01/web", "web-2", "--start")
		if out := sh("web-2", "ls /srv/data"); out != "" {
			t.Errorf("the clone has %q", out)
		}
		w.must(t, "backup", "create", "edge-01/web", "b1")
		w.must(t, "snapshot", "create", "edge-01/web", "s1")
		w.must(t, "backup", "restore", "edge-01/web-3", "--from", "b1", "--start")
		if out := sh("web-3", "ls /srv/data"); out != "" {
			t.Errorf("what is restored has %q", out)
		}
		w.must(t, "snapshot", "rollback", "edge-01/web", "s1", "--restart", "--yes")
		if out := sh("web", "cat /srv/data/log"); out != strings.Repeat("again\n", len(images)) {
			t.Errorf("after a rollback the volume has %q", out)
		}
		for _, name := range []string{"web", "web-2", "web-3"} {
			w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
		}
	})
	t.Run("by a manifest", func(t *testing.T) {
		file := w.path("web.yaml")
		write(t, file, "version: 1\ncontainers:\n  - {host: edge-01, name: web, image: busybox, volumes: [\"data:/srv/data\"], mounts: [\""+mount+"\"], start: true}\n")
		w.must(t, "ct", "apply", "-f", file, "--yes")
		w.must(t, "ct", "apply", "-f", file, "--dry-run")
		if out := sh("web", "cat /srv/data/log /etc/shared"); !strings.HasSuffix(out, "of the host\n") {
			t.Errorf("it has %q", out)
		}
		write(t, file, "version: 1\ncontainers:\n  - {host: edge-01, name: web, image: busybox, volumes: [\"data:/srv/other\"]}\n")
		w.cli(t, "ct", "apply", "-f", file, "--yes").exits(t, 1, "volumes and mounts")
		w.must(t, "ct", "rm", "edge-01/web", "--yes")
	})
	if out := h.local(t, "volume", "--local", "ls", "-o", "name").exits(t, 0).stdout; out != "data\n" {
		t.Errorf("there are %q", out)
	}
	h.local(t, "volume", "--local", "rm", "data", "--yes").exits(t, 0)
	w.cli(t, "volume", "rm", "edge-01", "data", "--yes").exits(t, 1, "no such volume")
	w.cli(t, "ct", "create", "edge-01/bad", "busybox", "--mount", "/no/such/place:/srv").exits(t, 1, "/no/such/place")
	if entries, err := os.ReadDir(h.path("hostler-volumes")); err != nil || len(entries) != 0 {
		t.Errorf("of volumes there is left %v, %v", entries, err)
	}
}
