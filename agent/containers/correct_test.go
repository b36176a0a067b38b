package containers

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

func TestJudge(t *testing.T) {
	const now = time.Hour
	states := []container.State{container.StateStopped, container.StateStarting, container.StateRunning,
		container.StateStopping, container.StateFrozen, container.StateUnknown}
	for _, c := range []struct {
		name  string
		spoil func(rec *queue.Container, seen *bool, tries *attempts)
		want  map[string]map[container.State]correction // by intended
	}{
		{"as it is", nil, map[string]map[container.State]correction{
			queue.Running: {container.StateStopped: correctStart},
			queue.Stopped: {container.StateRunning: correctStop, container.StateFrozen: correctStop},
		}},
		{"too early", func(_ *queue.Container, _ *bool, tries *attempts) { tries.notBefore = now + 1 }, map[string]map[container.State]correction{
			queue.Running: {container.StateStopped: correctLater},
			queue.Stopped: {container.StateRunning: correctLater, container.StateFrozen: correctLater},
		}},
		{"broken", func(rec *queue.Container, _ *bool, _ *attempts) { rec.Broken = "why" }, nil},
		{"half made", func(rec *queue.Container, _ *bool, _ *attempts) { rec.Made = false }, nil},
		{"not seen yet", func(_ *queue.Container, seen *bool, _ *attempts) { *seen = false }, nil},
	} {
		for _, intended := range []string{queue.Running, queue.Stopped} {
			for _, s := range states {
				rec, seen, tries := queue.Container{Made: true, Intended: intended}, true, attempts{}
				if c.spoil != nil {
					c.spoil(&rec, &seen, &tries)
				}
				if got, want := judge(&rec, intended, seen, s, tries, now), c.want[intended][s]; got != want {
					t.Errorf("%s, intended %s, %v: %v, want %v", c.name, intended, s, got, want)
				}
			}
		}
	}
}

func TestMayRun(t *testing.T) {
	e := protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 2}, Counter: 3}
	for _, offline := range []string{"keep", "stop-after=1h", "stop-after=2h", "nonsense"} {
		for class, may := range map[string]bool{"pinned": true, "cloned": true, "unique": false} {
			got, why := mayRun(&queue.Container{Class: class, Epoch: e, Offline: offline}, 90*time.Minute)
			may = may && (offline == "keep" || offline == "stop-after=2h")
			if (why == "") != may || may && got != e {
				t.Errorf("%s, %s: epoch %v, %q", class, offline, got, why)
			}
		}
	}
}
