package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
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

// Waiting says why an action stands where it stands as far as that is known here,
// without asking anybody; nil if it has ended. It is cheap.
func (c *Coordinator) Waiting(a core.Action) *Waiting {
	if a.State.Final() {
		return nil
	}
	now := c.base.NowMS()
	conn, seen := c.presence(a.Host)
	away := func(what string) *Waiting {
		w := &Waiting{For: WaitsHost, SinceMS: seen, Text: what + fmt.Sprintf("its host was last seen %s ago", roughly(now-seen))}
		if seen == 0 {
			w.Text = what + "its host has not been seen since the coordinator started"
		}
		return w
	}
	switch {
	case a.Former && conn != Online:
		return away("it may have been sent before the coordinator was recovered; ")
	case a.Former:
		return &Waiting{For: WaitsRecovery, Text: "it may have been sent before the coordinator was recovered; its host is asked"}
	case a.State == protocol.StatePendingApprove:
		return &Waiting{For: WaitsApproval, Text: c.whoMayApprove(&a)}
	case c.base.Recovery() != "":
		return &Waiting{For: WaitsRecovery, Text: "the coordinator is in recovery and sends nothing"}
	case c.isQuarantined(a.Host):
		return &Waiting{For: WaitsQuarantine, Text: "its host is quarantined"}
	case a.State == protocol.StatePendingSchedule && a.N == 0 && conn != Online:
		return away("")
	case a.State == protocol.StatePendingSchedule && a.N == 0:
		return &Waiting{For: WaitsTurn, Text: fmt.Sprintf("%d orders for its host have no receipt yet", stream.Window)}
	case a.State == protocol.StatePendingSchedule && conn != Online:
		return away("its order was sent and may have arrived; ")
	case a.State == protocol.StatePendingSchedule:
		return &Waiting{For: WaitsReceipt, Text: "its order was sent " + roughly(now-a.SentMS) + " ago, and the host has not told of it"}
	case a.State == protocol.StateNew && conn != Online:
		return away("its host has accepted it; ")
	case a.State == protocol.StateNew:
		return &Waiting{For: WaitsUnknown, Text: "its host has accepted it, and has not told why it waits"}
	case conn != Online:
		return away("it ran when that was last heard; ")
	case a.Cancelling:
		return &Waiting{For: WaitsEnd, Text: "it is being cancelled: it ends when nothing of it is left"}
	}
	return &Waiting{For: WaitsEnd, Text: "it runs"}
}

// maxApprovers is how many of those who may approve are named.
const maxApprovers = 20

// whoMayApprove names the persons whose approval an action waits for: those who
// count, are in the ring and have not approved.
func (c *Coordinator) whoMayApprove(a *core.Action) string {
	given := persons(c.Counting(*a))
	var all []string
	for _, n := range c.lacking(a) {
		may := c.approvers(n, given)
		by := fmt.Sprintf("%d of", n.Persons)
		switch {
		case n.Persons >= len(may):
			by = "all of"
		case n.Persons == 1:
			by = "one of"
		}
		text := fmt.Sprintf("it waits for approval by %s: %s", by, strings.Join(may[:min(len(may), maxApprovers)], ", "))
		if more := len(may) - maxApprovers; more > 0 {
			text += fmt.Sprintf(" and %d others", more)
		}
		switch lack := n.Persons - len(may); {
		case len(may) == 0:
			text = "it waits for an approval that nobody of the ring can give; an owner lets a person in: hostler fleet ring add-approver"
		case lack > 0:
			text += fmt.Sprintf(", and %d that nobody else of the ring can give", lack)
		}
		all = append(all, text+" ("+n.Why+")")
	}
	if len(all) == 0 {
		return "it has the approvals that it needs, and is about to go on"
	}
	if len(given) > 0 {
		all = append(all, "approved by "+strings.Join(given, ", "))
	}
	return strings.Join(all, "; ")
}

// approvers are the persons of the ring who can meet a need and are not among
// those given, sorted.
func (c *Coordinator) approvers(n core.Need, given []string) []string {
	var may []string
	for _, m := range c.Members() {
		if !m.Revoked && slices.Contains(m.Roles, protocol.RolePerson) && n.Counts(m.Person) && !slices.Contains(given, m.Person) {
			may = append(may, m.Person)
		}
	}
	slices.Sort(may)
	return slices.Compact(may)
}

