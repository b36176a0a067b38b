//go:build integration

package integration

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/btrfstest"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestContainerMove moves containers of LXC and podman between two hosts, with their files,
// a volume and all that they are kept with. They stay the containers that they were.
func TestContainerMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addPodmanHost(t, "edge-01")
	w.addPodmanHost(t, "edge-02")
	for runtime, template := range map[string]string{"lxc": "busybox", "podman": podmantest.Image} {
		t.Run(runtime, func(t *testing.T) {
			from, to := "edge-01/"+runtime, "edge-02/"+runtime
			w.must(t, "ct", "create", from, template, "--start", "--label", "app=web", "--limit", "memory=64MiB", "--hostname", "www", "--volume", runtime+":/srv/data", "--env", "A=b")
			w.must(t, "ct", "set", from, "--health-cmd", "--health-interval", "1s", "--", "test", "-f", "/root/state")
			w.must(t, "exec", from, "--", "sh", "-c", "mkdir -p /etc/ssh; echo 0123456789abcdef0123456789abcdef > /etc/machine-id; echo key > /etc/ssh/ssh_host_rsa_key; chmod 600 /etc/ssh/ssh_host_rsa_key; echo one > /root/state; chown 7:8 /root/state; echo row > /srv/data/row; chown 5:6 /srv/data/row")
			identity := func(where string) string {
				t.Helper()
				return w.must(t, "exec", where, "--", "sh", "-c", "cat /etc/machine-id /etc/ssh/ssh_host_rsa_key /root/state /srv/data/row; stat -c %u:%g /root/state /srv/data/row; hostname; cat /sys/class/net/eth0/address")
			}
			earlier := w.history(t, from)
			was, is := identity(from), show[ct](t, w, "ct", "show", from)
			w.cli(t, "ct", "move", from, "edge-02").exits(t, 4, "--yes")
			if r := w.cli(t, "ct", "move", from, "edge-02", "--dry-run", "-o", "json").exits(t, 0); !strings.Contains(r.stdout, `"bytes":`) || strings.Contains(r.stderr, "is not known") {
				t.Errorf("what it takes, and the room for it, is not looked at: %s%s", r.stdout, r.stderr)
			}
			if out := w.must(t, "ct", "move", from, "edge-02", "--dry-run", "--drop-snapshots", "-o", "json"); !strings.Contains(out, `"dropped_snapshots": [`) {
				t.Errorf("what would be lost is not told: %s", out)
			}
			if out := w.cli(t, "ct", "move", from, "edge-02", "--yes").exits(t, 0); !strings.Contains(out.stderr, "with its snapshots (2)") {
				t.Errorf("that they went along is not told: %s", out.stderr)
			}
			if now := identity(to); now != was {
				t.Errorf("it was\n%s\nand is\n%s", was, now)
			}
			now := w.container(t, to, "is well", func(c ct) bool { return c.State == "running" && c.Health == "healthy" })
			if now.CTID != is.CTID || strings.Join(now.Labels, " ") != "app=web" || strings.Join(now.Volumes, " ") != runtime+":/srv/data" || now.Intended != "running" {
				t.Errorf("it is kept as %+v", now)
			}
			if out := w.must(t, "ct", "limit", to, "-o", "json"); !strings.Contains(out, "64MiB") {
				t.Errorf("its limits are %s", out)
			}
			w.cli(t, "ct", "show", from).exits(t, 3)
			for _, host := range []string{"edge-01", "edge-02"} {
				if out := w.must(t, "backup", "ls", host, "-o", "name"); out != "" {
					t.Errorf("%s keeps the backup %s", host, out)
				}
			}
			if out := w.must(t, "volume", "ls", "edge-01", "-o", "name"); strings.Contains(out, runtime) {
				t.Errorf("its first host keeps the volume %s", out)
			}
			earlier.checkAt(t, w, to)
			w.must(t, "ct", "stop", to)
			w.must(t, "ct", "move", to, "edge-01", "--yes") // and back, as it is
			if c := show[ct](t, w, "ct", "show", from); c.State != "stopped" || c.Intended != "stopped" || c.CTID != is.CTID {
				t.Errorf("it came back as %+v", c)
			}
			w.must(t, "ct", "start", from)
			if now := identity(from); now != was {
				t.Errorf("it was\n%s\nand came back as\n%s", was, now)
			}
			earlier.checkAt(t, w, from)
		})
	}
}

