package backup

import "io"

// Of what is written beside the work of its writer, asides blocks of asideBytes wait at most.
const (
	asideBytes = 256 << 10
	asides     = 3
)

// aside writes to a writer on a goroutine of its own, so that digests are taken while files
// are read and compressed. Close waits until all is written, and must be called once; an
// error of the writer comes out of the next Write or of Close.
type aside struct {
	full, free chan []byte
	block      []byte // what is gathered
	done       chan struct{}
	err        error // before done is closed, it is the goroutine's own
}

func newAside(to io.Writer) *aside {
	a := &aside{full: make(chan []byte, asides), free: make(chan []byte, asides), done: make(chan struct{})}
	for range asides {
		a.free <- make([]byte, 0, asideBytes)
	}
	a.block = <-a.free
	go func() {
		defer close(a.done)
		for b := range a.full {
			if _, a.err = to.Write(b); a.err != nil {
				return
			}
			a.free <- b[:0]
		}
	}()
	return a
}

func (a *aside) Write(p []byte) (n int, err error) {
	for n < len(p) {
		room := min(cap(a.block)-len(a.block), len(p)-n)
		a.block = append(a.block, p[n:n+room]...)
		if n += room; len(a.block) < cap(a.block) {
			continue
		}
		if err := a.hand(); err != nil {
			return n, err
		}
		select {
		case a.block = <-a.free:
		case <-a.done:
			return n, a.err
		}
	}
	return n, nil
}

// hand gives the goroutine what is gathered.
func (a *aside) hand() error {
	select {
	case a.full <- a.block:
		return nil
	case <-a.done:
		return a.err
	}
}

func (a *aside) Close() error {
	_ = a.hand() // its error comes out below
	close(a.full)
	<-a.done
	return a.err
}
