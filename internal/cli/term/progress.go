package term

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// talk is the standard error: the streams of several hosts share it, and one line at its
// end, which tells what goes on and makes room for everything else. It never takes the
// place of a line that was begun, as of a question or of a command's output.
type talk struct {
	mu    sync.Mutex
	w     io.Writer
	line  bool      // it is shown
	begun bool      // the terminal has a line without its end
	ticks []*Ticker // those that go on; the newest alone has the line
	phase *Ticker   // to which the parts of what goes on tell how they are; nil for none
	bars  int       // that are shown; they have the line
}

func (t *talk) Write(b []byte) (int, error) { return t.through(t.w, b) }

// through writes to what may share the terminal.
func (t *talk) through(w io.Writer, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	if len(b) > 0 {
		t.begun = b[len(b)-1] != '\n'
	}
	return w.Write(b)
}

// wipe is called with mu held.
func (t *talk) wipe() {
	if t.line {
		fmt.Fprint(t.w, "\r\x1b[K")
		t.line = false
	}
}

// show shows the line in the place of the one before; an empty one is none.
func (t *talk) show(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	if text != "" && !t.begun {
		fmt.Fprint(t.w, text)
		t.line = true
	}
}

// add gives the line to a ticker, unless the ticker is to be alone and others are there. It
// reports whether it did.
func (t *talk) add(tick *Ticker, alone bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if alone && len(t.ticks) > 0 {
		return false
	}
	t.ticks = append(t.ticks, tick)
	return true
}

// has reports whether a ticker has the line.
func (t *talk) has(tick *Ticker) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bars == 0 && len(t.ticks) > 0 && t.ticks[len(t.ticks)-1] == tick
}

// begin makes a ticker the one to which the parts of what goes on tell how they are.
func (t *talk) begin(phase *Ticker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = phase
}

// within returns the phase that goes on, or nil.
func (t *talk) within() *Ticker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase
}

// bar counts a bar that has the line from now on, or one fewer.
func (t *talk) bar(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bars += n
}

// remove ends a ticker, in whatever order they end.
func (t *talk) remove(tick *Ticker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ticks[len(t.ticks)-1] == tick {
		t.wipe()
	}
	t.ticks = slices.DeleteFunc(t.ticks, func(x *Ticker) bool { return x == tick })
	if t.phase == tick {
		t.phase = nil
	}
}

// ended tells that the terminal itself has ended the line: the user has answered.
func (t *talk) ended() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = false
}

// Painted returns whether lines that change can be shown to the user.
func (a *UI) Painted() bool { return a.ErrTTY && !a.Quiet && !a.Dumb() }

// status shows a line that tells what goes on; an empty one takes it away.
func (a *UI) status(text string) {
	if t, ok := a.Err.(*talk); ok && a.Painted() { // outside of Run there is nothing to wait for
		t.show(a.Fit(text))
	}
}

// bar counts a bar that is shown, or one fewer.
func (a *UI) bar(n int) {
	if t, ok := a.Err.(*talk); ok {
		t.bar(n)
	}
}

// Progress is a line on the terminal that tells how far something large has
// come. Elsewhere it is silent.
type Progress struct {
	app   *UI
	verb  string
	total int64 // 0 if it is unknown

	mu    sync.Mutex
	done  int64
	mark  int64 // done at the last look of moved
	begun time.Time
	shown time.Time
	drawn bool
}

// progressEvery is how often the line changes, and progressAfter how long
// something must take to be worth one.
const (
	progressEvery = 200 * time.Millisecond
	progressAfter = 500 * time.Millisecond
)

// Progress shows how much of total bytes was moved; verb begins the line.
func (a *UI) Progress(verb string, total int64) *Progress {
	return &Progress{app: a, verb: verb, total: total, begun: a.Now()}
}

// At says how far it is.
func (p *Progress) At(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = n
	p.draw()
}

// Add counts n bytes more.
func (p *Progress) Add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	p.draw()
}

// Moved reports whether it has come further since it was asked last.
func (p *Progress) Moved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	further := p.done > p.mark
	p.mark = max(p.mark, p.done)
	return further
}

