package coordinator_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/protocol"
)

// replace gives a host up, and returns what became of it.
func replace(t *testing.T, f *coordtest.Fleet, id protocol.HostID) members.Replacement {
	t.Helper()
	r, err := f.Coordinator().Members().Replace(t.Context(), f.Admin(), id, time.Hour, "it burned")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return r
}

// succeed lets the machine with another key take the name of a host.
func succeed(t *testing.T, f *coordtest.Fleet, id, key protocol.HostID, code string) *coordtest.Host {
	t.Helper()
	if _, err := claim(t, f, id, key, code); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Coordinator().Members().ApproveEnrolment(t.Context(), f.Admin(), string(id), ""); err != nil {
		t.Fatal(err)
	}
	return f.Machine(id, key)
}

// TestReplacedHost: name and labels go over to the machine that takes the place of
// another; what that was asked does not, and of each action is said what is known.
func TestReplacedHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		c := f.Coordinator()
		if err := c.Members().Relabel(t.Context(), f.Admin(), h.ID, []string{"site=lab"}, nil, ""); err != nil {
			t.Fatal(err)
		}
		h.Set(func(f *coordtest.Facts) {
			f.Containers = []protocol.Container{{CTID: protocol.NewCTID(1, [10]byte{1}), Name: "web", Runtime: "lxc", State: "running"}}
		})
		h.Heartbeat()
		h.Auto(coordtest.Succeed(""))
		done := propose(t, f, h)
		want(t, f, done.ID, protocol.StateDone, protocol.ReasonOK)
		h.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
		running := propose(t, f, h)
		want(t, f, running.ID, protocol.StateRunning, "")
		h.Auto(func(*coordtest.Host, coordtest.Order) {})
		sent := propose(t, f, h)
		synctest.Wait()
		h.Silence()
		after(5 * time.Minute)
		unsent := propose(t, f, h)
		after(time.Second)

		r := replace(t, f, h.ID)
		if r.Unknown != 2 || r.Unsent != 1 || r.Unapproved != 0 || len(r.Containers) != 1 {
			t.Errorf("%d unknown, %d unsent, %d unapproved actions and %d containers, want 2, 1, 0 and 1", r.Unknown, r.Unsent, r.Unapproved, len(r.Containers))
		}
		for id, detail := range map[protocol.ActionID]string{
			running.ID: "how it ended is not known", sent.ID: "whether that ran it is not known", unsent.ID: "never sent",
		} {
			a := want(t, f, id, protocol.StateLost, protocol.ReasonReplaced)
			if !strings.Contains(a.Detail, detail) {
				t.Errorf("of an action is said %q, want %q", a.Detail, detail)
			}
		}
		want(t, f, done.ID, protocol.StateDone, protocol.ReasonOK)
		if _, err := c.Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")}); !errors.Is(err, core.ErrDenied) {
			t.Errorf("an action while nobody bears the name: %v", err)
		}
		h.Connect() // it was not lost after all
		after(5 * time.Second)
		if v, err := c.Members().Host(t.Context(), h.ID); err != nil || v.State != core.HostReplacing || !v.Store.IsZero() || len(v.Inventory.Containers) != 0 {
			t.Errorf("it is %+v, %v", v, err)
		}

		next := succeed(t, f, h.ID, "another-machine", r.Code)
		var ordered []protocol.ActionID
		next.Auto(func(h *coordtest.Host, o coordtest.Order) {
			ordered = append(ordered, o.Item.Action)
			coordtest.Succeed("")(h, o)
		})
		next.Connect()
		h.Connect()
		first := propose(t, f, next)
		want(t, f, first.ID, protocol.StateDone, protocol.ReasonOK)
		f.Restart()
		next.Connect()
		h.Connect()
		second := propose(t, f, next)
		want(t, f, second.ID, protocol.StateDone, protocol.ReasonOK)
		if !slices.Equal(ordered, []protocol.ActionID{first.ID, second.ID}) {
			t.Errorf("the new machine was ordered %v, want %v", ordered, []protocol.ActionID{first.ID, second.ID})
		}
		v, err := f.Coordinator().Members().Host(t.Context(), h.ID)
		if err != nil || v.State != core.HostApproved || v.Quarantined != "" || !slices.Equal(v.Labels, []string{"site=lab"}) || v.Host.Reason != "" || len(v.Former) != 1 {
			t.Errorf("the new machine is %+v, %v", v.Host, err)
		}
		want(t, f, running.ID, protocol.StateLost, protocol.ReasonReplaced)
		believed(t, next)
		for _, msg := range f.Published(h.ID, protocol.ChannelOrder) {
			if strings.Contains(string(msg.Payload), unsent.ID.String()) {
				t.Error("what had not been sent was sent after all")
			}
		}
	})
}

// TestOutputOfTheNextMachine comes whole, whatever its clock says when it tells of what
// it was asked on the spot.
func TestOutputOfTheNextMachine(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		data := bytes.Repeat([]byte("0123456789abcdef"), 20<<10)
		before := talked(t, f, h, "of the machine before")
		h.Silence()
		after(5 * time.Minute)
		r := replace(t, f, h.ID)
		next := succeed(t, f, h.ID, "another-machine", r.Code)
		next.Connect()
		after(time.Minute)
		for _, at := range []int64{time.Now().UnixMilli(), 5_000} {
			spec := coordtest.RunSpec("x")
			id := f.Coordinator().Actions().NewActionID()
			next.Write(id, 1, protocol.Stdout, data)
			next.Report(protocol.Report{
				Action: id, Digest: protocol.Sum(spec), Spec: spec, Requester: "uid:0", Event: protocol.EventSucceed, State: protocol.StateDone, Reason: protocol.ReasonOK,
				AcceptSeq: next.Accept(), Attempt: 1, AtMS: at, Exit: &protocol.Exit{}, Output: []protocol.Output{{FD: protocol.Stdout, Bytes: int64(len(data))}},
			})
			after(time.Minute)
			if got, _ := read(t, f, id, 0, true); got != string(data) {
				t.Errorf("with the clock at %d: %d of %d bytes", at, len(got), len(data))
			}
		}
		if got, _ := read(t, f, before, 0, true); got != "of the machine before" {
			t.Errorf("of the machine before %q is left", got)
		}
	})
}

