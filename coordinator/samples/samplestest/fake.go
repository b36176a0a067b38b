package samplestest

import "sync"

// places is how many batches a Fake takes while its database gives no answer.
const places = 8

// Fake is a sink in memory. Its zero value takes everything.
type Fake struct {
	mu                         sync.Mutex
	away, broken, hangs, ended bool
	lies                       bool
	waiting                    []batch // that have no answer yet
	spool, held                []byte
}

type batch struct {
	lines []byte
	done  func(bool)
}

// Forward implements [samples.Sink].
func (f *Fake) Forward(lines []byte, _ int, done func(taken bool)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || len(f.waiting) == places {
		return false
	}
	f.waiting = append(f.waiting, batch{lines, done})
	f.settle()
	return true
}

// settle answers what can be answered. It is called with mu held.
func (f *Fake) settle() {
	if f.hangs && !f.ended {
		return
	}
	if !f.away {
		f.held, f.spool = append(f.held, f.spool...), nil
	}
	for _, b := range f.waiting {
		taken := true
		switch {
		case !f.away && !f.ended:
			f.held = append(f.held, b.lines...)
		case f.broken:
			taken = false
		default:
			f.spool = append(f.spool, b.lines...)
		}
		b.done(taken && !f.lies)
	}
	f.waiting = nil
}

func (f *Fake) set(flag *bool, to bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*flag = to
	f.settle()
}

// Away has the database take nothing.
func (f *Fake) Away(is bool) { f.set(&f.away, is) }

// Broken has the disk take nothing.
func (f *Fake) Broken(is bool) { f.set(&f.broken, is) }

// Hang has nothing answered.
func (f *Fake) Hang(is bool) { f.set(&f.hangs, is) }

// Lie has the sink say that it has not kept what it has.
func (f *Fake) Lie(is bool) { f.set(&f.lies, is) }

// End keeps what waits, and takes nothing more.
func (f *Fake) End() { f.set(&f.ended, true) }

// Held are the lines that the database has.
func (f *Fake) Held() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.held)
}
