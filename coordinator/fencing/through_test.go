package fencing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/protocol"
)

// gateway is a host that reaches a device: what becomes of the actions that it is asked
// for.
type gateway struct {
	*stage
	away   error                         // why it is not asked
	become func(verb string) core.Action // nil: it asks the device
	broken error                         // why it is not known what became of that
	within []time.Duration
}

// Do implements [Hosts].
func (g *gateway) Do(ctx context.Context, host protocol.HostID, spec []byte, _, ends time.Duration) (core.Action, error) {
	if g.away != nil || host != "b" {
		return core.Action{}, errors.Join(g.away, ctx.Err())
	}
	g.within = append(g.within, ends)
	s, err := protocol.DecodeRequest(spec)
	if err != nil {
		return core.Action{}, err
	}
	a := protocol.ArgsOf[protocol.FenceArgs](&s)
	if a.Verb == "describe" {
		return core.Action{State: protocol.StateDone, Detail: "ok: agent=fence_far plug=port on status"}, nil
	}
	if g.become != nil {
		if out := g.become(a.Verb); out.State != "" {
			return out, g.broken
		}
	}
	res := g.Run(ctx, agents.Call{Verb: a.Verb, Host: a.Host, Plug: a.Plug, Limit: a.Limit()})
	return core.Action{State: protocol.StateDone, Detail: res.Answer()}, nil
}

// withGateway is a stage in which host b asks a device that can switch host a.
func withGateway(t *testing.T) *gateway {
	s := newStage(t)
	g := &gateway{stage: s}
	s.cfg.Hosts = g
	if err := s.RemoveDevice(t.Context(), admin, "pdu", ""); err != nil {
		t.Fatal(err)
	}
	d, err := s.SetDevice(t.Context(), admin, fence.Device{Name: "far", Via: "b", Targets: []fence.Target{{Host: "a", Plug: "1"}}}, "")
	if err != nil || d.Agent != "fence_far" || d.Plugged != "port" || !d.Status || !d.On || d.Targets[0].SeenMS == 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	s.set(func() { s.asked = nil })
	return g
}

// TestThrough: a device that only a host reaches is used as any other is.
func TestThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withGateway(t)
		asked := len(g.within)
		for says, d := range map[string]fence.Device{
			"cannot switch itself off":     {Via: "b", Targets: []fence.Target{{Host: "b"}}},
			"knows its program: leave":     {Via: "b", Agent: "fence_x", Targets: []fence.Target{{Host: "a"}}},
			"knows what it is told: write": {Via: "b", Params: map[string]string{"ip": "1"}, Targets: []fence.Target{{Host: "a"}}},
			`host "nobody"`:                {Via: "nobody", Targets: []fence.Target{{Host: "a"}}},
		} {
			d.Name = "wrong"
			if _, err := g.SetDevice(t.Context(), admin, d, ""); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %s", err, says)
			}
		}
		if len(g.within) != asked {
			t.Error("a host was asked in vain")
		}
		g.lose("a")
		time.Sleep(5 * time.Second)
		if got := g.questions(); got != "a off, a status, a on" {
			t.Fatalf("asked: %s", got)
		}
		if off, _ := g.Off("a"); !off || g.Ops()[0].Proof != "device far says that it is off" {
			t.Errorf("%+v", g.Ops()[0])
		}
		if most := slices.Max(g.within); most > begins+fence.DefaultTry {
			t.Errorf("an answer is waited for %s", most)
		}
	})
}

// TestThroughFails: whatever is not known of such a device is a failure, and the log of the
// fence says why. An off that may have been sent is not sent again.
func TestThroughFails(t *testing.T) {
	for name, c := range map[string]struct {
		away   error
		become core.Action
		broken error
		says   string
		offs   int // that were asked for
	}{
		"not connected": {away: errors.New("the host is not connected"), says: "host b, which is to ask the device, was not asked: the host is not connected"},
		"refused":       {become: core.Action{State: protocol.StateFailed, Reason: "unsupported"}, says: "has not asked the device: action", offs: 2},
		"expired":       {become: core.Action{State: protocol.StateCancelled, Reason: "expired"}, says: "expired", offs: 2},
		"lost":          {become: core.Action{State: protocol.StateLost, Detail: "ok: so it says"}, says: "is LOST", offs: 1},
		"cut short":     {become: core.Action{State: protocol.StateFailed, Attempt: 1, Detail: "the agent has ended"}, says: "has not told what the device said", offs: 1},
		"silent":        {become: core.Action{State: protocol.StateRunning}, says: "has not answered within", offs: 1},
		"not read":      {become: core.Action{ID: protocol.ActionID{1}, State: protocol.StateNew}, broken: errors.New("no database"), says: "is not known: action", offs: 1},
		"said nothing":  {become: core.Action{State: protocol.StateDone, Detail: "hello"}, says: "hello", offs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := withGateway(t)
				offs := 0
				g.away, g.broken, g.become = c.away, c.broken, func(verb string) core.Action {
					if verb == "off" {
						offs++
					}
					return c.become
				}
				o, err := g.Fence(t.Context(), admin, Request{Host: "a", Action: fence.ActionOff})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if o, err = g.Op(o.ID); err != nil || o.State != fence.Failed || o.Proof != "" || offs != c.offs {
					t.Errorf("%+v, %v, %d offs", o, err, offs)
				}
				said := ""
				for _, l := range o.Log {
					said += l.Text + "\n"
				}
				if !strings.Contains(said, c.says) {
					t.Errorf("the log says %s, want %s", said, c.says)
				}
			})
		})
	}
}

// TestThroughIsLookedAt: a device that only a host reaches is looked at each half an hour,
// whatever the date says; and with the next look at all devices when its host is back, when it
// is not used, and when it did not answer.
func TestThroughIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withGateway(t)
		looks := func(during time.Duration) int {
			t.Helper()
			g.set(func() { g.asked = nil })
			g.back("a", during)
			return strings.Count(g.questions(), "a status")
		}
		device := func(unusable, trouble bool) {
			t.Helper()
			d, err := g.Device("far")
			if err != nil || (d.Targets[0].Unusable != "") != unusable || (d.Trouble != "") != trouble {
				t.Fatalf("%+v, %v; want unusable %t, trouble %t", d, err, unusable, trouble)
			}
		}
		looks(auditEvery + 10*time.Second) // from now on it was looked at
		if n := looks(auditOthersEvery - auditEvery); n != 0 {
			t.Errorf("%d looks without a reason", n)
		}
		g.base.Now = func() time.Time { return time.Now().AddDate(-1, 0, 0) }
		if n := looks(auditEvery); n != 1 {
			t.Errorf("%d looks in half an hour after the date went back", n)
		}
		g.set(func() { g.on["1"], g.anew["a"] = false, g.boot() }) // another cable, while it was down
		looks(auditEvery)
		device(true, false)
		g.set(func() { g.on["1"] = true })
		looks(auditEvery)
		device(false, false)
		g.away, g.anew["a"] = errors.New("the host is not connected"), g.boot()
		looks(auditEvery)
		device(false, true)
		g.away = nil
		if n := looks(auditEvery); n != 1 {
			t.Errorf("%d looks at a device that did not answer", n)
		}
		device(false, false)
		if n := looks(auditOthersEvery - auditEvery); n != 0 {
			t.Errorf("%d looks when all is well again", n)
		}
	})
}
