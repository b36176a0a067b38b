package containers

import (
	"context"
	"time"
)

// Nothing is corrected while the host goes down: what ends then was ended by the host, and
// comes back with it, for its intended state stays as it is. An agent that is asked to
// end corrects nothing either; but a host ends services and containers side by side, so a
// container may be gone before the agent is asked.

// leavingPause is how long a host that is going down is left alone until it is asked again:
// a shutdown may be called off.
const leavingPause = 5 * time.Second

// staying is what is known of whether the host stays. It belongs to the loop.
type staying struct {
	asking bool
	sure   bool // it was asked just now, and stays
}

// leaving tells that nothing may be corrected now. Unless the host was asked just now, it
// is asked, and then corrections are looked at again.
func leaving(c *Containers) bool {
	if c.cfg.Leaving == nil || c.staying.sure {
		return false
	}
	if c.staying.asking {
		return true
	}
	c.staying.asking = true
	c.cfg.Loop.Beside(func(ctx context.Context) func() {
		leaving := c.cfg.Leaving(ctx)
		return func() {
			c.staying.asking = false
			if leaving {
				c.cfg.Log.Info("the host is going down: containers are left as they are")
				c.again.In(leavingPause)
				return
			}
			c.staying.sure = true
			c.Correct()
			c.staying.sure = false
		}
	})
	return true
}
