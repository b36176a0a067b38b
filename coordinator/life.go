package coordinator

// lifeMS is the clock of what ends by itself.
func (c *Coordinator) lifeMS() int64 { return c.lives.Now(c.nowMS(), c.cfg.Boot()) }
