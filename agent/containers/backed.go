package containers

import (
	"context"
	"maps"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// backedEvery is how often the host looks at its backups beside the moments at which an
// action about one has ended: people move files.
const backedEvery = 10 * time.Minute

// backed is the newest good backup of each container. It belongs to the loop.
type backed struct {
	tick        *loop.Timer
	newest      map[container.CTID]GoodBackup
	known, busy bool
	again       bool // to be looked at once more: an action has ended while the disk was
}

// look asks the disk beside the loop.
func (b *backed) look(c *Containers) {
	b.again = b.busy
	if c.cfg.Backups == nil || c.cfg.Loop.Stopping() || b.busy {
		return
	}
	b.busy = true
	c.cfg.Loop.Beside(func(ctx context.Context) func() {
		newest, err := c.cfg.Backups.Newest(ctx)
		return func() {
			b.busy = false
			b.tick.In(backedEvery)
			if b.again {
				b.tick.In(0)
			}
			if err != nil {
				c.cfg.Log.Warn("the backups of this host cannot be looked at", "error", err)
				return
			}
			same := maps.Equal(b.newest, newest)
			if b.newest, b.known = newest, true; !same {
				c.cfg.Seen()
			}
		}
	})
}

// good is the newest good backup of a container.
func (c *Containers) good(m *managed) GoodBackup {
	return c.backed.newest[container.CTID(m.rec.CTID.String())]
}

// ActionEnded follows the end of an action that may have made or removed a backup.
func ActionEnded(c *Containers, k protocol.Kind) {
	switch k {
	case protocol.KindBackup, protocol.KindBackupVerify, protocol.KindBackupRemove, protocol.KindBackupImport:
		c.backed.tick.At(c.cfg.Loop.Now())
	}
}
