package beat_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/beat"
	"github.com/hostler-io/hostler/protocol/figures"
)

// told is a heartbeat on its way: a change of base, or the whole.
type told struct {
	number, base uint64
	full         beat.State
	delta        beat.Delta
}

// TestRebuilds: whatever is lost, doubled or out of order, the coordinator holds a state
// that the host had, and the newest one once heartbeats and receipts arrive.
func TestRebuilds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := beat.State{Host: protocol.HostInfo{Hostname: "h"}}
		history := map[uint64]beat.State{}
		var number, base, held uint64
		var sums beat.Sums // of base
		var there beat.State
		var line []told
		wants := true
		send := func() {
			number++
			history[number] = clone(now)
			m := told{number: number}
			if wants {
				m.full, base = clone(now), 0
			} else {
				m.base, m.delta = base, beat.Make(sums, beat.Sum(now), clone(now))
			}
			line = append(line, m)
		}
		arrive := func(m told) {
			if m.base == 0 {
				there, held = m.full, m.number
			} else {
				next, err := beat.Apply(there, m.delta, 1<<20)
				if held < m.base || err != nil {
					if err != nil && !errors.Is(err, beat.ErrBase) {
						t.Fatal(err)
					}
					wants = true
					return
				}
				there, held = next, m.number
			}
			if d := gocmp.Diff(sorted(history[m.number]), sorted(there), cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("heartbeat %d of %d: %s", m.number, number, d)
			}
			if rapid.Float64Range(0, 1).Draw(t, "receipt") < 0.7 && m.number >= base {
				wants, base, sums = false, m.number, beat.Sum(history[m.number])
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			change(t, &now)
			send()
			for len(line) > 0 && rapid.Bool().Draw(t, "arrives") {
				i := rapid.IntRange(0, len(line)-1).Draw(t, "which")
				m := line[i]
				switch rapid.IntRange(0, 3).Draw(t, "fate") {
				case 0: // it is lost
					line = slices.Delete(line, i, i+1)
				case 1: // it comes twice
					arrive(m)
				default:
					line = slices.Delete(line, i, i+1)
					arrive(m)
				}
			}
		}
		line = nil
		for range 2 { // the first may ask for the whole
			send()
			arrive(line[len(line)-1])
		}
		if d := gocmp.Diff(sorted(now), sorted(there), cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// change changes a few pieces.
func change(t *rapid.T, s *beat.State) {
	s.Host.Figures = figures.Figures{ClockMS: rapid.Int64Range(0, 9).Draw(t, "clock")}
	if rapid.IntRange(0, 9).Draw(t, "host") == 0 {
		s.Host.Degraded = rapid.SampledFrom([]string{"", "full", "slow"}).Draw(t, "degraded")
	}
	for range rapid.IntRange(0, 3).Draw(t, "pieces") {
		n := rapid.IntRange(1, 5).Draw(t, "piece")
		c := protocol.Container{Name: fmt.Sprintf("c%d", n), Runtime: "lxc", State: rapid.SampledFrom([]string{"running", "stopped"}).Draw(t, "state")}
		if n > 2 {
			c.CTID = protocol.NewCTID(int64(n), [10]byte{1})
		}
		a := protocol.AlertInfo{ID: fmt.Sprintf("a%d", n), Text: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "text")}
		s.Containers = slices.DeleteFunc(s.Containers, func(o protocol.Container) bool { return beat.Key(&o) == beat.Key(&c) })
		s.Alerts = slices.DeleteFunc(s.Alerts, func(o protocol.AlertInfo) bool { return o.ID == a.ID })
		if rapid.Bool().Draw(t, "there") {
			s.Containers = append(s.Containers, c)
		}
		if rapid.Bool().Draw(t, "raised") {
			s.Alerts = append(s.Alerts, a)
		}
	}
}

func clone(s beat.State) beat.State {
	s.Containers, s.Alerts = slices.Clone(s.Containers), slices.Clone(s.Alerts)
	return s
}

// sorted is a state in an order that does not matter.
func sorted(s beat.State) beat.State {
	s = clone(s)
	slices.SortFunc(s.Containers, func(a, b protocol.Container) int { return cmp.Compare(beat.Key(&a), beat.Key(&b)) })
	slices.SortFunc(s.Alerts, func(a, b protocol.AlertInfo) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// TestDigest: it covers each piece, its name and its absence, and no figure.
func TestDigest(t *testing.T) {
	web := protocol.Container{Name: "web", Runtime: "lxc", State: "running"}
	alert := protocol.AlertInfo{ID: "a", Severity: "warning", Text: "t"}
	base := beat.State{Containers: []protocol.Container{web}, Alerts: []protocol.AlertInfo{alert}}
	seen := map[protocol.Digest]string{beat.Sum(base).Digest(): "as it was"}
	for name, change := range map[string]func(*beat.State){
		"host":            func(s *beat.State) { s.Host.Hostname = "x" },
		"another state":   func(s *beat.State) { s.Containers[0].State = "stopped" },
		"another name":    func(s *beat.State) { s.Containers[0].Name = "db" },
		"no container":    func(s *beat.State) { s.Containers = nil },
		"another text":    func(s *beat.State) { s.Alerts[0].Text = "u" },
		"cleared":         func(s *beat.State) { s.Alerts = nil },
		"neither":         func(s *beat.State) { s.Alerts, s.Containers = nil, nil },
		"one more of two": func(s *beat.State) { s.Alerts = append(s.Alerts, protocol.AlertInfo{ID: "b"}) },
	} {
		s := clone(base)
		change(&s)
		d := beat.Sum(s).Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%s: the digest is that of %s", name, other)
		}
		seen[d] = name
	}
	moved := clone(base)
	moved.Host.ClockMS = 5
	if beat.Sum(moved).Digest() != beat.Sum(base).Digest() {
		t.Error("a figure changes the digest")
	}
}

// TestLimit: many small changes make no state that a host could not tell at once.
func TestLimit(t *testing.T) {
	now := beat.State{Alerts: []protocol.AlertInfo{{ID: "a", Text: "some text"}}}
	d := beat.Make(beat.Sum(beat.State{}), beat.Sum(now), now)
	if _, err := beat.Apply(beat.State{}, d, 1000); err != nil {
		t.Error(err)
	}
	if _, err := beat.Apply(beat.State{}, d, 100); !errors.Is(err, beat.ErrBase) {
		t.Errorf("%v", err)
	}
}
