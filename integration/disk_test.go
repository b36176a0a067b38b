//go:build integration

package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/api"
)

// disk is a small file system of its own, ext4 over a file in memory, that can
// be filled, made to refuse every write, and stopped.
type disk struct {
	w     *world
	dir   string
	image string // empty: a tmpfs
}

// newDisk mounts a small one at a directory of the world, which must not be in use.
func (w *world) newDisk(t testing.TB, name string, mkfs ...string) *disk {
	t.Helper()
	return w.newDiskOf(t, name, 24<<20, mkfs...)
}

func (w *world) newDiskOf(t testing.TB, name string, size int64, mkfs ...string) *disk {
	t.Helper()
	d := &disk{w: w, dir: w.path(name)}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp("/dev/shm", "hi-disk-")
	if err != nil {
		t.Fatal(err)
	}
	d.image = f.Name()
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	w.disks = append(w.disks, d)
	w.tool(t, append(append([]string{"mkfs.ext4", "-q"}, mkfs...), d.image)...)
	w.tool(t, "mount", "-o", "loop", d.image, d.dir)
	if err := os.Remove(filepath.Join(d.dir, "lost+found")); err != nil {
		t.Fatal(err)
	}
	return d
}

// close takes the disk away; whoever used it is gone.
func (d *disk) close() error {
	_ = d.freeze(false)                     // it may run
	_ = d.immutable(false)                  // it may be writable
	_ = exec.Command("umount", d.dir).Run() // it may not be mounted
	if d.image == "" {
		return nil
	}
	return os.Remove(d.image)
}

// fill leaves no byte.
func (d *disk) fill(t testing.TB) {
	t.Helper()
	f, err := os.Create(filepath.Join(d.dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// free gives the space back.
func (d *disk) free(t testing.TB) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.dir, "filler")); err != nil {
		t.Fatal(err)
	}
}

// fillInodes leaves no file to make, and returns what undoes it.
func (d *disk) fillInodes(t testing.TB) (undo func()) {
	t.Helper()
	dir := filepath.Join(d.dir, "inodes")
	mkdir(t, dir)
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// readOnly makes every write fail, to files that are open as well, as after an
// error of the device; a real one of those can only be undone by unmounting.
func (d *disk) readOnly(t testing.TB, on bool) {
	t.Helper()
	if err := d.immutable(on); err != nil {
		t.Fatal(err)
	}
}

func (d *disk) immutable(on bool) error {
	flag := "-i"
	if on {
		flag = "+i"
	}
	var all []string
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && (e.IsDir() || e.Type().IsRegular()) {
			all = append(all, path)
		}
		return nil // what vanishes needs no flag
	})
	_ = exec.Command("chattr", append([]string{flag, "-f"}, all...)...).Run() // as before
	return err
}

// freeze makes every write wait until it is undone.
func (d *disk) freeze(on bool) error {
	flag := "--unfreeze"
	if on {
		flag = "--freeze"
	}
	if b, err := exec.Command("fsfreeze", flag, d.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("fsfreeze %s: %w: %s", flag, err, bytes.TrimSpace(b))
	}
	return nil
}

// onDisk prepares a host whose state lies on a disk of its own, and lets it in.
func (w *world) onDisk(t testing.TB, name string, mkfs ...string) (*host, *disk) {
	t.Helper()
	d := w.newDisk(t, name, mkfs...)
	return w.addHost(t, name, false), d
}

// works runs a command on a host, and reads its output.
func (w *world) works(t testing.TB, host string) {
	t.Helper()
	if out := w.must(t, "run", host, "--", "echo", "it works"); out != "it works\n" {
		t.Errorf("%s printed %q", host, out)
	}
}

// stayedOnline checks that no host was lost sight of since a position.
func (w *world) stayedOnline(t testing.TB, from int) {
	t.Helper()
	for _, e := range w.events.since(from) {
		if e.Type == "host.offline" || e.Type == "host.late" || e.Type == "host.quarantined" {
			t.Errorf("%s: %s %v", e.Host, e.Type, e.Data)
		}
	}
}

// awaitLine waits until a command has written a line.
func awaitLine(t testing.TB, path, line string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no line %q: %v", filepath.Base(path), line, err)
		}
		elapse(t, 20*time.Millisecond)
	}
}

// degraded waits until the agent says that it is, or that it is no more.
func (h *host) degraded(t testing.TB, want bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if strings.Contains(h.get(t, "/status"), `"degraded"`) == want {
			return
		}
		elapse(t, 200*time.Millisecond)
	}
	t.Fatalf("degraded is not %t: %s", want, h.get(t, "/status"))
}

