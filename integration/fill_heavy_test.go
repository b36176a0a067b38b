//go:build integration && heavy

package integration

import "testing"

// TestHostFillsALargerDisk is TestHostFillsItsDisk with outputs of the size at which
// their middle would go.
func TestHostFillsALargerDisk(t *testing.T) {
	for name, make := range fileSystems {
		t.Run(name, func(t *testing.T) {
			fillHost(t, func(w *world) *disk { return make(w, t, "edge-01", 1<<30) }, 100<<20)
		})
	}
}

// TestManySmallCommandsOnASmallDisk runs more commands than the disk of their host
// has room for the directories of.
func TestManySmallCommandsOnASmallDisk(t *testing.T) {
	w := newWorld(t)
	w.newDisk(t, "edge-01")
	h := w.addHost(t, "edge-01", false)
	var ids []string
	for range 1000 {
		ids = append(ids, w.submit(t, "edge-01", "true"))
	}
	for id, end := range w.ended(t, ids...) {
		if end != "DONE ok" {
			t.Errorf("%s is %s", id, end)
		}
	}
	h.degraded(t, false)
	w.works(t, "edge-01")
}

// TestCoordinatorFillsALargerDisk is TestCoordinatorFillsItsDisk with outputs of the
// size up to which all of one is kept.
func TestCoordinatorFillsALargerDisk(t *testing.T) {
	for name, make := range fileSystems {
		t.Run(name, func(t *testing.T) {
			fillCoordinator(t, func(w *world) *disk { return make(w, t, "coordinator", 1<<30) }, 64<<20)
		})
	}
}
