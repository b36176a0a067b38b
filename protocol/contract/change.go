package contract

import (
	"fmt"
	"slices"
)

// Change is what is to change of how a container is kept. What it does not name stays.
type Change struct {
	Offline string `json:"offline,omitzero" example:"\"stop-after=8h\"" doc:"What it does while its host is cut off: keep goes on, stop-after=DURATION stops after that time."`
	Class   string `json:"class,omitzero" enum:"pinned,cloned" doc:"pinned or cloned. What is unique is so from its creation on, and stays so."`
	// Orders are from 1: 0 cannot be told from one that is not named.
	StartOrder int64  `json:"start_order,omitzero" min:"-1" max:"1000" example:"10" doc:"When it is started, should several be: those of a lower number first, those without one last. -1 takes it away."`
	Health     *Check `json:"health,omitempty" doc:"How it is looked at while it runs."`
	Schedules
	StartAfter []string `json:"start_after,omitempty" example:"[\"db\"]" doc:"The names of containers of its host that are to run before it is started. none takes them away."`
}

// Check tells what is wrong with a change.
func (c *Change) Check() error {
	if _, err := Parse(c.Offline); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	if c.Health != nil {
		if err := c.Health.Check(); err != nil {
			return err
		}
	}
	if err := c.Schedules.Check(); err != nil {
		return err
	}
	if len(c.StartAfter) > MaxAfter {
		return fmt.Errorf("start_after: %d containers, want at most %d", len(c.StartAfter), MaxAfter)
	}
	if slices.Contains(c.StartAfter, None) && len(c.StartAfter) > 1 {
		return fmt.Errorf("start_after: %s stands alone", None)
	}
	return nil
}

// Status is how a container stands to what is intended of it.
type Status struct {
	Waits  string `json:"waits,omitempty"`  // why it is not started, though it is meant to run
	Health string `json:"health,omitempty"` // of its check: starting, healthy or unhealthy; empty without one
	// StartOrder and StartAfter are when it is started, should several be.
	StartOrder int64    `json:"start_order,omitzero"`
	StartAfter []string `json:"start_after,omitempty"` // names
	// Backup is the newest backup of it that was read as a whole and found good, and
	// BackupMS when that was made, in Unix milliseconds of the host; empty without one.
	Backup   string `json:"backup,omitempty"`
	BackupMS int64  `json:"backup_ms,omitzero"`
	// Restored names the backup from which its host made it; empty if it used none.
	Restored string `json:"restored,omitempty"`
}
