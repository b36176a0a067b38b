package protocol

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/protocol/ident"
)

// The rules that a payload has beyond its form. Each is run by Decode or
// DecodeItem, so that nobody works with a message that breaks them. Of what a
// newer host may tell (see typeRule.lax) words are only held against their
// form: a coordinator that drops a whole heartbeat because of one container in
// a state it has never heard of would see less, not more.

// Limits of texts in payloads, in bytes. How many elements a list may have is
// bounded by the size of its message, but where a rule names a number.
const (
	maxWord   = 64      // a word of a closed set, of which a newer side may know more
	maxName   = 255     // a file name on Linux: the longest name that a container or user has
	maxText   = 4 << 10 // a sentence for people
	maxProofs = 16      // approvals of one order
)

// MaxGrant is the longest time that one grant may give.
const MaxGrant = time.Hour

// valid reports whether there is such an output stream.
func (f FD) valid() bool { return f == Stdout || f == Stderr || f == Recording }

// goes reports whether there is such a stream in that direction.
func (f FD) goes(down bool) bool { return f.valid() && !down || f == Stdin && down }

// checkCredit holds credits to the streams of one direction.
func checkCredit(list []Credit, down bool) error {
	for _, c := range list {
		switch {
		case c.Action.IsZero() || c.Attempt < 1 || !c.FD.goes(down) && (down || c.FD != Samples) || c.Offset < 0:
			return fmt.Errorf("a credit names no place in a stream that goes that way")
		case c.Window < 0 || down && c.Window > MaxInputWindow || !down && c.Window > ChunkWindow:
			return fmt.Errorf("a credit has a window of %d bytes", c.Window)
		}
	}
	return nil
}

// checkLength bounds a text that must be there.
func checkLength(what, s string, limit int) error {
	if s == "" || len(s) > limit {
		return fmt.Errorf("%s has %d bytes, want 1 to %d", what, len(s), limit)
	}
	return nil
}

// checkPositions holds a list of positions to the streams of one direction.
func checkPositions(what string, list []Position, streams ...Stream) error {
	for i, p := range list {
		same := func(q Position) bool { return q.Stream == p.Stream }
		switch {
		case p.Store.IsZero():
			return fmt.Errorf("%s: the position names no store", what)
		case !slices.Contains(streams, p.Stream):
			return fmt.Errorf("%s: stream %.40q has the other direction", what, p.Stream)
		case slices.ContainsFunc(list[:i], same):
			return fmt.Errorf("%s: stream %s is listed twice", what, p.Stream)
		case (p.N == 0) != p.H.IsZero():
			return fmt.Errorf("%s: item %d cannot have the digest %s", what, p.N, p.H)
		}
	}
	return nil
}

func checkUp(what string, list []Position) error {
	return checkPositions(what, list, StreamReport, StreamAlert)
}

func checkDown(what string, list []Position) error {
	return checkPositions(what, list, StreamOrder, StreamControl)
}

// checkHead holds the head of an audit log against its form, if there is one.
func checkHead(p Position) error {
	if p == (Position{}) {
		return nil
	}
	return checkPositions("audit", []Position{p}, StreamAudit)
}

// checkEnvelope bounds a checkpoint within a message. It is opened by who needs
// it; one that cannot be is worth nothing, and does no harm.
func checkEnvelope(checkpoint []byte) error {
	if len(checkpoint) > MaxCheckpoint {
		return fmt.Errorf("checkpoint: %d bytes, at most %d are allowed", len(checkpoint), MaxCheckpoint)
	}
	return nil
}

func (p *Presence) check() error {
	if (p.Kind == PresenceHello) != (p.Hello != nil) {
		return fmt.Errorf("hello belongs to a presence of kind hello, and to no other")
	}
	k, answered := p.Seq.K, !p.Chal.IsZero()
	ok := false
	switch p.Kind {
	case PresenceHello:
		ok = k < KWill && !answered
	case PresenceOnline:
		ok = k < KWill && answered
	case PresenceWill:
		ok = k == KWill && !answered
	case PresenceGoodbye:
		ok = k == KGoodbye && answered
	default:
		return fmt.Errorf("unknown presence kind %.40q", p.Kind)
	}
	if !ok {
		return fmt.Errorf("number %d and challenge are not those of a %s", k, p.Kind)
	}
	if p.Hello == nil {
		return nil
	}
	return p.Hello.check()
}

