package coordinator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestReturnOnTheOldConnection: a host that was silent for longer than a lease, and goes on with
// its connection, is asked for all that it has.
func TestReturnOnTheOldConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		told := func() int64 {
			v, err := f.Coordinator().Members().Host(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			return v.Inventory.AtMS
		}
		h.Silence()
		after(3 * time.Minute)
		back := time.Now().UnixMilli()
		h.Speak()
		after(time.Minute)
		if told() < back {
			t.Error("a minute after its return nobody has asked what it has")
		}
		asked := told()
		after(5 * time.Minute)
		if told() != asked {
			t.Error("it is asked again for what it has told")
		}
	})
}

// TestContainersAreKnownWhenTheirActionEnds: whoever waited for an action need
// not wait for a heartbeat to see what it made, and a report that comes late
// does not undo a newer heartbeat.
func TestContainersAreKnownWhenTheirActionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		id := protocol.NewCTID(time.Now().UnixMilli(), [10]byte{1})
		web := protocol.Container{CTID: id, Name: "web", Runtime: "lxc", State: "stopped", Intended: "stopped", Class: "pinned", Offline: "keep"}
		do := func(kind protocol.Kind, becomes *protocol.Container, at time.Time) {
			t.Helper()
			s := protocol.Spec{Kind: kind, Target: id, Name: "web"}
			if kind == protocol.KindCreate {
				s.Args = &protocol.CreateArgs{Template: "busybox"}
			}
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			h.Auto(func(h *coordtest.Host, o coordtest.Order) {
				h.Report(o.Started(h))
				done := o.Done()
				done.Exit, done.Container, done.AtMS = nil, becomes, at.UnixMilli()
				h.Report(done)
			})
			a, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: b})
			if err != nil {
				t.Fatal(err)
			}
			want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		}
		state := func() string {
			t.Helper()
			ct, err := containerOf(t, f, h.ID, "web")
			if errors.Is(err, core.ErrNotFound) {
				return "gone"
			}
			if err != nil {
				t.Fatal(err)
			}
			return ct.State
		}
		expect := func(want string) {
			t.Helper()
			if got := state(); got != want {
				t.Errorf("the container is %s, want %s", got, want)
			}
		}
		do(protocol.KindCreate, &web, time.Now())
		expect("stopped")
		running := web
		running.State, running.Addresses = "running", []string{"10.0.0.2"}
		do(protocol.KindStart, &running, time.Now())
		expect("running")
		do(protocol.KindStop, &web, time.Now())
		expect("stopped")
		do(protocol.KindDestroy, nil, time.Now())
		expect("gone")

		h.Set(func(f *coordtest.Facts) { f.Info.ClockMS = time.Now().UnixMilli() })
		h.Heartbeat() // of a host that has none
		after(0)
		do(protocol.KindStart, &running, time.Now().Add(-time.Second))
		expect("gone")
	})
}

