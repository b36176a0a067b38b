package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// broker keeps what is retained.
type broker struct {
	retained map[string]string
	sent     int
	fails    bool
}

func (b *broker) Publish(topic string, payload []byte, retained bool) error {
	if b.fails || !retained {
		return errors.New("no")
	}
	b.sent++
	if b.retained[topic] = string(payload); len(payload) == 0 {
		delete(b.retained, topic)
	}
	return nil
}

func (b *broker) Disconnect(san.Name) {}

type there map[protocol.HostID]core.Connectivity

func (t there) Presence(h protocol.HostID) core.Presence { return core.Presence{Connectivity: t[h]} }

// TestMirror: each host has three topics, which follow it, cost nothing while nothing
// changes, and go with it.
func TestMirror(t *testing.T) {
	b := &broker{retained: make(map[string]string)}
	hosts := there{"edge-07": core.Online}
	base := &core.Base{FleetName: "acme", Store: storetest.NewMem(storetest.Faults{}), Broker: b, Log: slog.New(slog.DiscardHandler), Ctx: context.Background()}
	put := func(h core.Host) {
		t.Helper()
		if err := base.Store.Update(t.Context(), func(tx core.Tx) error { return tx.Hosts.Put(h) }); err != nil {
			t.Fatal(err)
		}
	}
	h := core.Host{ID: "edge-07", State: core.HostApproved, Labels: []string{"site=lab"}}
	h.Inventory.Containers = []protocol.Container{{Name: "web", Runtime: "lxc", State: "running"}}
	h.Inventory.Alerts = []protocol.AlertInfo{{ID: "ram/host", Severity: "warning", Text: "memory"}}
	put(h)
	put(core.Host{ID: "edge-08", Key: protocol.KeyID{8}, State: core.HostRevoked})
	r := New(base, hosts)
	publish := func(want int) {
		t.Helper()
		b.sent = 0
		if err := r.publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b.sent != want {
			t.Errorf("%d messages were sent, want %d", b.sent, want)
		}
	}
	b.fails = true
	publish(0)
	b.fails = false
	publish(3)
	publish(0)
	root := "hostler/v1/acme/plain/host/edge-07/"
	if got := slices.Sorted(maps.Keys(b.retained)); !slices.Equal(got, []string{root + "alerts", root + "containers", root + "state"}) {
		t.Errorf("the topics are %q", got)
	}
	var s State
	if err := protocol.DecodeJSON([]byte(b.retained[root+"state"]), &s, false); err != nil || !s.Unsigned || s.Connectivity != "online" || s.Running != 1 || s.Alerts != 1 {
		t.Errorf("the state is %s, %v", b.retained[root+"state"], err)
	}
	hosts["edge-07"] = core.Late
	publish(1)
	h.Inventory.Containers[0].Labels = slices.Repeat([]string{"a-label=of-some-length"}, 20_000)
	put(h)
	publish(1)
	var large struct {
		Unsigned bool `json:"unsigned"`
		TooLarge int  `json:"too_large"`
	}
	if json.Unmarshal([]byte(b.retained[root+"containers"]), &large) != nil || !large.Unsigned || large.TooLarge < maxPlain {
		t.Errorf("too large a message is %.200s", b.retained[root+"containers"])
	}
	h.State = core.HostRevoked
	put(h)
	publish(3)
	if len(b.retained) != 0 {
		t.Errorf("of a host that is gone is left %q", b.retained)
	}
}
