package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
	"github.com/hostler-io/hostler/runner"
)

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // nothing here cannot be encoded
	}
	return b
}

// leases is what was really said about the leases of a host.
type leases struct {
	mu      sync.Mutex
	sent    map[protocol.Seq]int64 // boot clock of the host
	granted map[protocol.Seq]int64 // time to live that the coordinator gave to it
}

// overhear notes leases and grants as their authors say them.
func (w *world) overhear(t protocol.Topic, payload []byte) {
	switch t.Channel {
	case protocol.ChannelLease, protocol.ChannelPresence, protocol.ChannelGrant:
	default:
		return
	}
	env, err := protocol.Split(payload)
	var g protocol.Grant
	if err != nil || json.Unmarshal(env.Body, &g) != nil {
		return
	}
	l := w.leases[t.Host]
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Channel == protocol.ChannelGrant {
		l.granted[g.Heard] = g.TTLms
		return
	}
	if _, again := l.sent[g.Seq]; !again {
		l.sent[g.Seq] = w.host(t.Host).bootMS()
	}
}

func (w *world) host(id protocol.HostID) *host {
	return w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.id == id })]
}

// lookAtLeases checks that a lease rests on a grant that answers what this very
// process has sent, and lasts from then; and, where the link works, that it
// was renewed in time.
func (w *world) lookAtLeases() {
	for _, h := range w.hosts {
		if h.agent == nil {
			continue
		}
		s, err := h.agent.Status(w.t.Context())
		if err != nil {
			w.t.Errorf("%s: %v", h.id, err)
			continue
		}
		l := w.leases[h.id]
		l.mu.Lock()
		rests := s.LeaseUntilMS == 0
		for seq, ttl := range l.granted {
			at, ok := l.sent[seq]
			rests = rests || ok && seq.Inc == s.Inc && at+ttl == s.LeaseUntilMS
		}
		l.mu.Unlock()
		if !rests {
			w.t.Errorf("%s at %v: the lease until %d rests on no grant", h.id, time.Since(w.begun), s.LeaseUntilMS)
		}
		works := w.settled || w.plan.harm.spare && time.Since(w.begun) > 10*time.Second
		if left := s.LeaseUntilMS - h.bootMS(); works && left < 55_000 {
			w.t.Errorf("%s at %v: the link works, and %d ms are left of the lease", h.id, time.Since(w.begun), left)
		}
	}
}

// check compares both sides, and both with what was done.
func (w *world) check(when string) {
	report := func(format string, args ...any) { w.t.Helper(); w.t.Errorf(when+": "+format, args...) }
	c := w.center.coord
	if why := c.Recovery(); why != "" {
		report("the coordinator recovers: %s", why)
	}
	for _, h := range w.hosts {
		w.checkHost(h, report)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.asked {
		if w.center.recovered {
			w.checkRecovered(a, report)
		} else {
			w.checkAction(a, report)
		}
	}
	w.checkEvents(report)
}

type reporter func(format string, args ...any)

func (w *world) checkHost(h *host, report reporter) {
	ctx, c := w.t.Context(), w.center.coord
	view, err := c.Members().Host(ctx, h.id)
	if err != nil || view.Quarantined != "" || view.Connectivity != core.Online {
		report("%s is %s, quarantined: %q, %v", h.id, view.Connectivity, view.Quarantined, err)
	}
	s, err := h.agent.Status(ctx)
	if err != nil || !s.Connected || s.Unsent != 0 || s.Degraded != "" || s.Waiting+s.Running != 0 {
		report("the agent of %s: %+v, %v", h.id, s, err)
	}
	own, err := h.agent.Containers(ctx)
	if err != nil {
		report("%s: %v", h.id, err)
	}
	var want []protocol.Container
	for _, ct := range own {
		want = append(want, ct.Container)
	}
	for _, list := range [][]protocol.Container{want, view.Inventory.Containers} {
		slices.SortFunc(list, func(a, b protocol.Container) int { return strings.Compare(a.Name, b.Name) })
	}
	if got := view.Inventory.Containers; len(got) != len(want) || len(got) > 0 && !bytes.Equal(encode(got), encode(want)) {
		report("%s has containers %s, the inventory has %s", h.id, encode(want), encode(got))
	}
	raised, err := h.queue.Alerts(ctx)
	if err != nil || len(raised) != len(view.Inventory.Alerts) || len(raised) > 0 && !bytes.Equal(encode(raised), encode(view.Inventory.Alerts)) {
		report("%s has raised %s, the inventory has %s, %v", h.id, encode(raised), encode(view.Inventory.Alerts), err)
	}
	pos, err := h.queue.Positions(ctx)
	if err != nil {
		report("%s: %v", h.id, err)
	}
	err = w.center.store.View(ctx, func(tx core.Tx) error {
		for _, sent := range pos.Sent {
			if st, err := tx.Streams.Get(h.id, sent.Stream); err != nil || st.Pos.N != sent.N || st.Pos.H != sent.H {
				report("%s has sent %d items of %s, %d arrived, %v", h.id, sent.N, sent.Stream, st.Pos.N, err)
			}
		}
		for _, name := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
			have := stream.Find(pos.Have, name)
			if st, err := tx.Streams.Get(h.id, name); err != nil || st.Pos.N != have.N || st.Pos.H != have.H || st.Freed.N != have.N {
				report("%s has %d items of %s, %d were sent and %d freed, %v", h.id, have.N, name, st.Pos.N, st.Freed.N, err)
			}
		}
		return nil
	})
	if err != nil {
		report("%s: %v", h.id, err)
	}
	all, err := h.agent.Actions(ctx, 0, 1000)
	if err != nil {
		report("%s: %v", h.id, err)
	}
	for _, act := range all {
		if !slices.ContainsFunc(w.asked, func(a asked) bool { return a.id == act.ID && a.host == h }) {
			report("%s did what nobody asked of it: %s", h.id, act.Spec)
		}
	}
}