// overtaken is a trust that others want to change while a certificate is pinned.
type overtaken struct {
	*coordtest.Trust
	pinning func()
	last    func(what string)
}

func (o overtaken) PinHost(id protocol.HostID, csr []byte) error {
	o.pinning()
	o.last("pinned")
	return o.Trust.PinHost(id, csr)
}

func (o overtaken) RevokeHost(id protocol.HostID, key protocol.KeyID) {
	o.last("revoked")
	o.Trust.RevokeHost(id, key)
}

// TestRevokedWhileLetIn: who is revoked while others are about to let him in stays out.
func TestRevokedWhileLetIn(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		r := replace(t, f, h.ID)
		var mu sync.Mutex
		var last string
		revoked := make(chan error, 1)
		f.Tune(func(c *coordinator.Config) {
			c.HostKeys = overtaken{f.Trust, func() {
				go func() { revoked <- f.Coordinator().Members().Revoke(t.Context(), f.Admin(), h.ID, "") }()
				<-time.After(time.Second) // of the bubble: it can go no further
			}, func(what string) {
				mu.Lock()
				defer mu.Unlock()
				last = what
			}}
		})
		f.Restart()
		succeed(t, f, h.ID, "another-machine", r.Code)
		if err := <-revoked; err != nil {
			t.Fatal(err)
		}
		if last != "revoked" {
			t.Errorf("at last it was %s", last)
		}
	})
}

// TestWhoMayTakeAName: the name of a host whose machine is replaced is kept for who
// has the newest code for it, and that code is for nothing else.
func TestWhoMayTakeAName(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		c := f.Coordinator()
		operator := core.Actor{Name: "eve", Role: core.RoleApprover}
		if _, err := c.Members().Replace(t.Context(), operator, h.ID, time.Hour, ""); !errors.Is(err, core.ErrDenied) {
			t.Errorf("replaced by an approver: %v", err)
		}
		if _, err := c.Members().Replace(t.Context(), f.Admin(), "nobody", time.Hour, ""); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("a host that is not there: %v", err)
		}
		if _, err := claim(t, f, h.ID, "stranger", invite(t, f)); !errors.Is(err, core.ErrExists) {
			t.Errorf("the name of a member: %v", err)
		}
		first := replace(t, f, h.ID)
		if _, err := claim(t, f, h.ID, "stranger", invite(t, f)); !errors.Is(err, core.ErrExists) {
			t.Errorf("a code for any host: %v", err)
		}
		if _, err := claim(t, f, "edge-99", "stranger", first.Code); !errors.Is(err, core.ErrDenied) || !strings.Contains(err.Error(), "--host edge-07") {
			t.Errorf("another name: %v", err)
		}
		if _, err := claim(t, f, h.ID, h.ID, first.Code); !errors.Is(err, core.ErrDenied) || !strings.Contains(err.Error(), "hostler-agent leave") {
			t.Errorf("the key of the lost machine: %v", err)
		}
		if _, err := claim(t, f, "edge-98", h.ID, invite(t, f)); !errors.Is(err, core.ErrDenied) {
			t.Errorf("the key of the lost machine, under another name: %v", err)
		}
		if _, err := claim(t, f, h.ID, "stranger", first.Code); err != nil {
			t.Fatal(err)
		}
		// The code went to the wrong hands: another one is made.
		second := replace(t, f, h.ID)
		if _, err := c.Members().ApproveEnrolment(t.Context(), f.Admin(), string(h.ID), ""); !errors.Is(err, core.ErrConflict) {
			t.Errorf("who waited by the first code: %v", err)
		}
		if _, err := claim(t, f, h.ID, "stranger", first.Code); !errors.Is(err, core.ErrExists) {
			t.Errorf("the first code after the second was made: %v", err)
		}
		next := succeed(t, f, h.ID, "another-machine", second.Code)
		next.Auto(coordtest.Succeed(""))
		next.Connect()
		want(t, f, propose(t, f, next).ID, protocol.StateDone, protocol.ReasonOK)
		// A machine whose place was taken comes back no more, a revoked one can be replaced.
		if err := c.Members().Revoke(t.Context(), f.Admin(), h.ID, "stolen"); err != nil {
			t.Fatal(err)
		}
		third := succeed(t, f, h.ID, "third-machine", replace(t, f, h.ID).Code)
		third.Auto(coordtest.Succeed(""))
		third.Connect()
		want(t, f, propose(t, f, third).ID, protocol.StateDone, protocol.ReasonOK)
		for _, key := range []protocol.HostID{h.ID, "another-machine"} {
			if p, ok := f.Trust.Principal(coordtest.NewKey("host " + string(key)).Key()); !ok || !p.Revoked {
				t.Errorf("the key of %s is believed", key)
			}
		}
		v, err := c.Members().Host(t.Context(), h.ID)
		if err != nil || len(v.Former) != 2 {
			t.Errorf("%d machines had the name before, %v", len(v.Former), err)
		}
	})
}
