package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

// TestSameAsMem gives both stores the same transactions, some of which are undone,
// and compares each answer. What tests with a Mem show is then true here.
func TestSameAsMem(t *testing.T) {
	disk, _ := create(t)
	defer disk.Close()
	rapid.Check(t, func(rt *rapid.T) {
		empty(t, disk)
		mem := storetest.NewMem(storetest.Faults{})
		undo := errors.New("undo")
		for range rapid.IntRange(1, 12).Draw(rt, "transactions") {
			steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 6).Draw(rt, "steps")
			keep := rapid.IntRange(0, 3).Draw(rt, "keep") > 0
			answers := func(s core.Store) (got []any) {
				err := s.Update(t.Context(), func(tx core.Tx) error {
					got = nil
					for _, st := range steps {
						v, err := st.run(tx)
						got = append(got, v, kind(err))
					}
					if !keep {
						return undo
					}
					return nil
				})
				if err != nil && !errors.Is(err, undo) {
					rt.Fatal(err)
				}
				return got
			}
			if diff := cmp.Diff(answers(mem), answers(disk), cmpopts.EquateEmpty()); diff != "" {
				rt.Fatalf("steps %v (-mem +disk):\n%s", steps, diff)
			}
		}
	})
}

// empty makes the store as good as new; that is quicker than a new one.
func empty(t *testing.T, s *Store) {
	err := s.db.Update(t.Context(), func(tx *sqldb.Tx) error {
		s.memory.forget()
		for _, query := range []string{"DELETE FROM host", "DELETE FROM enrolment", "DELETE FROM action", "DELETE FROM item",
			"DELETE FROM token", "DELETE FROM event", "DELETE FROM stream", "DELETE FROM value", "DELETE FROM audit", "UPDATE counter SET last = 0"} {
			if _, err := tx.Exec(query); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kind reduces an error to what callers branch on.
func kind(err error) string {
	for _, sentinel := range []error{core.ErrNotFound, core.ErrExists, core.ErrInvalid} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	return fmt.Sprint(err)
}

type step struct {
	name string
	run  func(core.Tx) (any, error)
}

func (s step) String() string { return s.name }

// drawStep draws an operation on one of few records, so that they meet.
func drawStep(rt *rapid.T) step {
	a, b := rapid.IntRange(0, 3).Draw(rt, "a"), rapid.IntRange(0, 3).Draw(rt, "b")
	id := func(n int) protocol.ActionID { return protocol.NewActionID(int64(n), [10]byte{byte(n)}) }
	hostID := func(n int) protocol.HostID { return protocol.HostID(fmt.Sprint("edge-", n)) }
	host := core.Host{ID: hostID(a), Key: protocol.KeyID{byte(b)}, AcceptSeq: uint64(b), State: core.HostApproved}
	if a == 1 {
		host.State = core.HostRevoked
	}
	for i := range b {
		host.Inventory.Containers = append(host.Inventory.Containers, protocol.Container{State: []string{"running", "stopped"}[i%2]})
	}
	action := core.Action{ID: id(a), Host: hostID(b), State: protocol.States()[b], N: uint64(a % 2), ExpiresMS: int64(b), EndedMS: int64(b)}
	if b > 1 {
		action.Target = protocol.NewCTID(1, [10]byte{})
		action.Exit = &protocol.Exit{}
	}
	filter := core.ActionFilter{Limit: a + 1}
	if b&1 != 0 {
		filter.Host = hostID(a)
	}
	if b&2 != 0 {
		filter.States = protocol.States()[:2]
	}
	enrolment := core.Enrolment{ID: fmt.Sprint(a), Key: protocol.KeyID{byte(b)}, CreatedMS: int64(b), State: core.EnrolmentPending}
	item := core.Item{N: uint64(a), Item: []byte{byte(b)}}
	stream := core.StreamState{Host: hostID(a % 2), Pos: protocol.Position{Stream: protocol.StreamOrder, N: uint64(b)}, Freed: protocol.Position{Stream: protocol.StreamOrder, N: uint64(a)}}
	token := core.Token{ID: fmt.Sprint(a), Hash: protocol.Digest{byte(b)}}
	done := func(err error) (any, error) { return nil, err }
	steps := []step{
		{"put host", func(tx core.Tx) (any, error) { return done(tx.Hosts.Put(host)) }},
		{"get host", func(tx core.Tx) (any, error) { return tx.Hosts.Get(host.ID) }},
		{"standing of a host", func(tx core.Tx) (any, error) { return tx.Hosts.Standing(host.ID) }},
		{"list hosts", func(tx core.Tx) (any, error) { return tx.Hosts.List(hostID(a), b) }},
		{"put enrolment", func(tx core.Tx) (any, error) { return done(tx.Enrolments.Put(enrolment)) }},
		{"enrolment by key", func(tx core.Tx) (any, error) { return tx.Enrolments.ByKey(enrolment.Key) }},
		{"list enrolments", func(tx core.Tx) (any, error) { return tx.Enrolments.List("", a) }},
		{"insert action", func(tx core.Tx) (any, error) { return done(tx.Actions.Insert(action)) }},
		{"put action", func(tx core.Tx) (any, error) { return done(tx.Actions.Put(action)) }},
		{"get action", func(tx core.Tx) (any, error) { return tx.Actions.Get(action.ID) }},
		{"list actions", func(tx core.Tx) (any, error) { return tx.Actions.List(filter) }},
		{"find actions", func(tx core.Tx) (any, error) { return tx.Actions.Find(id(a).String()[:12+a], b) }},
		{"unsent", func(tx core.Tx) (any, error) { return tx.Queue.Unsent(hostID(b), protocol.StreamOrder, a) }},
		{"expired", func(tx core.Tx) (any, error) { return tx.Queue.Expired(int64(a), b) }},
		{"append item", func(tx core.Tx) (any, error) {
			return done(tx.Streams.Append("edge-1", protocol.StreamOrder, item))
		}},
		{"free items", func(tx core.Tx) (any, error) {
			return done(tx.Streams.Free("edge-1", protocol.StreamOrder, uint64(b)))
		}},
		{"items", func(tx core.Tx) (any, error) {
			return tx.Streams.Items("edge-1", protocol.StreamOrder, uint64(a), uint64(b))
		}},
		{"put token", func(tx core.Tx) (any, error) { return done(tx.Access.PutToken(token)) }},
		{"token by hash", func(tx core.Tx) (any, error) { return tx.Access.TokenByHash(token.Hash) }},
		{"put stream", func(tx core.Tx) (any, error) { return done(tx.Streams.Put(stream)) }},
		{"get stream", func(tx core.Tx) (any, error) { return tx.Streams.Get(stream.Host, stream.Pos.Stream) }},
		{"put value", func(tx core.Tx) (any, error) { return done(tx.Values.Put(token.ID, []byte{byte(b)})) }},
		{"get value", func(tx core.Tx) (any, error) { return tx.Values.Get(token.ID) }},
		{"append records", func(tx core.Tx) (any, error) {
			var errs []error
			for n := range 5 * a {
				errs = append(errs, tx.Audit.Append([]byte{byte(n)}))
			}
			return done(errors.Join(errs...))
		}},
		{"records", func(tx core.Tx) (any, error) { return tx.Audit.Records(uint64(a), 20*b) }},
		{"append event", func(tx core.Tx) (any, error) { return tx.Events.Append(core.Event{Type: "t"}) }},
		{"trim events", func(tx core.Tx) (any, error) { return done(tx.Events.Trim(uint64(a))) }},
		{"restart events", func(tx core.Tx) (any, error) { return done(tx.Events.Restart(uint64(10 * a))) }},
		{"remove action", func(tx core.Tx) (any, error) { return done(tx.Past.RemoveAction(id(a))) }},
		{"count actions", func(tx core.Tx) (any, error) { return tx.Actions.Count() }},
		{"count containers", func(tx core.Tx) (any, error) { return tx.Hosts.Containers() }},
		{"names of hosts", func(tx core.Tx) (any, error) { return tx.Hosts.Names(host.State) }},
		{"ended actions", func(tx core.Tx) (any, error) {
			return tx.Past.Actions(core.Ended{AtMS: int64(a), ID: id(b).String()}, 2)
		}},
		{"events", func(tx core.Tx) (any, error) { return tx.Events.List(uint64(a), b) }},
		{"newest event", func(tx core.Tx) (any, error) { return tx.Events.Last() }},
	}
	s := rapid.SampledFrom(steps).Draw(rt, "step")
	return step{fmt.Sprintf("%s %d %d", s.name, a, b), s.run}
}
