package containers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/retry"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

func TestJudge(t *testing.T) {
	const now = time.Hour
	states := []container.State{container.StateStopped, container.StateStarting, container.StateRunning,
		container.StateStopping, container.StateFrozen, container.StateUnknown}
	for _, c := range []struct {
		name  string
		spoil func(rec *queue.Container, seen *bool, tries *retry.Attempts)
		want  map[string]map[container.State]correction // by intended
	}{
		{"as it is", nil, map[string]map[container.State]correction{
			queue.Running: {container.StateStopped: correctStart},
			queue.Stopped: {container.StateRunning: correctStop, container.StateFrozen: correctStop},
		}},
		{"too early", func(_ *queue.Container, _ *bool, tries *retry.Attempts) { tries.NotBefore = now + 1 }, map[string]map[container.State]correction{
			queue.Running: {container.StateStopped: correctLater},
			queue.Stopped: {container.StateRunning: correctLater, container.StateFrozen: correctLater},
		}},
		{"broken", func(rec *queue.Container, _ *bool, _ *retry.Attempts) { rec.Broken = "why" }, nil},
		{"half made", func(rec *queue.Container, _ *bool, _ *retry.Attempts) { rec.Made = false }, nil},
		{"not seen yet", func(_ *queue.Container, seen *bool, _ *retry.Attempts) { *seen = false }, nil},
	} {
		for _, intended := range []string{queue.Running, queue.Stopped} {
			for _, s := range states {
				rec, seen, tries := queue.Container{Made: true, Intended: intended}, true, retry.Attempts{}
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
	older, newer := e, e
	older.Counter, newer.Counter = 2, 4
	for _, offline := range []string{"keep", "stop-after=1h", "stop-after=2h", "nonsense"} {
		for _, class := range []string{"pinned", "cloned"} {
			why := mayRun(&queue.Container{Class: class, Epoch: e, Offline: offline}, nil, 90*time.Minute)
			if may := offline == "keep" || offline == "stop-after=2h"; (why == "") != may {
				t.Errorf("%s, %s: %q", class, offline, why)
			}
		}
	}
	id := protocol.CTID{15: 1}
	for name, c := range map[string]struct {
		by   Leases
		want string
	}{
		"no coordinator":       {nil, "this host has none"},
		"no grant":             {grants{}, "nothing was granted"},
		"another container":    {grants{protocol.CTID{15: 2}: e}, "nothing was granted"},
		"its epoch":            {grants{id: e}, ""},
		"a newer epoch":        {grants{id: newer}, ""},
		"an epoch of the past": {grants{id: older}, "the coordinator is older"},
	} {
		for _, offline := range []string{"lease", "keep"} { // whatever its contract, a start wants a lease
			why := mayRun(&queue.Container{CTID: id, Class: "unique", Epoch: e, Offline: offline}, c.by, 0)
			if (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
				t.Errorf("%s, %s: %q, want %q", name, offline, why, c.want)
			}
		}
	}
	up := workload(&queue.Container{CTID: id, Class: "unique", Epoch: e, Offline: "lease", Intended: queue.Running}, grants{id: newer}, true)
	if state, why := up.Wanted(0); state != queue.Stopped || !strings.Contains(why, "has begun") {
		t.Errorf("what runs under an older epoch is to be %s: %q", state, why)
	}
}

// grants are leases that name containers, for ever.
type grants map[protocol.CTID]protocol.Epoch

func (g grants) Granted(id protocol.CTID) (protocol.Epoch, string) {
	if e, ok := g[id]; ok {
		return e, ""
	}
	return protocol.Epoch{}, "nothing was granted"
}

func (g grants) Await(_ context.Context, id protocol.CTID) (protocol.Epoch, error) { return g[id], nil }

func (grants) Hold(context.Context, protocol.CTID, protocol.Epoch, string, bool) (int64, error) {
	return 0, nil
}

func (grants) Release(protocol.CTID) {}
