package containertest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
)

// never is a time of the boot clock that no machine comes to.
const never = int64(1) << 60

// testUnique: no program starts a unique container without an epoch and a permit. The
// container is told the epoch, and its processes are in the group that the runtime names.
func testUnique(t *testing.T, f *fixture) {
	h, ok := f.Runtime.(container.Holder)
	if !ok {
		return
	}
	spec := f.Spec()
	spec.Unique = true
	f.remove(t, spec.Name)
	if err := f.creator.Create(f.ctx, spec); err != nil {
		t.Fatal(err)
	}
	group, err := h.Group(f.ctx, spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	f.refused(t, h, spec.Name)
	for _, epoch := range []string{"1.7.1", "1.7.2"} {
		info, err := h.StartOn(f.ctx, spec.Name, container.Terms{Epoch: epoch, UntilMS: never})
		if err != nil {
			t.Fatal(err)
		}
		if _, seen := f.Runtime.(container.Filer); seen {
			told(t, info.InitPID, epoch, group)
		}
		// One that runs goes on as it is.
		again, err := h.StartOn(f.ctx, spec.Name, container.Terms{Epoch: "1.7.9", UntilMS: never})
		if err != nil || again.InitPID != info.InitPID {
			t.Errorf("started once more it is %+v, %v; want %+v", again, err, info)
		}
		f.stop(t, spec.Name)
		f.refused(t, h, spec.Name)
	}
	if err := f.creator.Destroy(f.ctx, spec.Name); err != nil {
		t.Error(err)
	}
}

// refused wants that a unique container does not start, by its runtime or by hand.
func (f *fixture) refused(t *testing.T, h container.Holder, name string) {
	t.Helper()
	if _, err := f.Runtime.Start(f.ctx, name); err == nil {
		t.Error("it is started under no epoch")
	}
	if _, err := h.StartOn(f.ctx, name, container.Terms{Epoch: "1.7.1", UntilMS: 1}); err == nil {
		t.Error("it is started though its lease has ended")
	}
	if f.ByHand != nil {
		if err := f.ByHand(t, name); err == nil {
			t.Error("it is started by hand")
		}
	}
	f.wantState(t, name, container.StateStopped)
}

// Environ returns the variables of the first process of a container, which has a variable
// of that name: a runtime may tell of the process a moment before it runs the program of the
// container, when its variables are still those of the runtime.
func Environ(init int, name string) ([]string, error) {
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", init))
		all := strings.Split(string(b), "\x00")
		if err != nil || time.Now().After(end) || slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, name+"=") }) {
			return all, err
		}
	}
}

// told wants that the first process of a container is told an epoch, and is in a group.
func told(t *testing.T, init int, epoch, group string) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", init)
	env, err := Environ(init, container.EpochVariable)
	if want := container.EpochVariable + "=" + epoch; err != nil || !slices.Contains(env, want) {
		t.Errorf("its first process has %q, %v; want %s", env, err, want)
	}
	file := filepath.Join(proc, "root", container.EpochFile)
	if b, err := os.ReadFile(file); err != nil || string(b) != epoch+"\n" {
		t.Errorf("%s says %q, %v; want %s", container.EpochFile, b, err, epoch)
	}
	if f, err := os.OpenFile(file, os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Errorf("%s can be written in the container", container.EpochFile)
	}
	groups, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil || !strings.Contains(strings.ReplaceAll(string(groups), "\n", "/")+"/", "/"+group+"/") {
		t.Errorf("it is in %q, %v; want %s", groups, err, group)
	}
}
