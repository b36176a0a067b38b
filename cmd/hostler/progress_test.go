package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
)

// hurry has the time of a desk pass by a second each time that it is asked for.
func (c *desk) hurry() {
	var mu sync.Mutex
	now := time.Now()
	c.app.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

// TestLargeThingsHaveBars: an archive that comes from a host, and what is packed and read for
// a host, tell on a terminal how far they are.
func TestLargeThingsHaveBars(t *testing.T) {
	s := newSite(t)
	archive := []byte(strings.Repeat("x", 2<<20))
	s.host.Auto(func(h *coordtest.Host, o coordtest.Order) {
		h.Report(o.Started(h))
		s.write(h, o, protocol.Stdout, archive)
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: int64(len(archive))}))
	})
	dir := t.TempDir()
	c := newTerminal(t, s, true, "")
	c.hurry()
	if code := c.run(t.Context(), "image", "export", "edge-01", "localhost/web:1", filepath.Join(dir, "web.image")); code != 0 || !strings.Contains(c.shown(), "receiving localhost/web:1 ") {
		t.Errorf("code %d, shown %q", code, c.shown())
	}
	s.host.Auto(s.obey)
	c = newTerminal(t, s, true, "")
	c.hurry()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "a"), archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := c.run(t.Context(), "push", "-r", tree, "edge-01:/srv/"); code != 0 {
		t.Errorf("code %d, shown %q", code, c.shown())
	}
	for _, bar := range []string{"packing " + tree + " ", "reading the archive [####################] 100 %", "sending [####################] 100 %"} {
		if !strings.Contains(c.shown(), bar) {
			t.Errorf("%q is not shown in %q", bar, c.shown())
		}
	}
}
