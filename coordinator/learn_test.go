package coordinator_test

import (
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
)

// told is what a heartbeat says of a policy that somebody signed, or that root
// wrote.
func told(source, text string) *protocol.PolicyInfo {
	return &protocol.PolicyInfo{Source: source, Digest: protocol.Sum([]byte(text))}
}

// waits asks for a command and tells whether it waits for approval.
func (c *crew) waits() bool {
	c.t.Helper()
	a := c.request()
	if a.State == protocol.StatePendingApprove {
		return true
	}
	order(c.t, c.host)
	return false
}

// beats lets the host tell of the policy in force.
func (c *crew) beats(info *protocol.PolicyInfo) {
	c.host.Set(func(f *coordtest.Facts) { f.Info.Policy = info })
	c.host.Heartbeat()
	synctest.Wait()
}

// asked tells how often the host was asked for the text of its policy since
// the last call.
func (c *crew) asked() (n int) {
	for {
		select {
		case item := <-c.host.Controls():
			if item.Verb == protocol.VerbPolicy {
				n++
			}
		default:
			return n
		}
	}
}

func (c *crew) answers(text string) {
	c.host.Report(protocol.Report{Event: protocol.EventTell, Policy: []byte(text)})
	synctest.Wait()
}

const (
	hostsOnePerson = "version = 1\n" + onePerson
	hostsTwo       = "version = 1\n" + twoPersons
)

// TestPolicyIsLearntWhenItIsSet: the coordinator that delivered a policy collects
// what it asks for from the moment at which its host has it in force, through a
// restart of its own, and until the host tells of another one.
func TestPolicyIsLearntWhenItIsSet(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, c *crew) {
		c.beats(&protocol.PolicyInfo{Source: "builtin"})
		if c.waits() {
			t.Error("a command waits for approval under the built-in policy")
		}
		c.host.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			done := o.Done()
			done.Exit = nil
			h.Report(done)
		})
		spec := coordtest.Spec(protocol.Spec{Kind: protocol.KindPolicySet, Args: &protocol.PolicyArgs{Policy: []byte(hostsOnePerson), Signed: [][]byte{{'x'}}}})
		a, err := c.Coordinator().Actions().Propose(t.Context(), c.Admin(), actions.Request{Host: c.host.ID, Spec: spec})
		c.must(err)
		want(t, c.Fleet, a.ID, protocol.StateDone, protocol.ReasonOK)
		c.host.Auto(nil)
		if !c.waits() {
			t.Error("a command does not wait although the policy asks for approval")
		}
		c.beats(told("document", hostsOnePerson))
		c.Restart()
		believed(t, c.host)
		if !c.waits() {
			t.Error("after a restart a command does not wait")
		}
		if n := c.asked(); n != 0 {
			t.Errorf("the host was asked %d times for what is known", n)
		}
		c.beats(&protocol.PolicyInfo{Source: "builtin"})
		if c.waits() {
			t.Error("a command waits for approval under the built-in policy again")
		}
	})
}

// TestUnknownPolicyIsAskedFor: a policy of root's file was never seen here. Its
// host is asked for it once, and hosts of the same policy are not.
func TestUnknownPolicyIsAskedFor(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, c *crew) {
		for range 3 {
			c.beats(told("file", hostsTwo))
		}
		if n := c.asked(); n != 1 {
			t.Errorf("the host was asked %d times, want once", n)
		}
		c.answers(hostsOnePerson) // of another moment
		if c.waits() {
			t.Error("a policy is believed that the host does not have in force")
		}
		c.answers(hostsTwo)
		if a := c.request(); a.State != protocol.StatePendingApprove || a.Needs[0].Persons != 2 {
			t.Errorf("it is %s and needs %+v, want two persons", a.State, a.Needs)
		}
		c.Restart()
		believed(t, c.host)
		if !c.waits() || c.asked() != 0 {
			t.Error("what the host told is not known after a restart")
		}
		other := c.AddHost("edge-08")
		other.Set(func(f *coordtest.Facts) { f.Info.Policy = told("file", hostsTwo) })
		other.Connect()
		synctest.Wait()
		a, err := c.Coordinator().Actions().Propose(t.Context(), c.Admin(), actions.Request{Host: other.ID, Spec: coordtest.RunSpec("true")})
		c.must(err)
		if a.State != protocol.StatePendingApprove || len(other.Controls()) != 0 {
			t.Errorf("on a host of the same policy it is %s, after %d questions", a.State, len(other.Controls()))
		}
	})
}

// TestLatePolicyReport: a report that comes late does not undo what a newer
// heartbeat has told.
func TestLatePolicyReport(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, c *crew) {
		spec := coordtest.Spec(protocol.Spec{Kind: protocol.KindPolicySet, Args: &protocol.PolicyArgs{Policy: []byte(hostsOnePerson), Signed: [][]byte{{'x'}}}})
		a, err := c.Coordinator().Actions().Propose(t.Context(), c.Admin(), actions.Request{Host: c.host.ID, Spec: spec})
		c.must(err)
		o := order(t, c.host)
		c.host.Report(o.Started(c.host))
		c.host.Set(func(f *coordtest.Facts) { f.Info.ClockMS = 2 })
		c.beats(&protocol.PolicyInfo{Source: "builtin"})
		done := o.Done()
		done.Exit, done.AtMS = nil, 1
		c.host.Report(done)
		want(t, c.Fleet, a.ID, protocol.StateDone, protocol.ReasonOK)
		if c.waits() {
			t.Error("a late report has brought back a policy that is not in force any more")
		}
	})
}