// TestChanges: a host tells what has changed since what the coordinator has. Whatever is
// lost on the way, or changes here meanwhile, the inventory becomes what the host has.
func TestChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		want := func(states ...string) {
			t.Helper()
			after(0)
			host, err := f.Coordinator().Members().Host(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ct := range host.Inventory.Containers {
				got = append(got, ct.Name+" "+ct.State)
			}
			var raised int
			h.Set(func(f *coordtest.Facts) { raised = len(f.Alerts) })
			if slices.Sort(got); !slices.Equal(got, states) || len(host.Inventory.Alerts) != raised {
				t.Errorf("the inventory has %q and %d alerts, want %q and %d", got, len(host.Inventory.Alerts), states, raised)
			}
		}
		asked := func() (n int) {
			for _, m := range f.Published(h.ID, protocol.ChannelReceipt) {
				if bytes.Contains(m.Payload, []byte(`"want":["full"]`)) {
					n++
				}
			}
			return n
		}
		web, db := protocol.Container{Name: "web", Runtime: "lxc", State: "running"}, protocol.Container{Name: "db", Runtime: "lxc", State: "running"}
		h.Set(func(f *coordtest.Facts) { f.Containers = []protocol.Container{web} })
		for i := range 40 {
			h.Set(func(f *coordtest.Facts) {
				f.Alerts = append(f.Alerts, protocol.AlertInfo{ID: fmt.Sprintf("a/%d", i), Severity: "warning", Text: "t"})
			})
		}
		h.Heartbeat()
		want("web running")

		web.State = "stopped"
		h.Set(func(f *coordtest.Facts) { f.Containers, f.Alerts = []protocol.Container{web}, f.Alerts[1:] })
		f.Delay(func(topic string, _ []byte) bool { return strings.HasSuffix(topic, "/heartbeat") })
		h.Change() // is lost
		f.Delay(func(string, []byte) bool { return false })
		h.Set(func(f *coordtest.Facts) { f.Containers = []protocol.Container{web, db} })
		h.Change()
		want("db running", "web stopped")
		h.Set(func(f *coordtest.Facts) { f.Containers = []protocol.Container{db} })
		h.Change()
		want("db running")
		if n := asked(); n != 0 {
			t.Errorf("it was asked %d times for what it had told", n)
		}

		// What an alert has told is taken back before the next change tells it.
		h.Alert(protocol.Alert{Raised: true, AlertInfo: protocol.AlertInfo{ID: "late", Severity: "warning", Text: "t"}})
		after(0)
		h.Change()
		want("db running")
		if n := asked(); n != 1 {
			t.Errorf("it was asked %d times, want once", n)
		}
		h.Break()
		after(time.Second)
		h.Connect()
		after(time.Second)
		want("db running")
	})
}

// TestNameOfAnotherContainer: what calls a container otherwise than its host does is
// not written down, so nobody approves it by its name. What the host has told of no
// container is for the host to judge.
func TestNameOfAnotherContainer(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		ct := func(n byte) protocol.CTID { return protocol.NewCTID(1, [10]byte{n}) }
		h.Set(func(f *coordtest.Facts) {
			f.Containers = []protocol.Container{{CTID: ct(1), Name: "db", Runtime: "lxc", State: "stopped"}, {CTID: ct(2), Name: "scratch", Runtime: "lxc", State: "stopped"}}
		})
		h.Heartbeat()
		after(0)
		ask := func(name protocol.ContainerName, n byte) (actions.Request, []error) {
			t.Helper()
			spec := coordtest.Spec(protocol.Spec{Kind: protocol.KindDestroy, Target: ct(n), Name: name})
			r := actions.Request{ID: f.Coordinator().Actions().NewActionID(), Host: h.ID, Spec: spec}
			_, planned := f.Coordinator().Actions().Plan(t.Context(), f.Admin(), r)
			_, proposed := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), r)
			_, many, err := f.Coordinator().Actions().ProposeMany(t.Context(), f.Admin(), actions.BatchRequest{Hosts: []protocol.HostID{h.ID}, Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			return r, []error{planned, proposed, many[0].Refused}
		}
		_, errs := ask("scratch", 1)
		for i, err := range errs {
			if !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), `is called "db", not "scratch"`) {
				t.Errorf("way %d: %v", i, err)
			}
		}
		r, errs := ask("db", 1)
		for _, err := range slices.Concat(errs, func() []error { _, e := ask("new", 3); return e }(), func() []error { _, e := ask("", 1); return e }()) {
			if err != nil {
				t.Error(err)
			}
		}
		// Asked again, it is what was asked for before.
		h.Set(func(f *coordtest.Facts) { f.Containers[0].Name = "db-old" })
		h.Heartbeat()
		after(0)
		if a, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), r); err != nil || a.ID != r.ID {
			t.Errorf("%v, %v", a.ID, err)
		}
	})
}

// containerOf finds a container of a host by name in its newest inventory.
func containerOf(t *testing.T, f *coordtest.Fleet, id protocol.HostID, name string) (protocol.Container, error) {
	t.Helper()
	h, err := f.Coordinator().Members().Host(t.Context(), id)
	if err != nil {
		return protocol.Container{}, err
	}
	i := slices.IndexFunc(h.Inventory.Containers, func(ct protocol.Container) bool { return ct.Name == name })
	if i < 0 {
		return protocol.Container{}, core.ErrNotFound
	}
	return h.Inventory.Containers[i], nil
}