// draw is called with mu held.
func (p *Progress) draw() {
	now := p.app.Now()
	if now.Sub(p.begun) < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	if p.shown = now; !p.drawn {
		p.drawn = true
		p.app.bar(1)
	}
	if p.total > 0 {
		p.app.status(fmt.Sprintf("%s %s %3d %%, %s of %s", p.verb, bar(p.done, p.total), 100*p.done/p.total, Size(p.done), Size(p.total)))
		return
	}
	p.app.status(fmt.Sprintf("%s %s", p.verb, Size(p.done)))
}

// bar draws how much is done.
func bar(done, total int64) string {
	const width = 20
	n := int(min(width, width*done/total))
	return "[" + strings.Repeat("#", n) + strings.Repeat("-", width-n) + "]"
}

// End takes the line away.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		p.app.bar(-1)
		p.app.status("")
		p.drawn = false
	}
}

// Writer counts what is written to w.
func (p *Progress) Writer(w io.Writer) io.Writer { return countingWriter{w, p} }

type countingWriter struct {
	w io.Writer
	p *Progress
}

func (c countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.p.Add(n)
	return n, err
}

// Reader counts what is read of r.
func (p *Progress) Reader(r io.Reader) io.Reader { return countingReader{r, p} }

type countingReader struct {
	r io.Reader
	p *Progress
}

func (c countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.p.Add(n)
	return n, err
}

// Ticker is a line on the terminal that tells what is waited for and for how long, once
// that is a second. Elsewhere it is silent.
type Ticker struct {
	app   *UI
	label string
	begun time.Time
	phase *Ticker // of which it is a part; nil for none

	mu   sync.Mutex
	word string
	rest []byte // of a line that is not whole

	end  chan struct{}
	done chan struct{}
}

// Tick shows what is waited for until End: label is what it is about, word how it is,
// which Tell changes; either may be empty.
func (a *UI) Tick(label, word string) *Ticker { return a.tick(label, word, false) }

// TickAlone is Tick for what is waited for in passing: it shows nothing while another line
// tells what goes on.
func (a *UI) TickAlone(label string) *Ticker { return a.tick(label, "", true) }

// Phase is Tick for what is done in several parts. The tickers of these have no line until
// its End: what they are told stands behind its label, and its time is that of them all.
// A phase within another one is a part of that.
func (a *UI) Phase(label string) *Ticker {
	t := a.tick(label, "", false)
	if to, ok := a.Err.(*talk); ok && a.Painted() && t.phase == nil {
		to.begin(t)
	}
	return t
}

func (a *UI) tick(label, word string, alone bool) *Ticker {
	t := &Ticker{app: a, label: label, end: make(chan struct{}), done: make(chan struct{})}
	to, ok := a.Err.(*talk)
	if ok && !alone {
		t.phase = to.within()
	}
	t.Tell(word)
	if !ok || t.phase != nil || !a.Painted() || !to.add(t, alone) {
		close(t.done)
		return t
	}
	t.begun = a.Now()
	go t.run(to)
	return t
}

// run draws until the end. to is where.
func (t *Ticker) run(to *talk) {
	defer close(t.done)
	defer to.remove(t)
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if to.has(t) {
				t.draw()
			}
		case <-t.end:
			return
		}
	}
}

func (t *Ticker) draw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := t.app.Now().Sub(t.begun)
	what := strings.Trim(t.label+": "+t.word, ": ")
	t.app.status(Printable(fmt.Sprintf("%s, %d s", what, int(took.Seconds()))))
}

// Tell says how it is now.
func (t *Ticker) Tell(word string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(word)
}

// tell is called with mu held.
func (t *Ticker) tell(word string) {
	if t.word = word; t.phase != nil {
		t.phase.Tell(word)
	}
}

// Write takes lines that tell how far something is; the newest is shown. It never fails.
func (t *Ticker) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest = append(t.rest, b...)
	if i := bytes.LastIndexByte(t.rest, '\n'); i >= 0 {
		line := t.rest[:i]
		t.tell(string(line[bytes.LastIndexByte(line, '\n')+1:]))
		t.rest = t.rest[i+1:]
	}
	t.rest = t.rest[:min(len(t.rest), maxLine)]
	return len(b), nil
}

// maxLine is how much of a line without an end is kept, in bytes.
const maxLine = 4 << 10

// End takes the line away. It is called once.
func (t *Ticker) End() {
	close(t.end)
	<-t.done
	if t.phase != nil {
		t.phase.Tell("")
	}
}
