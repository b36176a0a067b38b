package agent_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/terminal"
)

func session() protocol.Spec {
	return protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{Process: protocol.Process{Argv: []string{"hang"}}, TTY: &protocol.TTY{Rows: 24, Cols: 80}}}
}

// keyboard is the way to the terminal of a command of the fake.
type keyboard struct {
	typed  chan []byte
	closed chan struct{}
}

func newKeyboard() *keyboard {
	return &keyboard{typed: make(chan []byte, 4096), closed: make(chan struct{})}
}

func (k *keyboard) Write(p []byte) (int, error) {
	k.typed <- append([]byte(nil), p...)
	return len(p), nil
}
func (k *keyboard) Read([]byte) (int, error) {
	<-k.closed
	return 0, errors.New("closed")
}
func (k *keyboard) Close() error { close(k.closed); return nil }

// types sends a packet of a peer as the coordinator does.
func (w *world) types(id protocol.ActionID, who string, peer byte, text string) {
	w.t.Helper()
	p := terminal.Packet{Peer: terminal.Peer{peer, byte(len(who))}, Number: 1, Data: terminal.AppendData(nil, []byte(text))}
	w.typesPacket(id, who, terminal.AppendPacket(nil, p))
}

func (w *world) typesPacket(id protocol.ActionID, who string, packet []byte) {
	w.t.Helper()
	h := w.coord.header(protocol.TypeIn)
	attachment := terminal.AppendTyped(nil, terminal.Typed{Who: who, Packet: packet})
	h.Action, h.Attempt, h.FD = id, 1, protocol.TTYInput
	h.Size, h.SHA256 = int64(len(attachment)), protocol.Sum(attachment)
	body, err := json.Marshal(h)
	if err != nil {
		w.t.Fatal(err)
	}
	topic := protocol.Topic{Fleet: fleetName, Channel: protocol.ChannelIn, Host: host, Action: id}
	w.agent.BulkSession().Handle(topic.String(), w.coord.seals(body, attachment))
	synctest.Wait()
}

// wroteDown reports whether the host's audit log says who types in a session.
func (w *world) wroteDown(id protocol.ActionID, who string) bool {
	w.t.Helper()
	return slices.ContainsFunc(w.written(id, "session.attach"), func(r audit.Record) bool { return r.Actor == who })
}

