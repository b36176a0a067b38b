package lxc_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc"
)

// by starts a container and returns the helper that did it.
func by(t *testing.T, r *lxc.Runtime, name string) (pid int) {
	t.Helper()
	info, err := r.Start(t.Context(), name)
	if err != nil || info.Name != name {
		t.Fatalf("Start(%q) = %+v, %v", name, info, err)
	}
	return info.InitPID
}

// awaitGone waits until a helper has ended and was waited for.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("process %d lives", pid)
		}
	}
}

// TestOneHelperStartsManyInTurn: one helper starts several containers, one after another, until
// it is not fit for more.
func TestOneHelperStartsManyInTurn(t *testing.T) {
	r := broken(t, "starter", time.Minute)
	first := by(t, r, "a")
	for _, name := range []string{"b", "c", "last"} {
		if pid := by(t, r, name); pid != first {
			t.Errorf("%s was started by %d, want %d", name, pid, first)
		}
	}
	awaitGone(t, first)
	if pid := by(t, r, "d"); pid == first {
		t.Errorf("the next one was started by %d as well", pid)
	}
}

// TestHelperDiesOfOneStart: only the start in hand fails with its helper, and says that it was
// interrupted.
func TestHelperDiesOfOneStart(t *testing.T) {
	r := broken(t, "starter", time.Minute)
	first := by(t, r, "a")
	if _, err := r.Start(t.Context(), "fatal"); !errors.Is(err, container.ErrInterrupted) {
		t.Errorf("Start = %v, want ErrInterrupted", err)
	}
	awaitGone(t, first)
	second := by(t, r, "b")
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil { // while it waits
		t.Fatal(err)
	}
	awaitGone(t, second)
	if pid := by(t, r, "c"); pid == first || pid == second {
		t.Errorf("started by %d, which is dead", pid)
	}
}

// TestSlowStartHoldsUpNoOther: a start that hangs has its helper alone, which ends with its
// context.
func TestSlowStartHoldsUpNoOther(t *testing.T) {
	r := broken(t, "starter", time.Minute)
	slow := by(t, r, "a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.Start(ctx, "slow")
		ended <- err
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(r.Operations()) == 0 {
		<-tick.C
	}
	if at := r.Operations(); at[0].PID != slow || at[0].Name != "slow" {
		t.Errorf("under way is %+v, want process %d", at, slow)
	}
	other := by(t, r, "b")
	if other == slow {
		t.Error("one helper has two starts")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v, want that it was cancelled", err)
	}
	awaitGone(t, slow)
	if pid := by(t, r, "c"); pid != other {
		t.Errorf("started by %d, want %d, which waits", pid, other)
	}
}

// TestWaitingHelpersEnd: a helper waits for another start for a while, and not beyond Close.
func TestWaitingHelpersEnd(t *testing.T) {
	r := broken(t, "starter", time.Minute)
	awaitGone(t, by(t, r, "a"))
	pid := by(t, r, "b")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("after Close, process %d: %v", pid, err)
	}
}
