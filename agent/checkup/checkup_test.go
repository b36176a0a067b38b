package checkup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/api"
)

// TestRun: each thing that is wrong is found by the check of its name, with its cause and
// what mends it, and nothing else is.
func TestRun(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	refused := errors.New("connection refused")
	try := func(problem error) func(context.Context, string) error {
		return func(context.Context, string) error { return problem }
	}
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string // RESULT CHECK: CAUSE
	}{
		"well": {},
		"a part is missing": {
			func(c *Config) {
				c.Needs = append(c.Needs, Need{Name: "podman", Problem: errors.New("its socket\nis away"), Mend: "apt-get install podman"}, Need{Name: "database", Problem: errors.New("torn"), Mend: "restore it", Vital: true})
			},
			[]string{"warning podman: its socket; is away", "failed database: torn"},
		},
		"clock":         {func(c *Config) { c.Synced = func() (bool, error) { return false, nil } }, []string{"warning clock: nothing keeps the clock right"}},
		"unknown clock": {func(c *Config) { c.Synced = func() (bool, error) { return false, refused } }, []string{"warning clock: connection refused"}},
		"one of two addresses": {
			func(c *Config) {
				c.Addresses = append(c.Addresses, Address{Name: "broker", Address: "b:8883", Try: try(refused)})
			},
			[]string{"warning broker b:8883: connection refused"},
		},
		"no address": {
			func(c *Config) {
				c.Addresses = []Address{{Name: "broker", Address: "b:8883", Try: try(refused)}, {Name: "API", Address: "a:8443", Try: try(nil)}}
			},
			[]string{"failed broker b:8883: connection refused"},
		},
		"certificate": {
			func(c *Config) { c.Certificate = now.Add(leastLife - time.Second) },
			[]string{"warning certificate: it ends at 2026-01-16T03:04:04Z"},
		},
		"memory": {func(c *Config) { c.Memory = func(context.Context) error { return errors.New("page 7 is damaged") } }, []string{"failed memory: page 7"}},
		"debris": {func(c *Config) { c.Left = func(context.Context) (int, error) { return 2, nil } }, []string{"warning debris: a crash or a person has left 2 things"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{
				Needs: []Need{{Name: "lxc"}}, Addresses: []Address{{Name: "broker", Address: "a:8883", Try: try(nil)}}, Certificate: now.Add(leastLife),
				Memory: func(context.Context) error { return nil }, Left: func(context.Context) (int, error) { return 0, nil },
				Synced: func() (bool, error) { return true, nil }, Now: func() time.Time { return now },
			}
			if c.change != nil {
				c.change(&cfg)
			}
			found := slices.DeleteFunc(Run(t.Context(), cfg), func(f api.Finding) bool { return f.Result == api.FindingOK })
			if len(found) != len(c.want) {
				t.Fatalf("found %+v, want %q", found, c.want)
			}
			for i, f := range found {
				if got := f.Result + " " + f.Check + ": " + f.Cause; !strings.HasPrefix(got, c.want[i]) || f.Mend == "" {
					t.Errorf("found %q, mended by %q; want %q", got, f.Mend, c.want[i])
				}
			}
		})
	}
}

// TestMendsWithoutSystemd: where systemd does not run, no remedy is a command that asks it,
// and each fault has a remedy still.
func TestMendsWithoutSystemd(t *testing.T) {
	bad := errors.New("bad")
	try := func(context.Context, string) error { return bad }
	for _, without := range []bool{false, true} {
		found := Run(t.Context(), Config{
			NoSystemd: without, Certificate: time.Unix(1, 0), Synced: func() (bool, error) { return false, nil },
			Addresses: []Address{{Name: "own API", Address: "a:8444", Own: true, Try: try}},
			Memory:    func(context.Context) error { return bad },
		})
		if len(found) != 4 {
			t.Fatalf("found %+v", found)
		}
		for _, f := range found {
			asks := strings.Contains(f.Mend, "systemctl ") || strings.Contains(f.Mend, "journalctl ") || strings.Contains(f.Mend, "timedatectl ")
			if f.Mend == "" || asks == without {
				t.Errorf("NoSystemd %v: %s is mended by %q", without, f.Check, f.Mend)
			}
		}
	}
}

// TestRoom looks at the file system of a directory that is not there yet.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	found := Run(t.Context(), Config{Dirs: []Dir{{"state", filepath.Join(dir, "not", "yet")}}, Synced: func() (bool, error) { return true, nil }})
	if len(found) == 0 || found[0].Check != "disk of state" || found[0].Result == api.FindingFailed {
		t.Errorf("found %+v", found)
	}
	if r := found[0].Room; r == nil || r.Free <= 0 || r.FileSystem == "" {
		t.Errorf("of the space it tells %+v", r)
	}
	found = Run(t.Context(), Config{Dirs: []Dir{{"state", filepath.Join(dir, "\x00")}}, Synced: func() (bool, error) { return true, nil }})
	if found[0].Result != api.FindingFailed || found[0].Cause == "" || found[0].Mend == "" || found[0].Room != nil {
		t.Errorf("of a path that cannot be: %+v", found[0])
	}
}

// TestFullFileSystem: a file system with few free bytes, or few free inodes, is found by the
// check of each.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=20"); err != nil {
		t.Fatalf("a file system of its own needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	wants := func(when string, want ...string) {
		t.Helper()
		var found []string
		for _, f := range Run(t.Context(), Config{Dirs: []Dir{{"state", dir}}, Synced: func() (bool, error) { return true, nil }}) {
			if f.Result == api.FindingOK {
				continue
			}
			found = append(found, f.Result+" "+f.Check)
			if !strings.Contains(f.Cause, "% of the ") || !strings.Contains(f.Mend, dir) {
				t.Errorf("%s: %+v", when, f)
			}
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s: found %q, want %q", when, found, want)
		}
	}
	write := func(name string, size int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wants("empty")
	write("large", 950<<10)
	wants("with few free bytes", "warning disk of state")
	for i := range 17 { // beside the large one and the directory
		write(fmt.Sprint(i), 0)
	}
	wants("with few free inodes, too", "warning disk of state", "warning inodes of state")
	write("large", 0)
	wants("with few free inodes alone", "warning inodes of state")
}
