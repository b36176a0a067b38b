package explain

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// Waiting is why an action has not begun, or has not ended.
type Waiting struct {
	// For is one word: those of protocol.WaitsFor, and those below.
	For  protocol.WaitsFor
	Text string // a sentence for people
	// Action is the one in front of it, if there is one.
	Action protocol.ActionID
	// SinceMS is when the host was last seen, of [WaitsHost].
	SinceMS int64
	// ToldMS is when the host told so, by its own wall clock; 0 if it is known here.
	ToldMS int64
}

// What an action may wait for that the host knows nothing of.
const (
	WaitsApproval   protocol.WaitsFor = "approval"   // of a person
	WaitsHost       protocol.WaitsFor = "host"       // which is away
	WaitsQuarantine protocol.WaitsFor = "quarantine" // until a person readmits the host
	WaitsRecovery   protocol.WaitsFor = "recovery"   // of this coordinator
	WaitsTurn       protocol.WaitsFor = "turn"       // other orders for the host are under way
	WaitsReceipt    protocol.WaitsFor = "receipt"    // its order is under way
	WaitsUnknown    protocol.WaitsFor = "unknown"    // its host has not told
	WaitsEnd        protocol.WaitsFor = "end"        // it runs
)

// Words lists what an action may wait for, here and on its host.
func Words() []protocol.WaitsFor {
	here := []protocol.WaitsFor{WaitsApproval, WaitsHost, WaitsQuarantine, WaitsRecovery, WaitsTurn, WaitsReceipt, WaitsUnknown, WaitsEnd}
	return append(here, protocol.WaitsOfHosts()...)
}

// Away reports whether a host cannot be reached now.
func (r *Room) Away(host protocol.HostID) bool {
	here, _ := r.hosts.Here(host)
	return !here
}

// Waiting says why an action stands where it stands as far as that is known here,
// without asking its host; nil if it has ended. It is cheap.
func (r *Room) Waiting(a core.Action) *Waiting {
	if a.State.Final() {
		return nil
	}
	f := facts{nowMS: r.base.NowMS(), recovering: r.base.Recovery() != "", quarantined: r.hosts.Quarantined(a.Host)}
	f.here, f.seenMS = r.hosts.Here(a.Host)
	if a.State == protocol.StatePendingApprove && !a.Former {
		f.approval = r.approvals.WhoMayApprove(a)
	}
	return waits(a, f)
}

// facts is what is known here of an action that has not ended, beside the action.
type facts struct {
	nowMS       int64
	here        bool   // its host is
	seenMS      int64  // when that was last heard; 0 if not since the start
	recovering  bool   // this coordinator decides nothing
	quarantined bool   // its host is
	approval    string // for whose approval it waits, if it does
}

// waits says why an action that has not ended stands where it stands.
func waits(a core.Action, f facts) *Waiting {
	here := f.here
	away := func(what string) *Waiting {
		if f.seenMS == 0 {
			return &Waiting{For: WaitsHost, Text: what + "its host has not been seen since the coordinator started"}
		}
		return &Waiting{For: WaitsHost, SinceMS: f.seenMS, Text: what + fmt.Sprintf("its host was last seen %s ago", roughly(f.nowMS-f.seenMS))}
	}
	switch {
	case a.Former && !here:
		return away("it may have been sent before the coordinator was recovered; ")
	case a.Former:
		return &Waiting{For: WaitsRecovery, Text: "it may have been sent before the coordinator was recovered; its host is asked"}
	case a.State == protocol.StatePendingApprove:
		return &Waiting{For: WaitsApproval, Text: f.approval}
	case f.recovering:
		return &Waiting{For: WaitsRecovery, Text: "the coordinator is in recovery and sends nothing"}
	case f.quarantined:
		return &Waiting{For: WaitsQuarantine, Text: "its host is quarantined"}
	case a.State == protocol.StatePendingSchedule && a.N == 0 && !here:
		return away("")
	case a.State == protocol.StatePendingSchedule && a.N == 0 && a.AtOnce > 0:
		return &Waiting{For: WaitsTurn, Text: fmt.Sprintf("its batch has at most %d under way at once, and others are", a.AtOnce)}
	case a.State == protocol.StatePendingSchedule && a.N == 0:
		return &Waiting{For: WaitsTurn, Text: fmt.Sprintf("%d orders for its host have no receipt yet", stream.Window)}
	case a.State == protocol.StatePendingSchedule && !here:
		return away("its order was sent and may have arrived; ")
	case a.State == protocol.StatePendingSchedule:
		return &Waiting{For: WaitsReceipt, Text: "its order was sent " + roughly(f.nowMS-a.SentMS) + " ago, and the host has not told of it"}
	case a.State == protocol.StateNew && !here:
		return away("its host has accepted it; ")
	case a.State == protocol.StateNew:
		return &Waiting{For: WaitsUnknown, Text: "its host has accepted it, and has not told why it waits"}
	case !here:
		return away("it ran when that was last heard; ")
	case a.Cancelling:
		return &Waiting{For: WaitsEnd, Text: "it is being cancelled: it ends when nothing of it is left"}
	}
	return &Waiting{For: WaitsEnd, Text: "it runs"}
}

