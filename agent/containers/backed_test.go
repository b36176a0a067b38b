package containers

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// shelf has backups on a disk that takes a minute to be looked at.
type shelf struct {
	Backups
	all   map[container.CTID]GoodBackup
	looks int
}

func (s *shelf) Newest(context.Context) (map[container.CTID]GoodBackup, error) {
	all := s.all
	s.looks++
	<-time.After(time.Minute)
	return all, nil
}

// TestBackedMeanwhile: a backup that is made while the disk is looked at is known with the
// next look, which begins when the first has ended.
func TestBackedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, s, log := container.CTID("ct"), &shelf{}, slog.New(slog.DiscardHandler)
		l := loop.New(loop.Config{Boot: "boot", BootMS: func() int64 { return time.Now().UnixMilli() }, Now: time.Now, Log: log})
		defer l.Begin(t.Context(), t.Context())()
		c := New(Config{Loop: l, Backups: s, Seen: func() {}, Log: log})
		c.backed.look(c)
		synctest.Wait() // the look reads what there is
		s.all = map[container.CTID]GoodBackup{id: {Name: "web-1", MadeMS: 1}}
		ActionEnded(c, protocol.KindBackup)
		l.OnTime()
		for range 2 {
			l.Call(<-l.Calls())
			l.OnTime()
		}
		if s.looks != 2 || c.backed.newest[id].Name != "web-1" {
			t.Errorf("after %d looks it knows %v", s.looks, c.backed.newest)
		}
		l.Shutdown(time.Second, func() {})
	})
}
