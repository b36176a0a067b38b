//go:build integration

package integration

import (
	"fmt"
	"os"
	"testing"
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
	mkdir(t, d.dir)
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
func fillHost(t *testing.T, disk func(*world) *disk, size int) {
	w := newWorld(t)
	d := disk(w)
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