func (h *Hello) check() error {
	switch {
	case h.Proto < 1:
		return fmt.Errorf("proto %d does not exist", h.Proto)
	case h.Inst.IsZero() || h.Store.IsZero():
		return fmt.Errorf("inst or store is missing")
	case h.SelfFence != "none" && h.SelfFence != "guard" && h.SelfFence != "watchdog":
		return fmt.Errorf("self_fence %.40q: want none, guard or watchdog", h.SelfFence)
	}
	for i, f := range h.Features {
		if !ident.IsWord(f, maxWord) || i > 0 && h.Features[i-1] >= f {
			return fmt.Errorf("features are not sorted words")
		}
	}
	return errors.Join(checkLength("boot", h.Boot, maxName), checkUp("sent", h.Sent), checkUp("freed", h.Freed), checkDown("have", h.Have), checkEnvelope(h.Checkpoint))
}

func (h *Heartbeat) check() error {
	switch {
	case h.AsOf == 0:
		return fmt.Errorf("as_of is missing")
	case h.Base >= h.AsOf, h.Base == 0 && (h.Figures != nil || len(h.Removed)+len(h.Cleared) > 0), h.Base != 0 && h.Part == 1 && h.Digest.IsZero():
		return fmt.Errorf("heartbeat %d is no change of heartbeat %d", h.AsOf, h.Base)
	case h.Part < 1 || h.Part > h.Parts:
		return fmt.Errorf("part %d of %d does not exist", h.Part, h.Parts)
	case (h.Part == 1) != ((h.Host != nil) != (h.Figures != nil)), h.Part != 1 && (h.Audit != Position{} || !h.Digest.IsZero()):
		return fmt.Errorf("host or figures, digest and audit belong to part 1, and to no other")
	case h.Figures != nil && h.Figures.Negative():
		return fmt.Errorf("a figure of the host is negative")
	}
	if h.Host != nil {
		if err := h.Host.check(); err != nil {
			return err
		}
	}
	for i := range h.Containers {
		if err := h.Containers[i].check(); err != nil {
			return fmt.Errorf("container %.70q: %w", h.Containers[i].Name, err)
		}
	}
	for i := range h.Alerts {
		if err := h.Alerts[i].checkInfo(); err != nil {
			return err
		}
	}
	return checkHead(h.Audit)
}

func (h *HostInfo) check() error {
	if h.Negative() || min(int64(h.CPUs), h.MemoryBytes, h.DiskBytes) < 0 {
		return fmt.Errorf("a size, count or duration of the host is negative")
	}
	if p := h.Policy; p != nil && (!ident.IsWord(p.Source, maxWord) || len(p.Broken) > maxText) {
		return fmt.Errorf("the source of the policy is not a word, or its fault is too long")
	}
	if len(h.Degraded) > maxText {
		return fmt.Errorf("why the host is degraded is too long")
	}
	return errors.Join(checkLength("hostname", h.Hostname, maxName), checkLength("boot", h.Boot, maxName))
}

func (c *Container) check() error {
	for _, w := range []string{c.Runtime, c.State} {
		if !ident.IsWord(w, maxWord) {
			return fmt.Errorf("runtime or state is not a word")
		}
	}
	if c.Failures < 0 {
		return fmt.Errorf("%d failed starts", c.Failures)
	}
	return checkLength("name", c.Name, maxName)
}

func (a *AlertInfo) checkInfo() error {
	if !ident.IsWord(a.Severity, maxWord) {
		return fmt.Errorf("alert %.100q: the severity is not a word", a.ID)
	}
	return errors.Join(checkLength("alert id", a.ID, maxName), checkLength("alert text", a.Text, maxText))
}

func (a *Alert) check() error { return a.checkInfo() }

