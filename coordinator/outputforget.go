package coordinator

import (
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/coordinator/core"
)

// Remove calls forget with those of some actions whose output nobody reads, and lets
// nobody begin to read it meanwhile. Then it removes the output of those that forget
// returns. Files that a crash leaves belong to no action, and go at the next look.
func (o *outputs) Remove(all []core.Action, forget func(unread []core.Action) ([]core.Action, error)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	unread := make([]core.Action, 0, len(all))
	for _, a := range all {
		if !o.isRead(a) {
			unread = append(unread, a)
		}
	}
	gone, err := forget(unread)
	if err != nil {
		return err
	}
	for _, a := range gone {
		for id := range o.known[a.Host] {
			if id.action == a.ID {
				delete(o.known[a.Host], id)
			}
		}
		if err := os.RemoveAll(filepath.Join(o.dir, a.ID.String())); err != nil {
			return err
		}
	}
	return nil
}

// isRead reports whether somebody reads output of an action. The caller holds
// o.mu.
func (o *outputs) isRead(a core.Action) bool {
	for id, held := range o.known[a.Host] {
		if id.action == a.ID && held.refs > 0 {
			return true
		}
	}
	return false
}
