package upgrade

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/release"
	"github.com/hostler-io/hostler/protocol"
)

// TestJudge: only trials that fail while the coordinator answers the old agent count,
// and only two in a row.
func TestJudge(t *testing.T) {
	const prompt, late = time.Second, soon + time.Second
	for _, c := range []struct {
		name   string
		after  []time.Duration // when the coordinator answered, after each trial that failed
		failed bool
	}{
		{"once", []time.Duration{prompt}, false},
		{"twice", []time.Duration{prompt, prompt}, true},
		{"away", []time.Duration{late, late, late, late}, false},
		{"away after one", []time.Duration{prompt, late, prompt}, false},
		{"away before two", []time.Duration{late, prompt, prompt}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := New(Config{Programs: &Programs{Dir: Dir(t.TempDir())}, Log: slog.New(slog.DiscardHandler)})
			r := Record{Action: protocol.NewActionID(1, [10]byte{}), From: "1", Version: "2", Stage: Staged}
			for _, after := range c.after {
				r.Why = "it was silent"
				var err error
				if r, err = u.judge(r, after); err != nil {
					t.Fatal(err)
				}
			}
			if (r.Stage == Failed) != c.failed {
				t.Errorf("it is %s: %s", r.Stage, r.Why)
			}
			kept, err := u.cfg.Programs.Dir.Load()
			if err != nil || kept.Stage == Failed != c.failed || c.failed && !strings.Contains(kept.Why, "it was silent") {
				t.Errorf("kept is %v, %v", kept, err)
			}
		})
	}
}

// TestOlderIsRefused: a host takes no release that is older than its own, whatever asks for
// it, and looks at no package then. The command line leaves such hosts out by itself.
func TestOlderIsRefused(t *testing.T) {
	dir := Dir(t.TempDir())
	u := New(Config{Programs: &Programs{Dir: dir, Version: "0.2.0"}, Log: slog.New(slog.DiscardHandler)})
	stage := func(version string) error {
		_, err := u.stage(t.Context(), protocol.NewActionID(1, [10]byte{}), &protocol.UpgradeArgs{Version: version}, filepath.Join(t.TempDir(), "nowhere"))
		return err
	}
	for _, older := range []string{"0.1.9", "0.2.0~7.0123456789ab", "0.2.0~7.0123456789ab+dirty"} {
		if err := stage(older); err == nil || !strings.Contains(err.Error(), "only a newer release can replace it") {
			t.Errorf("%s on a host of 0.2.0: %v", older, err)
		}
	}
	if err := stage("0.2.1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a newer release the packages are looked for: %v", err)
	}
	if all, err := os.ReadDir(string(dir)); err != nil || len(all) > 0 {
		t.Errorf("it left %v, %v", all, err)
	}
}

// TestReplace puts the programs in place that the host has, and again after a crash.
func TestReplace(t *testing.T) {
	d, there := Dir(t.TempDir()), t.TempDir()
	if err := os.MkdirAll(filepath.Join(d.Release(), "programs"), 0o700); err != nil {
		t.Fatal(err)
	}
	places := map[string]string{release.LXC: ""}
	for _, name := range []string{release.Agent, release.Run} {
		places[name] = filepath.Join(there, name)
		for path, text := range map[string]string{places[name]: "old", d.Program(name): "new " + name} {
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := Record{Programs: []string{release.Agent, release.LXC, release.Run}}
	for range 2 {
		if err := Replace(d, r, places); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{release.Agent, release.Run} {
		b, err := os.ReadFile(places[name])
		i, e := os.Stat(places[name])
		if err != nil || e != nil || string(b) != "new "+name || i.Mode().Perm() != 0o755 {
			t.Errorf("%s holds %q, %v, %v", name, b, i, err)
		}
	}
	if all, err := os.ReadDir(there); err != nil || len(all) != 2 {
		t.Errorf("there is %v, %v", all, err)
	}
	places[release.Agent] = filepath.Join(there, "nowhere", "agent")
	if err := Replace(d, r, places); err == nil {
		t.Error("a place that does not exist is no error")
	}
}
