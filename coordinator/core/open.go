package core

import "github.com/hostler-io/hostler/protocol"

// OpenStates are those of actions that have not ended.
func OpenStates() []protocol.State {
	return []protocol.State{protocol.StatePendingApprove, protocol.StatePendingSchedule, protocol.StateNew, protocol.StateRunning}
}

// EachOpen calls fn for every action of a host that has not ended.
func EachOpen(tx Tx, id protocol.HostID, fn func(Action) error) error {
	return EachAction(tx, ActionFilter{Host: id, States: OpenStates()}, fn)
}

// EachAction calls fn for every action that a filter chooses, the newest first.
func EachAction(tx Tx, f ActionFilter, fn func(Action) error) error {
	f.Limit = PageSize
	for {
		page, err := tx.Actions.List(f)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, a := range page {
			if err := fn(a); err != nil {
				return err
			}
			f.Before = a.ID
		}
	}
}

// EachHost calls fn for every host, by id.
func EachHost(tx Tx, fn func(Host) error) error {
	after := protocol.HostID("")
	for {
		page, err := tx.Hosts.List(after, PageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, h := range page {
			if err := fn(h); err != nil {
				return err
			}
			after = h.ID
		}
	}
}
