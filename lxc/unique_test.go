//go:build linux && cgo

package lxc_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/lxc"
)

// TestImageIsUnique: a container whose command an image gives learns its epoch as others do.
func TestImageIsUnique(t *testing.T) {
	m, registry := withImages(t)
	img := imagetest.Make(t, imagetest.Config{Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{`echo "$HOSTLER_EPOCH" in $(cat /etc/hostler/epoch) >/home/said; exec sleep 1000000`}},
		busybox(t), imagetest.Layer(t, imagetest.Entry{Header: fifo("home/said")}))
	spec := m.specs()
	spec.Template, spec.Unique = img.Push(t, registry, "site/unique", "1"), true
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Start(t.Context(), spec.Name); err == nil {
		t.Error("it is started under no epoch")
	}
	if _, err := m.StartOn(t.Context(), spec.Name, container.Terms{Epoch: "1.2.3", UntilMS: 1 << 60}); err != nil {
		t.Fatal(err)
	}
	heard(t, filepath.Join(m.cfg.LXCPath, spec.Name, "rootfs/home/said"), "1.2.3 in 1.2.3\n")
}

// TestEpochIsShown: the programs of LXC show the epoch of a unique container that runs. Each
// start sets it, as a label would.
func TestEpochIsShown(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.specs()
	spec.Unique = true
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []string{"1.2.3", "1.2.4"} {
		if _, err := m.StartOn(t.Context(), spec.Name, container.Terms{Epoch: epoch, UntilMS: 1 << 60}); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("lxc-ls", "-P", m.cfg.LXCPath, "--fancy", "--fancy-format", "NAME,GROUPS").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "hostler.epoch="+epoch) {
			t.Errorf("under epoch %s LXC shows %q, %v", epoch, out, err)
		}
		if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMonitorDies: the death of a container's monitor is the death of the container, so none
// goes on that nothing would tell of.
func TestMonitorDies(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	info := m.start(t, spec.Name)
	fd, err := unix.PidfdOpen(info.InitPID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	stat := read(t, fmt.Sprintf("/proc/%d/stat", info.InitPID))
	var monitor int
	if _, err := fmt.Sscanf(stat[strings.LastIndexByte(stat, ')')+1:], " %s %d", new(string), &monitor); err != nil || monitor < 2 {
		t.Fatalf("the monitor of process %d is %d, %v", info.InitPID, monitor, err)
	}
	if err := unix.Kill(monitor, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000); n != 1 {
		t.Errorf("the container outlives its monitor: %v", err)
	}
	// The monitor would have taken its control groups away, and the next one makes others.
	left := cgroups(t, spec.Name)
	slices.Sort(left)
	for _, group := range slices.Backward(left) {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	}
}

// TestUniqueBefore: a container that was made before starts wanted a permit wants one from
// its first start under an epoch on, and asks the helper where that is now. What else runs
// before its start goes on to do so.
func TestUniqueBefore(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	config := filepath.Join(m.cfg.LXCPath, spec.Name, "config")
	was, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, append(was, "lxc.hook.pre-start = /bin/true of others\n"...), 0o640)
	}
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "it's here", "hostler-lxc")
	if err := os.Mkdir(filepath.Dir(elsewhere), 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(m.cfg.Helper)
	if err == nil {
		err = builttest.Write(elsewhere, string(program))
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := m.cfg
	cfg.Helper = elsewhere
	moved, err := lxc.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*lxc.Runtime{m.Runtime, m.Runtime, moved} {
		if _, err := r.StartOn(t.Context(), spec.Name, container.Terms{Epoch: "1.2.3", UntilMS: 1 << 60}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Stop(t.Context(), spec.Name, 0); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("lxc-start", "-P", m.cfg.LXCPath, "-n", spec.Name).CombinedOutput(); err == nil {
			t.Errorf("it is started by hand: %s", out)
		}
		var hooks []string
		for line := range strings.Lines(read(t, config)) {
			if value, ok := strings.CutPrefix(line, "lxc.hook.pre-start = "); ok {
				hooks = append(hooks, strings.TrimSpace(value))
			}
		}
		if len(hooks) != 2 || hooks[0] != "/bin/true of others" || !strings.HasSuffix(hooks[1], "' may-start") {
			t.Errorf("before its start runs %q", hooks)
		}
	}
}
