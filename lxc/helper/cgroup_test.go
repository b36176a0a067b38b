//go:build linux && cgo

package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/runner/supervise"
)

// makeCgroups makes one cgroup of that name below the place in each hierarchy, and
// removes what is left of them at the end of the test.
func makeCgroups(t *testing.T, place home, name string) home {
	t.Helper()
	if len(place) == 0 {
		t.Fatal("no hierarchy is mounted")
	}
	made := make(home)
	for hierarchy, place := range place {
		if strings.Contains(hierarchy, "cpuset") {
			continue // a new one there takes nobody until it was configured
		}
		dir := filepath.Join(place, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
		made[hierarchy] = dir
	}
	return made
}

// present counts the cgroups that exist.
func (h home) present() (n int) {
	for _, dir := range h {
		if _, err := os.Stat(dir); err == nil {
			n++
		}
	}
	return n
}

// lodger puts a process of its own into the cgroups until the test ends or out is called.
func lodger(t *testing.T, places home) (out func()) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out = sync.OnceFunc(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(out)
	for _, dir := range places {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestComingHome moves this process and back: a cgroup that it was alone in goes,
// one that somebody else is in stays.
func TestComingHome(t *testing.T) {
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	h, err := findHome()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.comeBack() })
	for name, shared := range map[string]bool{"alone": false, "shared": true} {
		name = fmt.Sprintf("hlt-home-%d-%s", os.Getpid(), name)
		away := makeCgroups(t, h, name)
		want := 0
		if shared {
			want = len(away)
			lodger(t, away)
		}
		if err := away.enter(h); err != nil {
			t.Fatal(err)
		}
		if moved, err := os.ReadFile("/proc/self/cgroup"); err != nil || strings.Count(string(moved), name) != len(away) {
			t.Fatalf("not moved: %s, %v", moved, err)
		}
		if err := h.comeBack(); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile("/proc/self/cgroup"); err != nil || string(after) != string(before) {
			t.Errorf("from\n%sback to\n%s%v", before, after, err)
		}
		if got := away.present(); got != want {
			t.Errorf("%s: %d of %d cgroups exist, want %d", name, got, len(away), want)
		}
	}
}

// TestSweep: what was abandoned long ago goes, however liblxc numbered it; what
// is young, in use or somebody else's stays.
func TestSweep(t *testing.T) {
	name := fmt.Sprintf("hlt-sweep-%d", os.Getpid())
	first, err := supervise.Cgroups("1")
	if err != nil {
		t.Fatal(err)
	}
	plain, numbered := makeCgroups(t, first, "lxc.monitor."+name), makeCgroups(t, first, "lxc.payload."+name+"-12")
	deep := makeCgroups(t, first, filepath.Join("lxc.payload."+name+"-12", "init.scope"))
	other := makeCgroups(t, first, "lxc.monitor."+name+"-x")
	used := makeCgroups(t, first, "lxc.payload."+name)
	below := makeCgroups(t, first, filepath.Join("lxc.payload."+name, "system.slice"))
	empty := makeCgroups(t, first, filepath.Join("lxc.payload."+name, "user.slice"))
	out := lodger(t, below)
	check := func(when string, gone []home, kept []home) {
		t.Helper()
		for i, h := range gone {
			if n := h.present(); n != 0 {
				t.Errorf("%s: %d of litter %d are there", when, n, i)
			}
		}
		for i, h := range kept {
			if n := h.present(); n != len(h) {
				t.Errorf("%s: only %d of %d of the rest %d are there", when, n, len(h), i)
			}
		}
	}
	sweep(name, time.Now())
	check("young", nil, []home{plain, numbered, deep, other, used, below, empty})
	later := time.Now().Add(2 * litterAge)
	sweep(name, later)
	check("later", []home{plain, numbered, deep}, []home{other, used, below, empty})
	out()
	sweep(name, later)
	check("when the last has left", []home{used, below, empty}, []home{other})
}

func TestLitterName(t *testing.T) {
	for dir, want := range map[string]bool{
		"lxc.monitor.a.b": true, "lxc.payload.a.b": true, "lxc.monitor.a.b-1": true, "lxc.payload.a.b-999": true,
		"lxc.monitor.a.b-0": false, "lxc.monitor.a.b-1000": false, "lxc.monitor.a.b-1x": false, "lxc.monitor.a.b-": false,
		"lxc.monitor.axb": false, "lxc.monitor.a.b.c": false, "lxc.pivot": false, "xlxc.monitor.a.b": false,
	} {
		if got := litterName("a.b").MatchString(dir); got != want {
			t.Errorf("%s: %t, want %t", dir, got, want)
		}
	}
}
