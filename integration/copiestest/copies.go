// Package copiestest judges what the copies of one unique container wrote while their
// fleet was under faults: that no two of them ran at the same real time, that epochs
// never fell, and that the container ran again whenever a host was free for it.
//
// Each copy writes a line every few milliseconds, with the clock that counts since the
// boot of the machine: all hosts are on one machine, so their times compare.
package copiestest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Copy is one life of the container: from one start of its first process to its end.
type Copy struct {
	Host  protocol.HostID
	Epoch protocol.Epoch
	// Born is when it began, since the boot of the machine.
	Born time.Duration
}

func (c Copy) String() string {
	return fmt.Sprintf("the copy of %s with epoch %s that was born at %s", c.Host, c.Epoch, c.Born)
}

// Beat is one line of a copy: it ran at that time since the boot of the machine.
type Beat struct {
	Copy
	At time.Duration
}

// String is the line of a beat, without its end. [Parse] reads it.
func (b Beat) String() string {
	return fmt.Sprintf("%s %s %d %d", b.Host, b.Epoch, b.Born, b.At)
}

// Parse reads the lines that copies wrote. Each must be whole.
func Parse(text string) ([]Beat, error) {
	var all []Beat
	for line := range strings.Lines(text) {
		var b Beat
		// A host's name holds no space, so the line is split there.
		host, rest, _ := strings.Cut(line, " ")
		b.Host = protocol.HostID(host)
		if _, err := fmt.Sscanf(rest, "%d.%d.%d %d %d\n", &b.Epoch.Term.Ring, &b.Epoch.Term.Counter, &b.Epoch.Counter, &b.Born, &b.At); err != nil || b.String()+"\n" != line {
			return nil, fmt.Errorf("line %d is no beat of a copy: %q", len(all)+1, line)
		}
		all = append(all, b)
	}
	return all, nil
}

// Span is a stretch of time since the boot of the machine.
type Span struct{ From, To time.Duration }

// Verdict is what was seen of one container.
type Verdict struct {
	// Wrong are the promises that did not hold, in sentences.
	Wrong []string
	// Copies is how many lives the container had, and Takeovers how often the next life
	// was on another host.
	Copies, Takeovers int
	// Overlaps is how many copies began while another one ran.
	Overlaps int
	// Shortest is the least time between the end of a copy on one host and the begin
	// of the next copy on another one; it is 0 without a takeover.
	Shortest time.Duration
}

// Judge judges the beats of one container, in any order. In each of the free spans all
// faults were over and a host was there for it, so it must have run at some time in it.
func Judge(beats []Beat, free []Span) Verdict {
	lives := map[Copy]Span{}
	for _, b := range beats {
		s, ok := lives[b.Copy]
		if !ok {
			s = Span{b.At, b.At}
		}
		lives[b.Copy] = Span{min(s.From, b.At), max(s.To, b.At)}
	}
	order := slices.SortedFunc(maps.Keys(lives), func(a, b Copy) int {
		return cmp.Or(cmp.Compare(lives[a].From, lives[b].From), cmp.Compare(lives[a].To, lives[b].To), cmp.Compare(a.Host, b.Host))
	})
	v := Verdict{Copies: len(order)}
	placed := map[protocol.Epoch]protocol.HostID{}
	var last, highest Copy // the one that ended last so far, and the one with the highest epoch
	for i, c := range order {
		if i > 0 {
			v.follow(last, c, lives)
			if c.Epoch.Compare(highest.Epoch) < 0 {
				v.Wrong = append(v.Wrong, fmt.Sprintf("the epoch fell: %s began after %s", c, highest))
			}
		}
		if host, ok := placed[c.Epoch]; ok && host != c.Host {
			v.Wrong = append(v.Wrong, fmt.Sprintf("one epoch was on two hosts: %s, and before on %s", c, host))
		}
		placed[c.Epoch] = c.Host
		if i == 0 || lives[c].To > lives[last].To {
			last = c
		}
		if i == 0 || c.Epoch.Compare(highest.Epoch) > 0 {
			highest = c
		}
	}
	for _, s := range free {
		if !slices.ContainsFunc(beats, func(b Beat) bool { return b.At >= s.From && b.At <= s.To }) {
			v.Wrong = append(v.Wrong, fmt.Sprintf("it was silent from %s to %s, though a host was free for it", s.From, s.To))
		}
	}
	return v
}

// follow looks at a copy that began after another one did.
func (v *Verdict) follow(last, c Copy, lives map[Copy]Span) {
	apart := lives[c].From - lives[last].To
	if apart <= 0 {
		v.Overlaps++
		v.Wrong = append(v.Wrong, fmt.Sprintf("two copies ran at once: %s wrote until %s, and %s from %s on", last, lives[last].To, c, lives[c].From))
	}
	if c.Host == last.Host {
		return
	}
	if v.Takeovers++; v.Takeovers == 1 || apart < v.Shortest {
		v.Shortest = apart
	}
}
