package containertest

import (
	"errors"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// testFreeze: from running to frozen and back, however often it is asked for, with the
// same init. What is frozen can be stopped.
func testFreeze(t *testing.T, f *fixture) {
	freezer, ok := f.Runtime.(container.Freezer)
	if !ok {
		t.Fatalf("%T is no container.Freezer", f.Runtime)
	}
	spec := f.create(t)
	_, freeze := freezer.Freeze(f.ctx, spec.Name)
	_, thaw := freezer.Unfreeze(f.ctx, spec.Name)
	_, nobody := freezer.Freeze(f.ctx, f.Spec().Name)
	if !errors.Is(freeze, container.ErrNotRunning) || !errors.Is(thaw, container.ErrNotRunning) || !errors.Is(nobody, container.ErrNotFound) {
		t.Errorf("freezing what is stopped: %v; unfreezing it: %v; what is not there: %v", freeze, thaw, nobody)
	}
	init := f.start(t, spec.Name).InitPID
	for range 3 {
		for range 2 {
			info, err := freezer.Freeze(f.ctx, spec.Name)
			if err != nil || info.State != container.StateFrozen || info.InitPID != init {
				t.Fatalf("frozen: %+v, %v", info, err)
			}
		}
		if info, err := f.Runtime.Inspect(f.ctx, spec.Name); err != nil || info.State != container.StateFrozen {
			t.Fatalf("it is %+v, %v", info, err)
		}
		for range 2 {
			info, err := freezer.Unfreeze(f.ctx, spec.Name)
			if err != nil || info.State != container.StateRunning || info.InitPID != init {
				t.Fatalf("unfrozen: %+v, %v", info, err)
			}
		}
		f.wantState(t, spec.Name, container.StateRunning)
	}
	if _, err := freezer.Freeze(f.ctx, spec.Name); err != nil {
		t.Fatal(err)
	}
	f.stop(t, spec.Name)
	f.start(t, spec.Name)
}