// TestMoveBetweenStorages moves a container that shares the files of its image to a host with
// btrfs and back: its snapshots hold its changes alone, then they are subvolumes, and then
// directories with all files.
func TestMoveBetweenStorages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.newHost(t, "edge-01", false), w.newHost(t, "edge-02", false)
	btrfs := btrfstest.Mount(t) + "/lxc"
	write(t, second.config(), strings.Replace(read(t, second.config()), second.path("lxc"), btrfs, 1))
	for _, h := range []*host{first, second} {
		p, words := h.join(t, w.invite(t))
		w.must(t, "host", "approve", h.name, "--words", words)
		p.finish(t).exits(t, 0)
		h.start(t)
	}
	w.must(t, "ct", "create", "edge-01/base", "--template", "busybox")
	w.must(t, "image", "promote", "edge-01/base", "base:1")
	w.must(t, "ct", "create", "edge-01/web", "localhost/base:1", "--start")
	if out := w.must(t, "ct", "config", "get", "edge-01/web", "rootfs"); out != "overlay\n" {
		t.Fatalf("this test needs files that are shared, and it has %q", out)
	}
	earlier := w.history(t, "edge-01/web")
	w.must(t, "ct", "move", "edge-01/web", "edge-02", "--yes")
	if out := w.must(t, "exec", "edge-02/web", "--", "cat", "/root/when"); out != "now\n" {
		t.Errorf("it came as %q", out)
	}
	earlier.checkAt(t, w, "edge-02/web")
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(btrfs, "web", "rootfs"), &st); err != nil || st.Ino != 256 {
		t.Errorf("on btrfs its files are %+v, %v, want a subvolume", st, err)
	}
	w.must(t, "ct", "move", "edge-02/web", "edge-01", "--yes")
	earlier.checkAt(t, w, "edge-01/web")
	w.cli(t, "ct", "move", "edge-01/web", "edge-02", "--drop-snapshots").exits(t, 4, "--yes")
	if out := w.cli(t, "ct", "move", "edge-01/web", "edge-02", "--drop-snapshots", "--yes").exits(t, 0); !strings.Contains(out.stderr, "without its snapshots, which are removed: one, two") {
		t.Errorf("what was lost is not told: %s", out.stderr)
	}
	if all := show[past](t, w, "snapshot", "ls", "edge-02/web"); len(all) > 0 {
		t.Errorf("what was to be left behind came: %+v", all)
	}
	for _, name := range []string{"edge-01/base", "edge-02/web"} {
		w.must(t, "ct", "rm", name, "--yes")
	}
}

// past are the snapshots of a container, the newest first.
type past []api.ContainerSnapshot

// history makes two snapshots of a container that runs. Between them it changes a file, and
// removes one that came with its image.
func (w *world) history(t *testing.T, where string) past {
	t.Helper()
	for _, line := range []string{"echo one > /root/when", "echo two > /root/when; rm /bin/cp", "echo now > /root/when"} {
		w.must(t, "exec", where, "--", "sh", "-c", line+"; chown 9:9 /root/when")
		if word := strings.Fields(line)[1]; word != "now" {
			w.must(t, "snapshot", "create", where, word, "--pause")
		}
	}
	all := show[past](t, w, "snapshot", "ls", where)
	if len(all) != 2 {
		t.Fatalf("there are the snapshots %+v", all)
	}
	return all
}

// checkAt: a container has these snapshots, and can have the files of each.
func (p past) checkAt(t *testing.T, w *world, where string) {
	t.Helper()
	is := show[past](t, w, "snapshot", "ls", where)
	if len(is) != len(p) {
		t.Fatalf("%s has the snapshots %+v, want %+v", where, is, p)
	}
	for i, was := range p {
		if is[i].Name != was.Name || !is[i].Made.Equal(was.Made) || is[i].Paused != was.Paused || is[i].Damaged || is[i].Entries < 3 {
			t.Errorf("%s has the snapshot %+v, and it was %+v", where, is[i], was)
		}
	}
	for name, want := range map[string]string{"one": "one 9:9 with\n", "two": "two 9:9 without\n"} {
		w.must(t, "snapshot", "rollback", where, name, "--restart", "--yes")
		if got := w.must(t, "exec", where, "--", "sh", "-c", "echo $(cat /root/when) $(stat -c %u:%g /root/when) $(test -e /bin/cp && echo with || echo without)"); got != want {
			t.Errorf("%s rolled back to %s has %q, want %q", where, name, got, want)
		}
	}
}