// TestHostDisk takes the disk of a host away in every way and gives it back.
// Nothing new is accepted meanwhile, what runs goes on and its end is told, the
// host stays in contact, and afterwards the same process works as before.
func TestHostDisk(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(testing.TB, *disk) func(){
		"full": func(t testing.TB, d *disk) func() {
			d.fill(t)
			return func() { d.free(t) }
		},
		"read only": func(t testing.TB, d *disk) func() {
			d.readOnly(t, true)
			return func() { d.readOnly(t, false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			h, d := w.onDisk(t, "edge-01")
			pid := h.agent.pid()
			gates := []string{w.fifo(t, "gate-1"), w.fifo(t, "gate-2")}
			var begun []string
			for _, gate := range gates {
				begun = append(begun, w.submit(t, "edge-01", "sh", "-c", `echo begun >>"$0.begun"; read x <"$0"`, gate))
			}
			for _, gate := range gates {
				awaitLine(t, gate+".begun", "begun")
			}

			w.ruled(t, "stuck", "degraded=yes/15s:critical", "-A")
			from := w.events.mark()
			back := take(t, d)
			waits := w.submit(t, "edge-01", "touch", w.path("witness"))
			h.degraded(t, true)
			release(t, gates[0]) // it ends while nothing can be written
			if r := h.local(t, "run", "--local", "--", "true"); r.code == 0 || !strings.Contains(r.stderr, "disk") {
				t.Errorf("a local command: exit code %d, %s", r.code, r.stderr)
			}
			elapse(t, 40*time.Second) // longer than renewals are apart
			w.stayedOnline(t, from)
			if all := show[[]api.Host](t, w, "host", "ls"); len(all) != 1 || all[0].State != "degraded" || all[0].Degraded == "" || !slices.Equal(codes(all[0]), []string{"host.degraded", "measured.degraded.critical"}) {
				t.Errorf("host ls shows %+v", all)
			}
			if out := w.must(t, "host", "ls"); !regexp.MustCompile(`(?m)^edge-01 +degraded .* {3}\S+ .*disk`).MatchString(out) {
				t.Errorf("host ls does not say why the host is degraded:\n%s", out)
			}
			if out := w.must(t, "why", waits); !strings.Contains(out, "accepts nothing new") || !strings.Contains(out, "disk") {
				t.Errorf("why does not name the disk:\n%s", out)
			}
			if _, err := os.Stat(w.path("witness")); err == nil {
				t.Error("an order was begun that could not be written down")
			}
			if h.agent.ended() {
				t.Fatal("the agent has ended")
			}
			back()
			h.degraded(t, false)
			w.alerts(t, "edge-01")
			release(t, gates[1])
			for _, id := range append(begun, waits) {
				w.done(t, id)
			}
			w.works(t, "edge-01")
			if h.agent.pid() != pid || h.agent.ended() {
				t.Error("the agent was started again")
			}
			h.restart(t, kill)
			w.works(t, "edge-01")
			w.quiet(t)
		})
	}
}

// TestHostWithoutInodes cannot make the directory of a command: it ends in one
// final state, and the next one works when there is room.
func TestHostWithoutInodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, d := w.onDisk(t, "edge-01", "-N", "256")
	undo := d.fillInodes(t)
	id := w.submit(t, "edge-01", "touch", w.path("witness"))
	elapse(t, 3*time.Second)
	if h.agent.ended() {
		t.Fatal("the agent has ended")
	}
	undo()
	got := w.ended(t, id)[id]
	_, err := os.Stat(w.path("witness"))
	if ran := err == nil; ran != (got == "DONE ok") {
		t.Errorf("the command is %s, and its effect is there: %t", got, ran)
	}
	w.works(t, "edge-01")
}

// TestHostDiskStalls stops the disk for longer than renewals are apart, as a
// worn-out card does: the host stays in contact all the time.
func TestHostDiskStalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, d := w.onDisk(t, "edge-01")
	from := w.events.mark()
	if err := d.freeze(true); err != nil {
		t.Fatal(err)
	}
	waits := w.submit(t, "edge-01", "true")
	elapse(t, 100*time.Second) // longer than a lease
	w.stayedOnline(t, from)
	if err := d.freeze(false); err != nil {
		t.Fatal(err)
	}
	w.done(t, waits)
}

// TestCoordinatorDisk takes the disk of the coordinator away and gives it back.
// Who asks is told, hosts stay and work on, and what they did meanwhile arrives.
func TestCoordinatorDisk(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(testing.TB, *disk) func(){
		"full": func(t testing.TB, d *disk) func() {
			d.fill(t)
			return func() { d.free(t) }
		},
		"read only": func(t testing.TB, d *disk) func() {
			d.readOnly(t, true)
			return func() { d.readOnly(t, false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d *disk
			w := newWorld(t, func(w *world) { d = w.newDisk(t, "coordinator") })
			h := w.addHost(t, "edge-01", false)
			gate := w.fifo(t, "gate-coordinator")
			begun := w.submit(t, "edge-01", "sh", "-c", `read x <"$0"; echo over`, gate)
			w.state(t, begun, "RUNNING")
			from := w.events.mark()
			back := take(t, d)
			w.cli(t, "run", "edge-01", "--no-wait", "--", "true").exits(t, 125, "disk")
			w.must(t, "host", "ls")
			release(t, gate)
			own := strings.TrimSpace(h.local(t, "run", "--local", "--no-wait", "--", "true").exits(t, 0).stdout)
			elapse(t, 40*time.Second)
			w.stayedOnline(t, from)
			if w.coordinator.ended() {
				t.Fatal("the coordinator has ended")
			}
			back()
			w.done(t, begun)
			w.done(t, own)
			if out := w.must(t, "action", "logs", begun, "--follow"); out != "over\n" {
				t.Errorf("the output is %q", out)
			}
			w.works(t, "edge-01")
			w.coordinator.end(t, kill)
			from = w.events.mark()
			w.startCoordinator(t)
			w.event(t, from, "the host is back", func(e api.Event) bool { return e.Type == "host.online" })
			w.works(t, "edge-01")
		})
	}
}
