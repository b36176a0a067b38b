package unique

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// Move is the wish of a person that a workload go to one host. It ends when the workload is
// there, or when that host cannot take it any more: then the normal rules place it.
type Move struct {
	To     protocol.HostID `json:"to"`
	By     string          `json:"by"` // the person
	Reason string          `json:"reason,omitempty"`
	AtMS   int64           `json:"at_ms"` // Unix milliseconds
}

// Ask gives a workload the wish of a person to move it. refused says why the host of the wish
// cannot take the workload; empty if it can. Nothing is stopped before all of that is asked.
func (w Workload) Ask(m Move, refused string) (Workload, error) {
	switch {
	case w.Phase == Free:
		return w, fmt.Errorf("it runs nowhere, and waits for a host: %s", w.Why)
	case m.To == w.Host:
		return w, fmt.Errorf("it is on host %s already", m.To)
	case w.Move.To != "":
		return w, fmt.Errorf("%s already moves it to host %s", w.Move.By, w.Move.To)
	case w.Phase == Withheld:
		return w, fmt.Errorf("it is about to leave host %s: %s", w.Host, w.Why)
	case w.Stopped:
		return w, fmt.Errorf("its user has stopped it on host %s, and a move would start it: start it first", w.Host)
	}
	if ok, why := w.Anywhere(); !ok {
		return w, fmt.Errorf("%s; only one with data none or shared can be moved", why)
	}
	if w.Settled() {
		return w, fmt.Errorf("its data are on host %s, and what it has written since its newest backup would be lost; only one with data none or shared can be moved", w.Host)
	}
	if refused != "" {
		return w, fmt.Errorf("host %s cannot take it: %s", m.To, refused)
	}
	w.Move = m
	return w, nil
}

// Leaves reports whether a workload is to leave its host although that is heard.
func (w Workload) Leaves() bool { return w.Moves || w.Moving() }

// Moving reports whether a workload is on its way to the host to which a person moves it.
func (w Workload) Moving() bool { return w.Move.To != "" && w.Move.To != w.Host }

// Follow is the workload after another look at the host to which it is on its way. refused
// says why that host cannot take the workload; empty if it can. A wish that cannot be met is
// dropped: a workload that has not stopped yet goes on where it is.
func (w Workload) Follow(refused string) Workload {
	if w.Moving() && refused != "" {
		w.Move = Move{}
	}
	return w
}

// leaving says why a workload leaves its host.
func (w Workload) leaving() string {
	if w.Moving() {
		return "it moves to host " + string(w.Move.To) + ", as " + w.Move.By + " asked"
	}
	return "it leaves host " + string(w.Host)
}
