//go:build integration && heavy

package integration

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestNetworkPushIsSlow pushes a file over a slow line that loses packets, is cut in
// the middle, and whose host loses its power: it goes on where it was, arrives as it
// is, and delays no lease.
func TestNetworkPushIsSlow(t *testing.T) {
	l := newLab(t, "1")
	from := l.events.mark()
	const size, bits = 3 << 20, 128_000 // three minutes at the least
	file := l.random(t, "payload", size>>20)
	want := sha256.Sum256([]byte(read(t, file)))
	l.slow(t, "edge-01", bits)
	l.lossy(t, "edge-01", 2)
	to := l.path("arrived")
	push := l.start(t, "hostler", "push", file, "edge-01:"+to)

	part := filepath.Join(filepath.Dir(l.nodes["edge-01"].Socket), "inputs", fmt.Sprintf("%x.part", want))
	had := l.grows(t, part, 0, size/4)
	l.leases(t, "edge-01")
	l.dev(t, "partition", "edge-01").exits(t, 0)
	l.connectivity(t, from, "edge-01", "late")
	l.dev(t, "heal", "edge-01").exits(t, 0)
	had = l.grows(t, part, had, size/2)
	back := l.events.mark()
	l.dev(t, "kill", "edge-01").exits(t, 0)
	if left := fileSize(part); left < had {
		t.Errorf("of %d bytes %d are left", had, left)
	}
	l.dev(t, "heal", "edge-01").exits(t, 0) // its line is a new one, and fast
	l.connectivity(t, back, "edge-01", "online")
	push.finish(t).exits(t, 0)
	if got := sha256.Sum256([]byte(read(t, to))); got != want {
		t.Errorf("it arrived as %x, and is %x", got, want)
	}
	l.trusted(t)
}

// fileSize is 0 for one that is not there.
func fileSize(path string) int64 {
	i, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return i.Size()
}

// grows waits until a file that had so many bytes has more. It may take long, but it
// never stands still, nor begins again.
func (l *lab) grows(t testing.TB, path string, had, size int64) (has int64) {
	t.Helper()
	begun := time.Now()
	for since := begun; had < size; {
		elapse(t, 200*time.Millisecond)
		now := fileSize(path)
		if now < had {
			t.Errorf("it goes on at %d bytes, and had %d", now, had)
		}
		if now != had {
			had, since = now, time.Now()
		} else if time.Since(since) > 2*patience {
			t.Fatalf("%s stands still at %d of %d bytes", filepath.Base(path), had, size)
		}
	}
	t.Logf("it has %d bytes after %v", had, time.Since(begun).Round(time.Second))
	return had
}