// written is what the host's audit log has of an action.
func (w *world) written(id protocol.ActionID, verb string) (all []audit.Record) {
	w.t.Helper()
	_, _, err := w.queue.Audit().Export(context.Background(), func(line []byte) error {
		r, err := audit.ParseLine(line)
		if r.Verb == verb && r.Object == id.String() {
			all = append(all, r)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// TestTooManySessions: who comes when all sessions are taken is told so at once.
func TestTooManySessions(t *testing.T) {
	in(t, func(c *agent.Config) { c.Sessions = 2 }, func(t *testing.T, w *world) {
		for n := range byte(3) {
			w.coord.order(actionID(n+1), session())
		}
		w.coord.order(actionID(4), command("true"))
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING")
		w.expect(actionID(2), "start RUNNING")
		w.expect(actionID(3), "refuse FAILED too_many_sessions")
		w.expect(actionID(4), "succeed DONE ok")
		_, err := w.agent.Propose(t.Context(), actionID(5), []byte(`{"kind":"host.attach","tty":{"rows":24,"cols":80}}`), "root")
		if !errors.Is(err, protocol.ErrTooManySessions) || !strings.Contains(err.Error(), "too many sessions: 2 are open") {
			t.Errorf("of the host itself: %v", err)
		}
		w.coord.cancel(actionID(1))
		w.pass(time.Second)
		w.coord.order(actionID(6), session())
		w.pass(time.Second)
		w.expect(actionID(6), "start RUNNING")
	})
}

// TestNobodyTypesUnwritten holds back the audit log of the host: what is typed
// waits for it.
func TestNobodyTypesUnwritten(t *testing.T) {
	var hold atomic.Pointer[chan struct{}]
	slow := func(c *agent.Config) {
		c.Now = func() time.Time {
			if gate := hold.Load(); gate != nil {
				<-*gate
			}
			return time.Now()
		}
	}
	in(t, slow, func(t *testing.T, w *world) {
		id := actionID(1)
		w.coord.order(id, session())
		w.pass(time.Second)
		keys := w.cmds.get(id, 1).keys
		gate := make(chan struct{})
		hold.Store(&gate)
		w.types(id, "token:ann from 192.0.2.7", 1, "rm")
		w.types(id, "token:ann from 192.0.2.7", 1, "rm")
		if n := len(keys.typed); n != 0 {
			t.Errorf("%d packets were typed before the audit log says who", n)
		}
		hold.Store(nil)
		close(gate)
		w.pass(100 * time.Millisecond)
		if n := len(keys.typed); n != 2 || !w.wroteDown(id, "token:ann from 192.0.2.7") {
			t.Errorf("%d packets were typed afterwards, and who is written down: %v", n, w.wroteDown(id, "token:ann from 192.0.2.7"))
		}
		w.types(id, "token:bob from 192.0.2.8", 2, "ls")
		w.pass(100 * time.Millisecond)
		if n := len(keys.typed); n != 3 || !w.wroteDown(id, "token:bob from 192.0.2.8") {
			t.Errorf("another: %d packets, written down: %v", n, w.wroteDown(id, "token:bob from 192.0.2.8"))
		}
	})
}

// TestAnothersPeerIsWrittenDown: peers are chosen by those who type, and so one may
// be another's. Who it is that types is written down all the same, and before.
func TestAnothersPeerIsWrittenDown(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		id := actionID(1)
		w.coord.order(id, session())
		w.pass(time.Second)
		keys := w.cmds.get(id, 1).keys
		const ann, bob = "token:ann from 192.0.2.7", "token:bob from 192.0.2.8"
		turns := []string{ann, ann, bob, bob, ann}
		for i, who := range turns {
			w.types(id, who, 1, "ls")
			w.pass(100 * time.Millisecond)
			if n := len(keys.typed); n != i+1 {
				t.Errorf("%d packets were typed of %d", n, i+1)
			}
		}
		var got []string
		for _, r := range w.written(id, "session.attach") {
			got = append(got, r.Actor)
		}
		if want := slices.Compact(turns); !slices.Equal(got, want) {
			t.Errorf("written down: %q, want %q", got, want)
		}
	})
}

// TestTooManyTypists: who comes when as many have come as may is refused, and not
// let in without a record.
func TestTooManyTypists(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		id := actionID(1)
		w.coord.order(id, session())
		w.pass(time.Second)
		keys := w.cmds.get(id, 1).keys
		for n := range terminal.MaxPeers + 1 {
			var p terminal.Packet
			binary.BigEndian.PutUint32(p.Peer[:], uint32(n+1))
			p.Number = 1
			w.typesPacket(id, "ann", terminal.AppendPacket(nil, p))
		}
		w.pass(time.Second)
		if n := len(keys.typed); n != terminal.MaxPeers {
			t.Errorf("%d peers were let in, want %d", n, terminal.MaxPeers)
		}
		var last terminal.Peer
		binary.BigEndian.PutUint32(last[:], terminal.MaxPeers+1)
		w.coord.see(func() {
			if !slices.Contains(w.coord.typedAcks, terminal.Ack{Peer: last, Offset: terminal.Refused}) {
				t.Errorf("who came last is not told that it is refused: %v", w.coord.typedAcks)
			}
		})
	})
}

// TestSessionsAreRecorded: who asks for a recording gets one, and a host may record
// without being asked. Its digest stands in the host's audit log.
func TestSessionsAreRecorded(t *testing.T) {
	asked := session()
	asked.Args.(*protocol.SessionArgs).TTY.Record = true
	for name, c := range map[string]struct {
		tune func(*agent.Config)
		spec protocol.Spec
		want rundir.Terminal
	}{
		"not asked for": {nil, session(), rundir.Terminal{}},
		"asked for":     {nil, asked, rundir.Terminal{RecordBytes: 32 << 20}},
		"demanded":      {func(c *agent.Config) { c.RecordSessions = true }, session(), rundir.Terminal{RecordBytes: 32 << 20}},
		"or ended": {func(c *agent.Config) { c.RecordSessions, c.RecordBytes, c.RecordOrEnd = true, 5<<20, true }, session(),
			rundir.Terminal{RecordBytes: 5 << 20, RecordOrEnd: true}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, c.tune, func(t *testing.T, w *world) {
				id := actionID(1)
				w.coord.order(id, c.spec)
				w.pass(time.Second)
				got := *w.cmds.get(id, 1).cmd.Terminal
				if got.RecordBytes != c.want.RecordBytes || got.RecordOrEnd != c.want.RecordOrEnd {
					t.Errorf("it begins with %+v, want %+v", got, c.want)
				}
				w.coord.cancel(id)
				w.pass(time.Second)
				ends := w.written(id, "action.cancelled")
				if len(ends) != 1 {
					t.Fatalf("its end is written down %d times", len(ends))
				}
				digest, recorded := ends[0].Detail["recording"]
				if recorded != (c.want.RecordBytes > 0) || recorded && digest != protocol.Sum([]byte("a cast\n")).String() {
					t.Errorf("written down: %v", ends[0].Detail)
				}
			})
		})
	}
}
