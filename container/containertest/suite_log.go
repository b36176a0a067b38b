package containertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
)

// testLog: what a container prints is in its log, also after its end, and comes to who
// follows it. No more lines come than were asked for.
func testLog(t *testing.T, f *fixture) {
	logger, ok := f.Runtime.(container.Logger)
	if !ok {
		return // it says so by its abilities
	}
	spec := f.create(t)
	read := func(q container.LogQuery) string {
		t.Helper()
		var out bytes.Buffer
		if err := logger.Log(f.ctx, spec.Name, q, &out, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if err := logger.Log(f.ctx, f.Spec().Name, container.LogQuery{Tail: 1}, io.Discard, io.Discard); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("of one that is not there: %v", err)
	}
	if got := read(container.LogQuery{Tail: 10}); got != "" {
		t.Errorf("before its first start it has printed %q", got)
	}
	f.start(t, spec.Name)
	if f.Print == nil {
		return
	}
	lines, w := io.Pipe()
	ctx, cancel := context.WithCancel(f.ctx)
	followed := make(chan error, 1)
	go func() {
		err := logger.Log(ctx, spec.Name, container.LogQuery{Tail: 10, Follow: true}, w, w)
		followed <- err
		w.CloseWithError(io.EOF)
	}()
	// Podman takes the last lines and begins to follow in two steps, and what is printed
	// between them does not come: so it is printed until following has begun.
	begun := make(chan error, 1)
	go func() { begun <- until(lines, "first line", f.Patience) }()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for waiting := true; waiting; {
		f.Print(t, spec.Name, "first line")
		select {
		case err := <-begun:
			if err != nil {
				t.Errorf("a line does not come to a follower: %v", err)
			}
			waiting = false
		case <-again.C:
		}
	}
	f.Print(t, spec.Name, "second line")
	if err := until(lines, "second line", f.Patience); err != nil {
		t.Errorf("the line after it does not come to a follower: %v", err)
	}
	cancel()
	go io.Copy(io.Discard, lines)
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Errorf("following ends with %v", err)
	}
	f.stop(t, spec.Name)
	all := read(container.LogQuery{Tail: 1000})
	if !strings.Contains(all, "first line") || !strings.Contains(all, "second line") {
		t.Errorf("after its end it has printed %q", all)
	}
	if got := read(container.LogQuery{Tail: 1}); strings.Count(got, "\n") > 1 || !strings.HasSuffix(all, got) || got == "" {
		t.Errorf("its last line is %q of %q", got, all)
	}
}

// until reads until a text has come.
func until(from io.Reader, text string, patience time.Duration) error {
	found := make(chan error, 1)
	go func() {
		var all []byte
		b := make([]byte, 1<<10)
		for {
			n, err := from.Read(b)
			all = append(all, b[:n]...)
			if bytes.Contains(all, []byte(text)) {
				found <- nil
				return
			}
			if err != nil {
				found <- err
				return
			}
		}
	}()
	select {
	case err := <-found:
		return err
	case <-time.After(patience):
		return errors.New("nothing comes")
	}
}
