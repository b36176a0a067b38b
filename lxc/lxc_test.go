package lxc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc"
)

// broken returns a runtime whose helper is this test binary in that mode.
func broken(t *testing.T, mode string, deadline time.Duration) *lxc.Runtime {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	helper := filepath.Join(dir, "helper-"+mode)
	if err := os.Symlink(self, helper); err != nil {
		t.Fatal(err)
	}
	r, err := lxc.New(lxc.Config{
		Helper: helper, LXCPath: filepath.Join(dir, "lxc"), LockDir: filepath.Join(dir, "locks"),
		Monitor:   filepath.Join(dir, "no-monitor"),
		Deadlines: lxc.Deadlines{Query: deadline, Start: deadline},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHungHelperEndsAtItsDeadline(t *testing.T) {
	const deadline = 300 * time.Millisecond
	r := broken(t, "hang", deadline)
	quickest := time.Hour
	for range 20 {
		begin := time.Now()
		_, err := r.Start(t.Context(), "web")
		took := time.Since(begin)
		if took < deadline {
			t.Errorf("Start took %v with a deadline of %v", took, deadline)
		}
		if !errors.Is(err, container.ErrTimeout) || !strings.Contains(err.Error(), `lxc start "web"`) {
			t.Errorf("Start = %v, want ErrTimeout with its path", err)
		}
		if quickest = min(quickest, took); quickest < deadline+1500*time.Millisecond {
			return
		}
	}
	// Each time longer would mean that a descendant lives on and holds the pipes.
	t.Errorf("Start took %v at least with a deadline of %v", quickest, deadline)
}

func TestContextShortensTheDeadline(t *testing.T) {
	r := broken(t, "hang", time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Start(ctx, "web"); !errors.Is(err, container.ErrTimeout) {
		t.Errorf("Start = %v, want ErrTimeout", err)
	}
	cause := errors.New("shutting down")
	called, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { stop(cause) })
	if _, err := r.Start(called, "web"); !errors.Is(err, cause) {
		t.Errorf("Start = %v, want the cause of its context", err)
	}
}

func TestBrokenHelpers(t *testing.T) {
	for _, tt := range []struct {
		mode string
		want error // nil: any
		says string
	}{
		{"garbage", nil, "decoding answer"},
		{"flood", nil, "exceeds"},
		{"crash", nil, "out of cheese"},
		{"killed", container.ErrInterrupted, "killed"},
		{"busy", container.ErrBusy, "another operation holds it"},
		{"unlinked", container.ErrUnsupported, "liblxc.so.1 is not installed"},
		{"newer", container.ErrUnsupported, "install the same release"},
	} {
		err := broken(t, tt.mode, time.Minute).Probe(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.says) || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: Probe = %v, want %v saying %q", tt.mode, err, tt.want, tt.says)
		}
		if tt.want == nil && (errors.Is(err, container.ErrUnsupported) || errors.Is(err, container.ErrTimeout)) {
			t.Errorf("%s: Probe = %v matches a sentinel", tt.mode, err)
		}
	}
}

func TestMissingPrograms(t *testing.T) {
	dir := t.TempDir()
	r, err := lxc.New(lxc.Config{Helper: dir + "/missing", LXCPath: dir + "/lxc", LockDir: dir + "/locks", Monitor: dir + "/missing"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Probe(t.Context()); !errors.Is(err, container.ErrUnsupported) || !strings.Contains(err.Error(), "missing is not installed") {
		t.Errorf("Probe = %v, want ErrUnsupported", err)
	}
	if err := r.Watch(t.Context(), func() {}, func(container.Event) {}); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("Watch = %v, want ErrUnsupported", err)
	}
}

func TestRequest(t *testing.T) {
	t.Setenv("HOME", "/root/secret")
	r := broken(t, "echo", time.Minute)
	got, err := r.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, `probe true "`) || !strings.HasSuffix(got, `/lxc" PATH=true HOME=""`) {
		t.Errorf("the helper saw %s", got)
	}
}

func TestBadNamesNeverReachTheHelper(t *testing.T) {
	r := broken(t, "echo", time.Minute) // answers success to everything
	for _, name := range []string{"", "..", "../x", "a/b", "a\x00b", "-n"} {
		if _, err := r.Start(t.Context(), name); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("Start(%q) = %v, want ErrNotFound", name, err)
		}
	}
}

func TestConfig(t *testing.T) {
	good := lxc.Config{Helper: "/h", LXCPath: "/l", LockDir: "/k"}
	if _, err := lxc.New(good); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*lxc.Config){
		"no helper":         func(c *lxc.Config) { c.Helper = "" },
		"relative path":     func(c *lxc.Config) { c.LXCPath = "lxc" },
		"no locks":          func(c *lxc.Config) { c.LockDir = "" },
		"negative deadline": func(c *lxc.Config) { c.Deadlines.Stop = -1 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := lxc.New(cfg); err == nil {
			t.Errorf("%s: New accepted it", name)
		}
	}
}