// roughly is a time in milliseconds in its largest unit.
func roughly(ms int64) string {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// askPatience is how long a host may take to say why an action waits. A client that
// asked is told what is known then; and so long is an answer worth.
const askPatience = time.Second

// Why is Waiting, but it asks the host when only that can know, and looks into
// the store for when a host was seen.
func (r *Room) Why(ctx context.Context, a core.Action) (*Waiting, error) {
	w := r.Waiting(a)
	switch {
	case w == nil:
		return nil, nil
	case w.For == WaitsHost && w.SinceMS == 0:
		h, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(a.Host) })
		if err != nil {
			return nil, fmt.Errorf("host %q: %w", a.Host, err)
		}
		if at := h.Inventory.AtMS; at != 0 {
			w.SinceMS = at
			w.Text = fmt.Sprintf("its host was last seen %s ago, before the coordinator started", roughly(r.base.NowMS()-at))
		}
	case w.For == WaitsUnknown || w.For == WaitsReceipt:
		if told := r.askWhy(ctx, a); told != nil {
			return told, nil
		}
		var h core.Host
		err := r.base.View(ctx, func(tx core.Tx) (err error) {
			h, err = tx.Hosts.Get(a.Host)
			return err
		})
		if why := h.Inventory.Host.Degraded; err == nil && why != "" {
			return &Waiting{For: protocol.WaitsDisk, Text: "its host accepts nothing new: " + why, ToldMS: h.Inventory.AtMS}, nil
		}
	}
	return w, nil
}

// askWhy asks the host of an action why it waits, and waits for the answer a
// moment; nil if none came.
func (r *Room) askWhy(ctx context.Context, a core.Action) *Waiting {
	changed, done := r.base.Wake.On(toldKey{a.ID})
	defer done()
	if t := r.heardOf(a); t != nil {
		return r.worded(t)
	}
	pause, ok := r.hosts.AskIn(a.Host, askPatience)
	if !ok {
		return nil // many others ask already
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed: // another request asked about the same
		if t := r.heardOf(a); t != nil {
			return r.worded(t)
		}
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}
	changed, again := r.base.Wake.On(toldKey{a.ID})
	defer again()
	if err := r.hosts.Ask(ctx, a.Host, a.ID); err != nil {
		return nil // it is only not known
	}
	timer.Reset(askPatience)
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	if t := r.heardOf(a); t != nil {
		return r.worded(t)
	}
	return nil
}

// toldKey is the hub's key for "a host has told why an action waits".
type toldKey struct{ id protocol.ActionID }

// toldWhy is what a host has told of an action, and when it came.
type toldWhy struct {
	host   protocol.HostID
	report protocol.Report
	bootMS int64
}

// maxTold bounds what is remembered of answers: each is good for a second.
const maxTold = 1024

// heardWhy keeps answers that came with reports.
func (r *Room) Heard(host protocol.HostID, all []protocol.Report) {
	if len(all) == 0 {
		return
	}
	r.mu.Lock()
	for _, told := range all {
		if r.whys == nil || len(r.whys) >= maxTold {
			r.whys = make(map[protocol.ActionID]toldWhy)
		}
		r.whys[told.Action] = toldWhy{host, told, r.base.Boot()}
	}
	r.mu.Unlock()
	for _, told := range all {
		r.base.Wake.Fire(toldKey{told.Action})
	}
}

// heardOf returns an answer that is young enough, and of the host that was asked.
func (r *Room) heardOf(a core.Action) *protocol.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.whys[a.ID]
	if !ok || t.host != a.Host || time.Duration(r.base.Boot()-t.bootMS)*time.Millisecond > askPatience {
		return nil
	}
	return &t.report
}

// worded words an answer of a host.
func (r *Room) worded(told *protocol.Report) *Waiting {
	if told.Waits == nil {
		if told.State != protocol.StateNew {
			return nil // it has begun meanwhile, or never arrived
		}
		return &Waiting{For: WaitsTurn, Text: "it is about to begin", ToldMS: told.AtMS}
	}
	w := &Waiting{For: told.Waits.For, Action: told.Waits.Action, ToldMS: told.AtMS}
	front := "another action"
	if !w.Action.IsZero() {
		front = "action " + w.Action.String()
	}
	switch w.For {
	case protocol.WaitsLane:
		w.Text = front + " on the same container comes first"
	case protocol.WaitsExclusive:
		w.Text = front + " takes the host alone, and comes first"
	case protocol.WaitsShared:
		w.Text = "it takes the host alone, and " + front + " comes first"
	case protocol.WaitsPlaces:
		w.Text = fmt.Sprintf("%d actions on containers run already, which is as many as may", told.Waits.Count)
	case protocol.WaitsRuns:
		w.Text = fmt.Sprintf("%d commands of the host run already, which is as many as may", told.Waits.Count)
	case protocol.WaitsSessions:
		w.Text = fmt.Sprintf("%d sessions are open on its host already, which is as many as may (sessions.parallel)", told.Waits.Count)
	case protocol.WaitsDisk:
		w.Text = "the disk of its host is full or failing: nothing begins there"
	case protocol.WaitsStop:
		w.Text = "the agent of its host is about to end, and goes on when it is started again"
	case protocol.WaitsInput:
		w.Text = "what it reads is on its way to its host"
	case protocol.WaitsRing:
		w.Text = fmt.Sprintf("the order waits until its host has ring %d", told.Waits.Count)
	default:
		w.Text = fmt.Sprintf("its host says %q, for which this coordinator has no words", w.For)
	}
	return w
}