// presence returns whether a host is there, and when it was last heard.
func (c *Coordinator) presence(host protocol.HostID) (Connectivity, int64) {
	c.mu.Lock()
	l := c.links[host]
	c.mu.Unlock()
	if l == nil {
		return Unknown, 0
	}
	return l.presence.connectivity(c.cfg.Boot())
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

// askPatience is how long a host may take to say why an action waits. Whoever
// asked is told what is known then; and so long is an answer worth.
const askPatience = time.Second

// Why is Waiting, but it asks the host when only that can know, and looks into
// the store for when a host was seen.
func (c *Coordinator) Why(ctx context.Context, a core.Action) (*Waiting, error) {
	w := c.Waiting(a)
	switch {
	case w == nil:
		return nil, nil
	case w.For == WaitsHost && w.SinceMS == 0:
		h, err := c.Host(ctx, a.Host)
		if err != nil {
			return nil, err
		}
		if at := h.Inventory.AtMS; at != 0 {
			w.SinceMS = at
			w.Text = fmt.Sprintf("its host was last seen %s ago, before the coordinator started", roughly(c.base.NowMS()-at))
		}
	case w.For == WaitsUnknown || w.For == WaitsReceipt:
		if told := c.askWhy(ctx, a); told != nil {
			return told, nil
		}
	}
	return w, nil
}

// askWhy asks the host of an action why it waits, and waits for the answer a
// moment; nil if none came.
func (c *Coordinator) askWhy(ctx context.Context, a core.Action) *Waiting {
	changed, done := c.base.Wake.On(toldKey{a.ID})
	defer done()
	if t := c.heardOf(a); t != nil {
		return c.worded(t)
	}
	l := c.link(a.Host)
	pause, ok := l.agenda.whyIn(c.cfg.Boot(), askPatience)
	if !ok {
		return nil // many others ask already
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed: // whoever asked about the same
		if t := c.heardOf(a); t != nil {
			return c.worded(t)
		}
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}
	changed, again := c.base.Wake.On(toldKey{a.ID})
	defer again()
	var given []core.Item
	err := c.base.Update(ctx, failpoint.QuestionAsked, func(tx core.Tx) error {
		given = nil
		controls, err := tx.Streams.Get(a.Host, protocol.StreamControl)
		// Nobody who only looks fills the window of what the host must hear.
		if err != nil || controls.Pos.N-max(controls.Freed.N, l.out.acked(protocol.StreamControl)) >= stream.Window/2 {
			return err
		}
		it, err := c.control(tx, a.Host, protocol.ControlItem{Verb: protocol.VerbTell, IDs: []protocol.ActionID{a.ID}})
		given = append(given, it)
		return err
	})
	if err != nil {
		return nil // it is only not known
	}
	l.out.add(protocol.StreamControl, given...)
	l.pump()
	timer.Reset(askPatience)
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	if t := c.heardOf(a); t != nil {
		return c.worded(t)
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
func (c *Coordinator) heardWhy(host protocol.HostID, all []protocol.Report) {
	if len(all) == 0 {
		return
	}
	c.mu.Lock()
	for _, r := range all {
		if c.whys == nil || len(c.whys) >= maxTold {
			c.whys = make(map[protocol.ActionID]toldWhy)
		}
		c.whys[r.Action] = toldWhy{host, r, c.cfg.Boot()}
	}
	c.mu.Unlock()
	for _, r := range all {
		c.base.Wake.Fire(toldKey{r.Action})
	}
}

// heardOf returns an answer that is young enough, and of the host that was asked.
func (c *Coordinator) heardOf(a core.Action) *protocol.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.whys[a.ID]
	if !ok || t.host != a.Host || time.Duration(c.cfg.Boot()-t.bootMS)*time.Millisecond > askPatience {
		return nil
	}
	return &t.report
}

// worded words an answer of a host.
func (c *Coordinator) worded(r *protocol.Report) *Waiting {
	if r.Waits == nil {
		if r.State != protocol.StateNew {
			return nil // it has begun meanwhile, or never arrived
		}
		return &Waiting{For: WaitsTurn, Text: "it is about to begin", ToldMS: r.AtMS}
	}
	w := &Waiting{For: r.Waits.For, Action: r.Waits.Action, ToldMS: r.AtMS}
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
		w.Text = fmt.Sprintf("%d actions on containers run already, which is as many as may", r.Waits.Count)
	case protocol.WaitsRuns:
		w.Text = fmt.Sprintf("%d commands of the host run already, which is as many as may", r.Waits.Count)
	case protocol.WaitsSessions:
		w.Text = fmt.Sprintf("%d sessions are open on its host already, which is as many as may (sessions.parallel)", r.Waits.Count)
	case protocol.WaitsDisk:
		w.Text = "the disk of its host is full or failing: nothing begins there"
	case protocol.WaitsStop:
		w.Text = "the agent of its host is about to end, and goes on when it is started again"
	case protocol.WaitsInput:
		w.Text = "what it reads is on its way to its host"
	case protocol.WaitsRing:
		w.Text = fmt.Sprintf("the order waits until its host has ring %d", r.Waits.Count)
	default:
		w.Text = fmt.Sprintf("its host says %q, for which this coordinator has no words", w.For)
	}
	return w
}
