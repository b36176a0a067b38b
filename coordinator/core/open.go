package core

import "github.com/hostler-io/hostler/protocol"

// OpenStates are those of actions that have not ended.
func OpenStates() []protocol.State {
	return []protocol.State{protocol.StatePendingApprove, protocol.StatePendingSchedule, protocol.StateNew, protocol.StateRunning}
}

// EachOpen calls fn for every action of a host that has not ended.
func EachOpen(tx Tx, id protocol.HostID, fn func(Action) error) error {
	f := ActionFilter{Host: id, Limit: PageSize, States: OpenStates()}
	for {
		open, err := tx.Actions.List(f)
		if err != nil || len(open) == 0 {
			return err
		}
		for _, a := range open {
			if err := fn(a); err != nil {
				return err
			}
			f.Before = a.ID
		}
	}
}
