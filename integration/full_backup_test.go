//go:build integration

package integration

import (
	"os"
	"strings"
	"testing"
)

// TestFullDiskUnderBackups backs a coordinator up to a disk that is full, or becomes
// so, and restores it there. What fails leaves nothing that looks like a backup or like
// a coordinator, says what to do, and succeeds when that was done.
func TestFullDiskUnderBackups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.newDisk(t, "small")
	try := func(args ...string) result {
		return w.start(t, "hostler-coordinator", append([]string{"--config", w.path("coordinator.toml")}, args...)...).finish(t)
	}
	left := func(bytes int64) {
		t.Helper()
		d.fill(t)
		filler := d.dir + "/filler"
		info, err := os.Stat(filler)
		if err == nil && bytes > 0 {
			err = os.Truncate(filler, info.Size()-bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	names := func() string {
		t.Helper()
		entries, err := os.ReadDir(d.dir)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return strings.Join(all, " ")
	}
	for _, room := range []int64{0, 64 << 10} {
		left(room)
		try("backup", d.dir).exits(t, 1, "no space left", "Nothing is left of it", "Make room first. Run it again")
		if got := names(); got != "filler" {
			t.Errorf("a backup that failed leaves %s", got)
		}
		d.free(t)
	}
	backup := field(t, try("backup", d.dir).exits(t, 0).stdout, "backup")
	w.coordinator.end(t, kill)
	target := d.dir + "/state"
	for _, room := range []int64{0, 64 << 10} {
		left(room)
		try("restore", backup, "--state", target).exits(t, 1, "no space left", "no coordinator starts there", "Make room first. Run it again")
		d.free(t)
	}
	write(t, w.path("coordinator.toml"), strings.Replace(read(t, w.path("coordinator.toml")), w.path("coordinator"), target, 1))
	try("run").exits(t, 1, "a restore was interrupted")
	try("restore", backup).exits(t, 0)
	try("run").exits(t, 1, "Run: hostler-coordinator recover")
	w.recovered(t)
	w.startCoordinator(t)
	w.must(t, "status")
}
