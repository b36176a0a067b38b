package guard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// key stands for what restarts the machine. A real one is pressed in a machine that a test
// boots: integration TestWatchdogResetsTheMachine.
type key struct {
	mu      sync.Mutex
	open    bool
	pressed chan string
	missing bool
}

func newKey() *key { return &key{pressed: make(chan string, 1000)} }

func (k *key) get() (io.WriteCloser, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.missing {
		return nil, os.ErrNotExist
	}
	k.open = true
	return k, nil
}

func (k *key) isOpen() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

func (k *key) Write(b []byte) (int, error) {
	k.pressed <- string(b)
	return len(b), nil
}

func (k *key) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = false
	return nil
}

// undying is a guard whose kills fail, with the key.
func undying(t *testing.T, k *key) *Guard {
	g := New(func(context.Context, string) error { return errors.New("it waits for its disk") }, slog.New(slog.NewTextHandler(t.Output(), nil)))
	g.boot.open = k.get
	return g
}

// passed is a table of what should have been dead for a time.
func passed(d time.Duration, reboot bool) Table {
	return Table{Holds: []Hold{hold("a", -d)}, Reboot: reboot}
}

// TestRestartsWhatCannotBeKilled: the guard presses the key once a container lives on for
// rebootAfter, if it may.
func TestRestartsWhatCannotBeKilled(t *testing.T) {
	for name, c := range map[string]struct {
		table Table
		want  bool
	}{
		"long over":    {passed(rebootAfter+time.Second, true), true},
		"just over":    {passed(0, true), false},
		"may not":      {passed(rebootAfter+time.Second, false), false},
		"nothing held": {Table{Reboot: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKey()
			g := undying(t, k)
			if _, err := g.Set(c.table); err != nil {
				t.Fatal(err)
			}
			ready := c.table.Reboot && len(c.table.Holds) > 0
			if g.state().Reboot.Ready != ready || k.isOpen() != ready {
				t.Errorf("it is %+v, and the key is open: %t", g.state().Reboot, k.isOpen())
			}
			over, _ := g.due()
			g.killAll(t.Context(), over, "its lease has ended")
			g.boot.now(g.overdue(rebootAfter))
			select {
			case got := <-k.pressed:
				if !c.want || got != "b" {
					t.Errorf("pressed %q", got)
				}
			default:
				if c.want {
					t.Error("the machine goes on")
				}
			}
			if _, err := g.Set(Table{}); err != nil || k.isOpen() {
				t.Errorf("with nothing held the key is open: %v", err)
			}
		})
	}
}

// TestBothProcessesRestart: the guard does it in its loop, and the second process when the
// guard is gone.
func TestBothProcessesRestart(t *testing.T) {
	run := map[string]func(ctx context.Context, g *Guard){
		"guard":          func(ctx context.Context, g *Guard) { _ = g.Run(ctx) },
		"second process": func(ctx context.Context, g *Guard) { g.KillNow(ctx) },
	}
	for name, loop := range run {
		t.Run(name, func(t *testing.T) {
			k := newKey()
			g := undying(t, k)
			if _, err := g.Set(passed(rebootAfter+time.Second, true)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() { loop(ctx, g) })
			<-k.pressed
			cancel()
			all.Wait()
		})
	}
}

// TestNoKey: a guard that cannot restart the machine says why, a client does not ask for it
// any more, and one that was seen ready holds nothing when it is not.
func TestNoKey(t *testing.T) {
	for _, missing := range []bool{true, false} {
		k := newKey()
		k.missing = missing
		g := New(Kill, slog.New(slog.NewTextHandler(t.Output(), nil)))
		g.boot.open = k.get
		g.twin = true
		client := serving(t, g, Resort{Reboot: true})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		shown, err := SelfTest(ctx, client)
		if err != nil || shown.Reboot.Ready == missing || missing && !strings.Contains(shown.Reboot.Why(), "file does not exist") {
			t.Fatalf("%+v, %v", shown, err)
		}
		if k.isOpen() {
			t.Error("the key is open after the test")
		}
		k.mu.Lock()
		k.missing = true
		k.mu.Unlock()
		err = client.Set(ctx, []Hold{hold("a", time.Hour)})
		if missing != (err == nil) || err != nil && !strings.Contains(err.Error(), "can no longer restart it") {
			t.Errorf("the key was missing at the test: %t; a table without it: %v", missing, err)
		}
	}
	if text := (Reboot{}).Why(); !strings.Contains(text, "earlier version") {
		t.Errorf("a guard that restarts nothing: %s", text)
	}
}

// TestSecondProcessKnows: a second process that is started while something is held, as when the
// one before it has died, is told all of the table: also that it restarts the machine.
func TestSecondProcessKnows(t *testing.T) {
	k := newKey()
	g := undying(t, k)
	table := Table{Holds: []Hold{{ID: "web", Group: "lxc.payload.web", UntilMS: 1 << 60}}, Reboot: true}
	if _, err := g.Set(table); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, err := g.follow(ctx, []string{"tee", pipe})
	if err != nil {
		t.Fatal(err)
	}
	told, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	var got Table
	if err := json.NewDecoder(told).Decode(&got); err != nil || !reflect.DeepEqual(got, table) {
		t.Errorf("it is told %+v, %v; want %+v", got, err, table)
	}
	cancel()
	<-ended
}
