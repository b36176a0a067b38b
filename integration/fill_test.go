//go:build integration

package integration

import (
	"fmt"
	"os"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// fileSystems are the kinds on which programs fill their disks by themselves.
var fileSystems = map[string]func(w *world, t testing.TB, name string, size int64) *disk{
	"ext4":  func(w *world, t testing.TB, name string, size int64) *disk { return w.newDiskOf(t, name, size) },
	"tmpfs": (*world).newMemoryDisk,
}

// newMemoryDisk mounts a tmpfs at a directory of the world.
func (w *world) newMemoryDisk(t testing.TB, name string, size int64) *disk {
	t.Helper()
	d := &disk{w: w, dir: w.path(name)}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.tool(t, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("mode=700,size=%d", size), "tmpfs", d.dir)
	w.disks = append(w.disks, d)
	return d
}

// TestHostFillsItsDisk lets commands write more than the disk of their host takes,
// side by side and one after the other: every one of them ends, and the host goes
// on, also after a kill.
func TestHostFillsItsDisk(t *testing.T) {
	t.Parallel()
	for name, make := range fileSystems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fillHost(t, func(w *world) *disk { return make(w, t, "edge-01", 64<<20) }, 8<<20)
		})
	}
}

// fillHost has commands write size bytes each on a host with a disk for half of that.
// Then others fill it, and the host is started on it: what commands have left goes.
func fillHost(t *testing.T, mount func(*world) *disk, size int) {
	w := newWorld(t)
	d := mount(w)
	h := w.addHost(t, "edge-01", false)
	write := func(n int) (ids []string) {
		for range n {
			ids = append(ids, w.submit(t, "edge-01", "head", "-c", fmt.Sprint(size), "/dev/zero"))
		}
		return ids
	}
	for id, end := range w.ended(t, write(12)...) {
		if end != "DONE ok" {
			t.Errorf("%s, of those at a time, is %s", id, end)
		}
	}
	for range 3 {
		w.done(t, write(1)[0])
	}
	late := write(4)
	h.agent.end(t, kill)
	h.start(t)
	for _, id := range late {
		w.done(t, id)
	}
	h.degraded(t, false)
	w.works(t, "edge-01")
	h.agent.end(t, kill)
	d.fill(t)
	h.start(t)
	h.degraded(t, false)
	w.works(t, "edge-01")
	if _, err := os.Stat(h.path("queue.db-reserve")); err != nil {
		t.Errorf("no space is set aside: %v", err)
	}
}

// TestCoordinatorFillsItsDisk follows more output than the disk of the coordinator
// takes: what ended first goes, and orders are taken all the time, also after a kill
// and on a disk that others have filled.
func TestCoordinatorFillsItsDisk(t *testing.T) {
	t.Parallel()
	for name, make := range fileSystems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fillCoordinator(t, func(w *world) *disk { return make(w, t, "coordinator", 64<<20) }, 8<<20)
		})
	}
}

// fillCoordinator has commands write size bytes each, all of which somebody follows.
func fillCoordinator(t *testing.T, mount func(*world) *disk, size int) {
	var d *disk
	w := newWorld(t, func(w *world) { d = mount(w) })
	w.addHost(t, "edge-01", false)
	write := func(n int) {
		for range n {
			if out := w.must(t, "run", "edge-01", "--", "head", "-c", fmt.Sprint(size), "/dev/zero"); len(out) != size {
				t.Fatalf("%d bytes arrived, %d were written", len(out), size)
			}
		}
	}
	again := func() {
		from := w.events.mark()
		w.startCoordinator(t)
		w.event(t, from, "the host is back", func(e api.Event) bool { return e.Type == "host.online" })
	}
	write(9)
	w.coordinator.end(t, kill)
	again()
	write(2)
	w.coordinator.end(t, kill)
	d.fill(t)
	again()
	w.works(t, "edge-01")
	write(1)
}
