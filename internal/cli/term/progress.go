package term

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is a line on the terminal that tells how far something large has
// come. Elsewhere it is silent.
type Progress struct {
	app   *UI
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

// Progress shows how much of total bytes was moved; verb completes "… 3 of 5 MiB".
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
	if !p.app.ErrTTY || p.app.Quiet || p.app.Dumb() || now.Sub(p.begun) < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown, p.drawn = now, true
	if p.total > 0 {
		p.line(fmt.Sprintf("%s %s of %s, %d %%", p.verb, Size(p.done), Size(p.total), 100*p.done/p.total))
		return
	}
	p.line(fmt.Sprintf("%s %s", p.verb, Size(p.done)))
}

// line shows the line in the place of the one before.
func (p *Progress) line(text string) { fmt.Fprint(p.app.Err, "\r\x1b[K"+p.app.Fit(text)) }

// End takes the line away.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.app.Err, "\r\x1b[K")
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
