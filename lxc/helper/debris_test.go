//go:build linux && cgo

package helper

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
)

// TestSweepDebris: what nobody can ask for again goes, what somebody has or works
// on stays.
func TestSweepDebris(t *testing.T) {
	const (
		there   = container.CTID("01a1f959-9dab-7cfe-9418-7635d0596501")
		gone    = container.CTID("01a1f959-9dab-7cfe-9418-7635d0596502")
		staged  = container.CTID("01a1f959-9dab-7cfe-9418-7635d0596503")
		working = container.CTID("01a1f959-9dab-7cfe-9418-7635d0596504")
	)
	h := &host{path: t.TempDir(), locks: t.TempDir()}
	if err := h.sweepDebris(); err != nil {
		t.Fatalf("of nothing: %v", err)
	}
	for _, dir := range []string{h.dir("web"), h.dir("foreign"), h.staging(staged), h.staging(working)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeRecord(h.dir("web"), record{CTID: there, Template: "busybox", State: recordReady}); err != nil {
		t.Fatal(err)
	}
	held := make(map[string]*locked)
	for _, key := range []string{string(there), string(gone), string(working), "foreign", "forgotten"} {
		l, err := lock(h.locks, key, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		held[key] = l
	}
	sweep := func(want ...string) {
		t.Helper()
		if err := h.sweepDebris(); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, dir := range []string{h.path, h.locks} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				left = append(left, filepath.Base(e.Name()))
			}
		}
		slices.Sort(left)
		slices.Sort(want)
		if !slices.Equal(left, want) {
			t.Errorf("left are\n%q, want\n%q", left, want)
		}
	}
	stays := []string{"web", "foreign", string(there) + lockSuffix, "foreign" + lockSuffix}
	sweep(append(slices.Clone(stays), stagingPrefix+string(working), string(working)+lockSuffix, string(gone)+lockSuffix, "forgotten"+lockSuffix)...)
	for _, l := range held {
		l.release()
	}
	sweep(stays...)
}
