package influx

import (
	"context"
	"slices"
)

// foreign is a batch of another sender, which keeps it until done says that it is safe.
type foreign struct {
	batch
	done func(taken bool)
}

// Forward hands over lines of another sender, which have their tags already, and says how
// many they are. It never waits, and reports false if there is no place for them. Otherwise
// done is called once, by a goroutine of the sink, and must not wait: with true when the
// database or the spool has taken the lines, or when the database never will, and with false
// when neither has, so that the sender must keep them. The lines must not be changed
// afterwards.
func (s *Sink) Forward(lines []byte, count int, done func(taken bool)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	select {
	case s.others <- foreign{batch{lines, count}, done}:
		return true
	default:
		return false
	}
}

// bring sends what has come of others together, or keeps it behind what waits. While one
// write is under way more comes, so that with many senders a batch has something of each.
func (s *Sink) bring(ctx context.Context, first foreign) {
	all, b := []foreign{first}, batch{slices.Clip(first.lines), first.count}
	for len(s.others) > 0 && len(b.lines) < s.cfg.MaxBatch/2 {
		f := <-s.others
		all = append(all, f)
		b = batch{append(b.lines, f.lines...), b.count + f.count}
	}
	taken := len(s.spool.files) == 0 && ctx.Err() == nil && s.send(ctx, b) || s.keepForeign(b)
	for _, f := range all {
		f.done(taken)
	}
}

// keepForeign is keep for lines that their senders still have: no line is lost if the disk
// does not take them. It reports whether the disk took them.
func (s *Sink) keepForeign(b batch) bool {
	lost, err := s.spool.add(b)
	s.spooled()
	if err != nil {
		lost -= b.count
	}
	switch {
	case lost > 0:
		s.lost(lost, err)
	case err != nil && !s.loudly:
		s.loudly = true
		s.cfg.Log.Warn("samples of hosts are not kept; the hosts send them again", "lines", b.count, "error", err)
	}
	return err == nil
}

// end keeps what has come of others when nothing is sent any more, if there is a spool.
func (s *Sink) end(ctx context.Context) {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	for len(s.others) > 0 {
		if f := <-s.others; s.spool == nil {
			f.done(false)
		} else {
			s.bring(ctx, f)
		}
	}
}
