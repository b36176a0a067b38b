package batch

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// maxLine is the longest line of output that is held back, in bytes.
	maxLine = 64 << 10
	// keptOutput is how much of a stream -o json shows, in bytes.
	keptOutput = 64 << 10
)

// lines writes whole lines with a prefix, so that those of several hosts do
// not run into one another.
type lines struct {
	prefix  string    // empty: what comes is passed on as it is
	w       io.Writer // takes a whole line at a time
	held    []byte
	kept    []byte // instead of writing
	end     int64  // offset behind the last byte that came
	missing int64  // bytes that did not
}

func (l *lines) Write(b []byte) (int, error) {
	if l.prefix == "" { // nothing to be told apart from
		return l.w.Write(b)
	}
	l.held = append(l.held, b...)
	for {
		end := bytes.IndexByte(l.held, '\n') + 1
		if end == 0 && len(l.held) >= maxLine {
			end = maxLine
		}
		if end == 0 {
			return len(b), nil
		}
		if err := l.line(l.held[:end]); err != nil {
			return 0, err
		}
		l.held = l.held[end:]
	}
}

// keep keeps the beginning of what comes.
func (l *lines) keep(b []byte) {
	fits := min(len(b), keptOutput-len(l.kept))
	l.kept = append(l.kept, b[:fits]...)
	l.missing += int64(len(b) - fits)
}

// flush writes what is left without a line end.
func (l *lines) flush() {
	if len(l.held) > 0 {
		_ = l.line(l.held) // its reader is gone, and was told so before
		l.held = nil
	}
}

func (l *lines) line(b []byte) error {
	whole := append([]byte(l.prefix), b...)
	if whole[len(whole)-1] != '\n' {
		whole = append(whole, '\n')
	}
	_, err := l.w.Write(whole)
	return err
}

// screen keeps what is going on at the bottom of a terminal while lines scroll
// above it. Elsewhere it only passes lines on.
type screen struct {
	app   *Batcher
	live  bool
	mu    sync.Mutex
	shown int       // lines at the bottom
	drawn time.Time // when they were
}

// redraw is how often what is going on is drawn anew.
const redraw = 100 * time.Millisecond

func newScreen(a *Batcher) *screen { return &screen{app: a, live: a.ErrTTY && !a.Quiet && !a.Dumb()} }

// screenWriter writes lines above what is shown.
type screenWriter struct {
	s *screen
	w io.Writer
}

func (w screenWriter) Write(b []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.wipe()
	return w.w.Write(b)
}

func (s *screen) out() io.Writer { return screenWriter{s, s.app.Out} }

func (s *screen) err() io.Writer { return screenWriter{s, s.app.Err} }

// wipe takes what is shown away. It is called with mu held.
func (s *screen) wipe() {
	if s.shown > 0 {
		fmt.Fprintf(s.app.Err, "\x1b[%dA\x1b[J", s.shown)
		s.shown, s.drawn = 0, time.Time{}
	}
}

func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}

// say tells something above what is shown.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	s.app.Say(format, args...)
}

// show draws what is going on, if it was not drawn just now.
func (s *screen) show(rows func() []string) {
	now := s.app.Now()
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.drawn) < redraw {
		return
	}
	s.wipe()
	for _, row := range rows() {
		fmt.Fprintln(s.app.Err, s.app.Fit(row))
		s.shown++
	}
	s.drawn = now
}