// TestMoveCutShort: a move that the other host refuses leaves the container running where
// it was; one whose program is killed leaves it whole, and the same words go on with it.
func TestMoveCutShort(t *testing.T) {
	t.Parallel()
	l := newLab(t, "2")
	create := func(name string, more ...string) string {
		t.Helper()
		l.must(t, append([]string{"ct", "create", "edge-01/" + name, "--template", "busybox", "--start", "--volume", name + ":/srv"}, more...)...)
		l.must(t, "exec", "edge-01/"+name, "--", "sh", "-c", "echo "+name+" > /srv/row")
		return "edge-01/" + name
	}
	runs := func(where string) {
		t.Helper()
		l.container(t, where, "runs", func(c ct) bool { return c.State == "running" })
		_, name, _ := strings.Cut(where, "/")
		if out := l.must(t, "exec", where, "--", "cat", "/srv/row"); out != name+"\n" {
			t.Errorf("%s has %q in its volume", where, out)
		}
	}
	web := create("web", "--expose", "8080:80")
	l.must(t, "ct", "create", "edge-02/other", "--template", "busybox", "--expose", "8080:80", "--start")
	l.cli(t, "ct", "move", web, "edge-02", "--yes").exits(t, 4, "port 8080/tcp of edge-02 leads to container other")
	runs(web)
	l.must(t, "net", "unexpose", "edge-02/other", "8080")

	sick := create("sick")
	l.must(t, "ct", "set", sick, "--health-cmd", "--health-interval", "1s", "--health-retries", "1", "--health-action", "mark", "--", "test", "!", "-e", "/sick")
	l.must(t, "exec", sick, "--", "touch", "/sick")
	l.cli(t, "ct", "move", sick, "edge-02", "--yes").exits(t, 1, "unhealthy", "runs again on edge-01")
	l.cli(t, "ct", "show", "edge-02/sick").exits(t, 3)
	if out := l.must(t, "volume", "ls", "edge-02", "-o", "name"); out != "" {
		t.Errorf("a move that failed has left the volume %s", out)
	}
	l.must(t, "exec", sick, "--", "rm", "/sick")
	runs(sick)

	earlier := l.history(t, web)
	for _, at := range []string{"stop the container", "back it up", "bring the backup over", "make and start", "remove the container from", "remove the backup of"} {
		p := l.start(t, "hostler", "ct", "move", web, "edge-02", "--yes")
		p.says(t, p.talk, at)
		p.end(t, kill)
		l.cli(t, "ct", "show", "edge-02/web") // whatever it has come to
	}
	l.must(t, "ct", "move", web, "edge-02", "--yes")
	runs("edge-02/web")
	earlier.checkAt(t, l.world, "edge-02/web")
	l.cli(t, "ct", "show", web).exits(t, 3)
	for _, host := range []string{"edge-01", "edge-02"} {
		if out := l.must(t, "backup", "ls", host, "-o", "name"); out != "" {
			t.Errorf("%s keeps the backup %s", host, out)
		}
	}
}

// TestMoveEnded: a container that a person starts on its first host while the other one has
// it already is not removed by the move, and what was written there is not lost.
func TestMoveEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t, "2")
	l.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start", "--volume", "web:/srv")
	l.must(t, "ct", "set", "edge-01/web", "--health-cmd", "--health-interval", "1s", "--health-start", "1h", "--health-action", "mark", "--", "test", "-e", "/srv/well")
	p := l.start(t, "hostler", "ct", "move", "edge-01/web", "edge-02", "--yes")
	p.says(t, p.talk, "make and start the container")
	l.container(t, "edge-02/web", "runs", func(c ct) bool { return c.State == "running" })
	l.must(t, "ct", "start", "edge-01/web")
	l.must(t, "exec", "edge-01/web", "--", "sh", "-c", "echo new > /srv/row")
	v := show[[]api.Volume](t, l.world, "volume", "ls", "edge-02") // commands in it wait until it is well
	l.must(t, "run", "edge-02", "--", "touch", filepath.Join(v[0].Path, "data", "well"))
	p.finish(t).exits(t, 1, "is not being moved to edge-02 any more", "edge-02 has the container")
	if out := l.must(t, "exec", "edge-01/web", "--", "cat", "/srv/row"); out != "new\n" {
		t.Errorf("what was written since is %q", out)
	}
	l.cli(t, "ct", "move", "edge-01/web", "edge-02", "--yes").exits(t, 4, "hostler ct rm edge-02/web")
	l.must(t, "ct", "rm", "edge-02/web", "--yes")
	l.must(t, "volume", "rm", "edge-02", "web", "--yes")
	l.must(t, "exec", "edge-01/web", "--", "touch", "/srv/well")
	l.must(t, "ct", "move", "edge-01/web", "edge-02", "--yes")
	if out := l.must(t, "exec", "edge-02/web", "--", "cat", "/srv/row"); out != "new\n" {
		t.Errorf("it has come with %q", out)
	}
}
