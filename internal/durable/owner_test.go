package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestCheckOwner(t *testing.T) {
	for name, c := range map[string]struct {
		file, dir     os.FileMode
		owner, dirOf  int
		whole, placed bool // what CheckOwner and CheckDirectory let through
	}{
		"root's":              {0o644, 0o755, 0, 0, true, true},
		"a group may":         {0o664, 0o755, 0, 0, false, true},
		"all may":             {0o646, 0o755, 0, 0, false, true},
		"in a group's":        {0o644, 0o775, 0, 0, false, false},
		"in all's":            {0o600, 0o757, 0, 0, false, false},
		"in a sticky one":     {0o600, 0o777 | os.ModeSticky, 0, 0, false, false},
		"another's":           {0o600, 0o755, 4321, 0, false, true},
		"in another's":        {0o600, 0o755, 0, 4321, false, false},
		"another's, with dir": {0o600, 0o700, 4321, 4321, false, true},
	} {
		if os.Geteuid() != 0 && (c.owner != 0 || c.dirOf != 0) {
			continue // only root gives files away
		}
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			path, link := filepath.Join(dir, "f"), filepath.Join(t.TempDir(), "link")
			for _, err := range []error{
				os.Mkdir(dir, 0o700), os.WriteFile(path, nil, 0o600), os.Chmod(path, c.file), os.Chmod(dir, c.dir),
				given(path, c.owner), given(dir, c.dirOf), os.Symlink(path, link),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, p := range []string{path, link} {
				if err := CheckOwner(p); errors.Is(err, ErrOpen) == c.whole || (err == nil) != c.whole {
					t.Errorf("%s: %v", p, err)
				}
				if err := CheckDirectory(p); errors.Is(err, ErrOpen) == c.placed || (err == nil) != c.placed {
					t.Errorf("%s, its place: %v", p, err)
				}
			}
		})
	}
}

// given gives a file to another user; 0 is whoever runs the test.
func given(path string, to int) error {
	if to == 0 {
		return nil
	}
	return os.Chown(path, to, -1)
}
