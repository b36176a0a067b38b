// Package beat is what of a host's state has changed since a state that both sides
// have. It is pure: the host calls [Make], the coordinator [Apply], and the digest of a
// change shows whether the same state came out.
package beat

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/figures"
)

// State is all that heartbeats tell of a host.
type State struct {
	Host       protocol.HostInfo
	Containers []protocol.Container
	Alerts     []protocol.AlertInfo
}

// Sums tell two states apart, piece by piece. Figures are in none of them: they are told
// each time.
type Sums struct {
	size               int // of all pieces in bytes, as JSON
	host               protocol.Digest
	containers, alerts map[string]protocol.Digest
}

// ErrBase tells that a change does not fit the state that it was applied to.
var ErrBase = errors.New("the change does not lead from the state that is known to the one that the host has")

// Delta is a change of a state.
type Delta struct {
	Host       *protocol.HostInfo // all of it, if more than figures has changed
	Figures    figures.Figures
	Containers []protocol.Container // new and changed ones, whole
	Alerts     []protocol.AlertInfo // raised and changed ones
	Removed    []string             // containers, by [Key]
	Cleared    []string             // alerts, by id
	Digest     protocol.Digest      // of the state after it
}

// Key names a container within its host.
func Key(c *protocol.Container) string {
	if c.CTID.IsZero() {
		return c.Runtime + "/" + string([]rune(c.Name)) // as JSON has a name that is no text
	}
	return c.CTID.String()
}

// Sum sums a state up.
func Sum(s State) Sums {
	s.Host.Figures = figures.Figures{}
	size := 0
	sum := func(v any) protocol.Digest { // of JSON as it travels: what does not survive that makes no difference
		b, _ := json.Marshal(v) // texts and numbers alone
		size += len(b)
		return protocol.Sum(b)
	}
	sums := Sums{0, sum(s.Host), make(map[string]protocol.Digest, len(s.Containers)), make(map[string]protocol.Digest, len(s.Alerts))}
	for i := range s.Containers {
		sums.containers[Key(&s.Containers[i])] = sum(s.Containers[i])
	}
	for _, a := range s.Alerts {
		sums.alerts[a.ID] = sum(a)
	}
	sums.size = size
	return sums
}

// Digest is that of the whole state: SHA-256 of the digests of its pieces, the host first,
// then containers and alerts by their names.
func (s Sums) Digest() protocol.Digest {
	var all strings.Builder
	all.WriteString(s.host.String() + "\n")
	for _, pieces := range []map[string]protocol.Digest{s.containers, s.alerts} {
		for _, key := range slices.Sorted(maps.Keys(pieces)) {
			all.WriteString(pieces[key].String() + " " + key + "\n")
		}
		all.WriteString("\n")
	}
	return protocol.Sum([]byte(all.String()))
}

// Make returns what has changed since base. sums are those of the state now.
func Make(base, sums Sums, now State) Delta {
	d := Delta{Figures: now.Host.Figures, Digest: sums.Digest()}
	if sums.host != base.host {
		d.Host = &now.Host
	}
	for _, c := range now.Containers {
		if key := Key(&c); sums.containers[key] != base.containers[key] {
			d.Containers = append(d.Containers, c)
		}
	}
	for _, a := range now.Alerts {
		if sums.alerts[a.ID] != base.alerts[a.ID] {
			d.Alerts = append(d.Alerts, a)
		}
	}
	d.Removed, d.Cleared = missing(base.containers, sums.containers), missing(base.alerts, sums.alerts)
	return d
}

// missing lists what is in the one and not in the other.
func missing(in, not map[string]protocol.Digest) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(in)) {
		if _, ok := not[key]; !ok {
			all = append(all, key)
		}
	}
	return all
}

// Apply returns the state that a change leads to, which is [ErrBase] if that is not the
// host's, or more than limit bytes of JSON. base is not changed.
func Apply(base State, d Delta, limit int) (State, error) {
	now := base
	if d.Host != nil {
		now.Host = *d.Host
	}
	now.Host.Figures = d.Figures
	now.Containers = merge(base.Containers, d.Containers, d.Removed, func(c protocol.Container) string { return Key(&c) })
	now.Alerts = merge(base.Alerts, d.Alerts, d.Cleared, func(a protocol.AlertInfo) string { return a.ID })
	if sums := Sum(now); sums.size > limit || sums.Digest() != d.Digest {
		return State{}, ErrBase
	}
	return now, nil
}

// merge puts pieces in the places of those of the same name, new ones behind, and leaves
// out those that are gone.
func merge[T any](old, changed []T, gone []string, key func(T) string) []T {
	at, all := make(map[string]int, len(old)), make([]T, 0, len(old)+len(changed))
	left := make(map[string]bool, len(gone))
	for _, name := range gone {
		left[name] = true
	}
	for _, piece := range slices.Concat(old, changed) {
		if i, ok := at[key(piece)]; ok {
			all[i] = piece
			continue
		}
		at[key(piece)] = len(all)
		all = append(all, piece)
	}
	return slices.DeleteFunc(all, func(piece T) bool { return left[key(piece)] })
}