// checkHeld checks the containers of a lease or grant, whose epochs are of the term most at most.
func checkHeld(list []LeaseHeld, most Term) error {
	if len(list) > MaxHeld {
		return fmt.Errorf("%d unique containers, at most %d can be held", len(list), MaxHeld)
	}
	seen := make(map[CTID]bool, len(list))
	for _, l := range list {
		switch {
		case l.CTID.IsZero() || seen[l.CTID]:
			return fmt.Errorf("a container is missing or listed twice")
		case l.Epoch.Term.Ring == 0 || l.Epoch.Term.Counter == 0 || l.Epoch.Counter == 0 || l.Epoch.Term.Compare(most) > 0:
			return fmt.Errorf("container %s has epoch %s, want one of term %s at most", l.CTID, l.Epoch, most)
		}
		seen[l.CTID] = true
	}
	return nil
}

func (l *Lease) check() error {
	if l.Number == 0 || l.Inst.IsZero() {
		return fmt.Errorf("number or inst is missing")
	}
	return errors.Join(checkLength("boot", l.Boot, maxName), checkHeld(l.Held, Term{MaxInteger, MaxInteger}))
}

func (g *Grant) check() error {
	if g.TTLms < 1 || g.TTLms > MaxGrant.Milliseconds() {
		return fmt.Errorf("ttl_ms: %d is not between 1 and %d", g.TTLms, MaxGrant.Milliseconds())
	}
	return checkHeld(g.Held, g.Term)
}

func (a *Ack) check() error {
	return errors.Join(checkDown("have", a.Have), checkCredit(a.Credit, true))
}

func (r *Receipt) check() error {
	if r.SpreadMS < 0 || r.SpreadMS > MaxSpreadMS {
		return fmt.Errorf("a reconnect window of %d ms: want up to %d", r.SpreadMS, MaxSpreadMS)
	}
	if !r.Answers.valid() || r.Give.IsZero() {
		return fmt.Errorf("answers or give is missing")
	}
	for _, w := range r.Want {
		if w != WantFull && w != WantLease {
			return fmt.Errorf("unknown want %.40q", w)
		}
	}
	return errors.Join(checkCredit(r.Credit, false), checkUp("have", r.Have), checkDown("sent", r.Sent), checkEnvelope(r.Checkpoint), checkHead(r.Audit))
}

// check leaves the spec to DecodeSpec: what is wrong there has an action, so it
// becomes a refusal that is reported, not an item that nobody hears of.
func (o *OrderItem) check() error {
	switch {
	case o.Action.IsZero():
		return fmt.Errorf("the action is missing")
	case len(o.Approvals) > maxProofs:
		return fmt.Errorf("%d approvals, at most %d are allowed", len(o.Approvals), maxProofs)
	}
	for i := range o.Approvals {
		if err := o.Approvals[i].check(); err != nil {
			return err
		}
	}
	return checkLength("requester", o.Requester, maxName)
}

func (c *ControlItem) check() error {
	if (c.Order != nil) != (c.Verb == VerbPreempt) {
		return fmt.Errorf("an order belongs to a preempt, and to nothing else")
	}
	if (c.Rules != nil) != (c.Verb == VerbRules) {
		return fmt.Errorf("rules belong to the verb rules, and to nothing else")
	}
	switch c.Verb {
	case VerbPreempt:
		if !c.Action.IsZero() || c.IDs != nil || c.Since != nil {
			return fmt.Errorf("a preempt carries an order and nothing else")
		}
		return c.Order.check()
	case VerbCancel:
		if c.Action.IsZero() || c.IDs != nil || c.Since != nil {
			return fmt.Errorf("a cancel names one action and nothing else")
		}
	case VerbTell:
		if !c.Action.IsZero() || len(c.IDs) == 0 && c.Since == nil || len(c.IDs) > MaxTell {
			return fmt.Errorf("a tell names 1 to %d ids, a since, or both, and nothing else", MaxTell)
		}
		if slices.ContainsFunc(c.IDs, ActionID.IsZero) {
			return fmt.Errorf("an id is missing")
		}
	case VerbPolicy:
		if !c.Action.IsZero() || c.IDs != nil || c.Since != nil {
			return fmt.Errorf("a question for the policy is about no action")
		}
	case VerbRules:
		if !c.Action.IsZero() || c.IDs != nil || c.Since != nil {
			return fmt.Errorf("rules are about no action")
		}
		return c.Rules.check()
	default:
		return fmt.Errorf("unknown verb %.40q", c.Verb)
	}
	return nil
}

