package term

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// talk is the standard error: the streams of several hosts share it, and one line at its
// end, which tells what goes on and makes room for everything else.
type talk struct {
	mu   sync.Mutex
	w    io.Writer
	line bool    // it is shown
	top  *Ticker // the newest, which alone has the line
}

func (t *talk) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	return t.w.Write(b)
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
	if text != "" {
		fmt.Fprint(t.w, text)
		t.line = true
	}
}

// Painted returns whether lines that change can be shown to the user.
func (a *UI) Painted() bool { return a.ErrTTY && !a.Quiet && !a.Dumb() }

// status shows a line that tells what goes on; an empty one takes it away.
func (a *UI) status(text string) {
	if t, ok := a.Err.(*talk); ok && a.Painted() { // outside of Run there is nothing to wait for
		t.show(a.Fit(text))
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
	p.shown, p.drawn = now, true
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
		p.app.status("")
		p.drawn = false
	}
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

	mu   sync.Mutex
	word string
	rest []byte // of a line that is not whole

	under *Ticker // that which has the line afterwards
	end   chan struct{}
	done  chan struct{}
}

// Tick shows what is waited for until End: label is what it is about, word how it is,
// which Tell changes; either may be empty.
func (a *UI) Tick(label, word string) *Ticker {
	t := &Ticker{app: a, label: label, word: word, end: make(chan struct{}), done: make(chan struct{})}
	to, ok := a.Err.(*talk)
	if !ok || !a.Painted() {
		close(t.done)
		return t
	}
	t.begun = a.Now()
	to.mu.Lock()
	t.under, to.top = to.top, t
	to.mu.Unlock()
	go t.run(to)
	return t
}

// run draws until the end. to is where.
func (t *Ticker) run(to *talk) {
	defer close(t.done)
	defer func() {
		to.mu.Lock()
		defer to.mu.Unlock()
		if to.top == t {
			to.top = t.under
		}
		to.wipe()
	}()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			to.mu.Lock()
			mine := to.top == t
			to.mu.Unlock()
			if mine {
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
	t.word = word
}

// Write takes lines that tell how far something is; the newest is shown. It never fails.
func (t *Ticker) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest = append(t.rest, b...)
	if i := bytes.LastIndexByte(t.rest, '\n'); i >= 0 {
		line := t.rest[:i]
		t.word = string(line[bytes.LastIndexByte(line, '\n')+1:])
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
}