// checkAction holds the coordinator's view against the host's record, and that
// against what was done.
func (w *world) checkAction(a asked, report reporter) {
	ctx := w.t.Context()
	text := string(encode(a.spec))
	view, err := w.center.coord.Actions().Get(ctx, a.id)
	if err != nil || !view.State.Final() || view.Reason == "" || view.State == protocol.StateLost || view.Cancelling || view.Conflict != nil {
		report("%s %s is %s %s with number %d, cancelling: %v, %v", a.host.id, text, view.State, view.Reason, view.N, view.Cancelling, err)
		return
	}
	own, err := a.host.agent.Action(ctx, a.id)
	never := view.State == protocol.StateCancelled && view.N == 0 // it was ended before it had a number
	did := a.host.machine.did(a.id)
	switch {
	case never && (err == nil || did.begun > 0):
		report("%s %s was ended here, but the host knows it", a.host.id, text)
	case never:
	case err != nil || own.State != view.State || own.Reason != view.Reason || own.ReportN > 0 && own.Attempt != view.Attempt:
		report("%s %s is %s %s by attempt %d here, and %s %s by attempt %d there, %v", a.host.id, text, view.State, view.Reason, view.Attempt, own.State, own.Reason, own.Attempt, err)
	case own.Spec != nil && !bytes.Equal(own.Spec, view.Spec): // tombstones have none
		report("%s %s is another action there: %s", a.host.id, text, own.Spec)
	}
	if a.spec.Kind != protocol.KindRun {
		return
	}
	if did.begun > 1 {
		report("%s %s began %d times", a.host.id, text, did.begun)
	}
	if got, want := fmt.Sprint(view.State, " ", view.Reason), did.ended(); !slices.Contains(want, got) {
		report("%s %s is %s, want one of %q", a.host.id, text, got, want)
	}
	if did.begun == 0 {
		return
	}
	// Of a command that was ended without a record nobody knows the sizes.
	known, written := len(view.Output) > 0, did.last.text
	switch {
	case a.followed != nil && (!bytes.HasPrefix(written, *a.followed) || known && len(*a.followed) < len(written)):
		report("%s %s is %s: %d bytes of output were read, %d were written", a.host.id, text, view.State, len(*a.followed), len(written))
	case a.followed == nil && known && own.ReportN > 0: // the host still keeps it
		w.checkOutput(a, written, report)
	}
}

// ended tells what may be said of what was done.
func (d did) ended() []string {
	switch {
	case d.begun == 0:
		return []string{"CANCELLED cancelled", "CANCELLED expired"}
	case d.last.verdict != runner.Exited:
		return []string{"FAILED interrupted", "CANCELLED cancelled"}
	case d.last.end.Exit.Cancelled:
		return []string{"CANCELLED cancelled"}
	case d.last.end.Exit.Code != 0:
		return []string{"FAILED exit"}
	}
	return []string{"DONE ok"}
}

// checkOutput reads what the coordinator has of an output.
func (w *world) checkOutput(a asked, want []byte, report reporter) {
	var got []byte
	for offset := int64(0); offset >= 0; {
		before := len(got)
		span, err := w.center.coord.Relay().Output.Read(w.t.Context(), relay.Reading{Action: a.id, FD: protocol.Stdout, Offset: offset}, func(p []byte) error {
			got = append(got, p...)
			return nil
		})
		if err != nil || span.Next == offset+int64(len(got)-before) && span.Next >= 0 {
			break
		}
		offset = span.Next
	}
	if !bytes.Equal(got, want) {
		report("%s %s: %d bytes of output are held, and %d were written", a.host.id, encode(a.spec), len(got), len(want))
	}
}

// checkEvents reads the journal: each action went along its edges to one end,
// and each alert was told once.
func (w *world) checkEvents(report reporter) {
	states := make(map[string]protocol.State)
	alerts := make(map[protocol.HostID]uint64)
	for after := uint64(0); ; {
		all, err := w.center.coord.Journal().Events(w.t.Context(), after, 1000)
		if err != nil {
			report("%v", err)
		}
		if len(all) == 0 {
			break
		}
		after = all[len(all)-1].ID
		for _, e := range all {
			switch e.Type {
			case "alert.raised", "alert.cleared":
				alerts[e.Host]++
			case "item.rejected", "ACTION_CONFLICT", "host.quarantined":
				report("%s %s %s", e.Type, e.Object, e.Data)
			case "action.state":
				var d struct{ From, State protocol.State }
				if err := json.Unmarshal(e.Data, &d); err != nil {
					report("%v", err)
				}
				before := states[e.Object]
				if w.center.recovered && before == "" {
					before = d.From // what was before is not told
				}
				corrected := w.center.recovered && before == protocol.StateLost // by late evidence
				if d.From != before || before.Final() && d.State != before && !corrected {
					report("action %s went from %s to %s although it was %s", e.Object, d.From, d.State, before)
				}
				states[e.Object] = d.State
			}
		}
	}
	for _, h := range w.hosts {
		st, err := h.queue.Positions(w.t.Context())
		if err != nil {
			report("%v", err)
		}
		if n := stream.Find(st.Sent, protocol.StreamAlert).N; n != alerts[h.id] && !w.center.recovered {
			report("%s has raised or cleared %d alerts, %d were told", h.id, n, alerts[h.id])
		}
	}
}