func (r *Report) check() error {
	if r.Policy != nil {
		return r.checkPolicy()
	}
	switch {
	case r.Action.IsZero():
		return fmt.Errorf("the action is missing")
	case r.Attempt < 0:
		return fmt.Errorf("attempt %d", r.Attempt)
	case len(r.Detail) > maxText || len(r.Requester) > maxName || len(r.Spec) > MaxSpec || len(r.Reason) > maxWord:
		return fmt.Errorf("a text is too long")
	}
	if err := r.checkState(); err != nil {
		return err
	}
	if err := r.checkExit(); err != nil {
		return err
	}
	if err := r.checkWaits(); err != nil {
		return err
	}
	for i, o := range r.Output {
		switch {
		case !o.FD.valid() || slices.ContainsFunc(r.Output[:i], func(p Output) bool { return p.FD == o.FD }):
			return fmt.Errorf("output %.40q does not exist or is listed twice", o.FD)
		case o.Bytes < 0 || o.Dropped < 0 || o.Dropped > o.Bytes || o.DropAt < 0 || o.DropAt > o.Bytes-o.Dropped:
			return fmt.Errorf("output %s: %d of %d bytes cannot be left out at %d", o.FD, o.Dropped, o.Bytes, o.DropAt)
		case o.FD != Recording && (!o.SHA256.IsZero() || o.Ended != ""), len(o.Ended) > maxText:
			return fmt.Errorf("output %s: it has the members of a recording", o.FD)
		case o.Archive == nil:
		case o.FD != Stdout:
			return fmt.Errorf("output %s is no archive", o.FD)
		default:
			if err := o.Archive.check(); err != nil {
				return err
			}
		}
	}
	if r.Container != nil {
		return r.Container.check()
	}
	return nil
}

// checkPolicy lets a policy be told alone.
func (r *Report) checkPolicy() error {
	switch {
	case len(r.Policy) > MaxToldPolicy:
		return fmt.Errorf("a policy of %d bytes, at most %d are told", len(r.Policy), MaxToldPolicy)
	case !r.Action.IsZero() || r.Event != EventTell || r.State != StateNone || r.Spec != nil:
		return fmt.Errorf("a policy is told of, and an action with it")
	}
	return nil
}

// checkState holds event, state and reason against the table.
func (r *Report) checkState() error {
	if r.Event == EventTell && r.State == StateNone {
		if r.Reason != "" {
			return fmt.Errorf("an unknown action has the reason %.40q", r.Reason)
		}
		return nil
	}
	for _, t := range table {
		if t.fits(OwnerAgent, r) && (r.Event == t.event || r.Event == EventTell) {
			return nil
		}
	}
	return fmt.Errorf("%.40q cannot lead to %.40q with reason %.40q", r.Event, r.State, r.Reason)
}

// checkWaits lets an action wait that may wait.
func (r *Report) checkWaits() error {
	switch {
	case r.Waits == nil:
		return nil
	case r.Event != EventTell || r.State != StateNone && r.State != StateNew:
		return fmt.Errorf("an action in state %.40q waits for nothing", r.State)
	case r.Waits.For == "" || len(r.Waits.For) > maxWord:
		return fmt.Errorf("it waits for %.40q", r.Waits.For)
	}
	return nil
}

// checkExit holds the end of a command against the event that tells of it.
func (r *Report) checkExit() error {
	x := r.Exit
	switch {
	case x == nil && (r.Event == EventExit || r.Event == EventSignal):
		return fmt.Errorf("%s tells no exit", r.Event)
	case x == nil:
		return nil
	case x.Code < 0 || x.Code > 255 || x.Signal < 0 || x.Signal > 127 || x.RunMS < 0:
		return fmt.Errorf("exit code %d, signal %d, %d ms", x.Code, x.Signal, x.RunMS)
	case r.Event == EventSucceed && x.Code != 0, r.Event == EventExit && x.Code == 0, r.Event == EventSignal && x.Signal == 0:
		return fmt.Errorf("exit code %d and signal %d are not those of %s", x.Code, x.Signal, r.Event)
	}
	return nil
}
