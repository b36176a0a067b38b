package checkup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShared: a range that a user of the host has too is told, with its line.
func TestShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(path, []byte("# none\nalice:100000:65536\nbob:165536:10\nodd:1:2:3\nlast:999999999999:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		first, count uint32
		says         string
	}{
		{1 << 20, 65536, ""}, {165546, 65536, ""}, {65536, 34464, ""},
		{165545, 65536, `"bob" the ids 165536 to 165545`}, {65536, 34465, `"alice" the ids 100000 to 165535`}, {120000, 10, `"alice"`},
	} {
		err := Shared(c.first, c.count, path, path+"-is-not-there")
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d+%d: %v, want %q", c.first, c.count, err, c.says)
		}
	}
}

func FuzzShared(f *testing.F) {
	f.Add("alice:100000:65536\n", uint32(100000))
	f.Fuzz(func(t *testing.T, text string, first uint32) {
		path := filepath.Join(t.TempDir(), "subuid")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_ = Shared(first, 65536, path)
	})
}
