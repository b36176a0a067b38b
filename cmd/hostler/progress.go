package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress is a line on the terminal that tells how far something large has
// come. Elsewhere it is silent.
type progress struct {
	app   *app
	verb  string
	total int64 // 0 if nobody knows

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

func (a *app) progress(verb string, total int64) *progress {
	return &progress{app: a, verb: verb, total: total, begun: a.now()}
}

// at says how far it is.
func (p *progress) at(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = n
	p.draw()
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	p.draw()
}

// moved reports whether it has come further since it was asked last.
func (p *progress) moved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	further := p.done > p.mark
	p.mark = max(p.mark, p.done)
	return further
}

// draw is called with mu held.
func (p *progress) draw() {
	now := p.app.now()
	if !p.app.errTTY || p.app.quiet || p.app.dumb() || now.Sub(p.begun) < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown, p.drawn = now, true
	if p.total > 0 {
		p.line(fmt.Sprintf("%s %s of %s, %d %%", p.verb, size(p.done), size(p.total), 100*p.done/p.total))
		return
	}
	p.line(fmt.Sprintf("%s %s", p.verb, size(p.done)))
}

// line shows the line in the place of the one before.
func (p *progress) line(text string) { fmt.Fprint(p.app.err, "\r\x1b[K"+p.app.fit(text)) }

// end takes the line away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.app.err, "\r\x1b[K")
		p.drawn = false
	}
}

// reader counts what is read of r.
func (p *progress) reader(r io.Reader) io.Reader { return countingReader{r, p} }

type countingReader struct {
	r io.Reader
	p *progress
}

func (c countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.p.add(n)
	return n, err
}
