package alerting

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/notify"
)

// Notices says where notifications of alerts go, and when. The zero value sends none.
type Notices struct {
	Targets []notify.Target
	// GroupBy is the name of a label: alerts of hosts with the same value of it share
	// a notification. Empty: all alerts share one.
	GroupBy string
	// Wait is how long alerts are collected from the first on, so that a storm is one
	// notification. Default 30 s.
	Wait time.Duration
	// Repeat is after how long alerts that are still raised are told again, all in one
	// notification per group. Default 4 h.
	Repeat time.Duration
}

// Numbers of notifications.
const (
	// maxListed is how many alerts one notification lists; the others are counted.
	maxListed = 100
	// maxPending is how many notifications wait for one target. The oldest are
	// dropped first: after so long an outage, the list of alerts tells more.
	maxPending = 100
	// sendPatience is how long one try may take.
	sendPatience = 30 * time.Second
	// firstRetry and lastRetry bound the pause between tries, which doubles; giveUp is
	// after how many tries a notification is dropped: a day.
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	giveUp     = 290
	// eventStep is how many events are read at a time.
	eventStep = 1000
	maxSaid   = 200 // bytes of a text
)

// ledger is what is durable of notifications: one value, and one for each body.
type ledger struct {
	Begun      bool      `json:"begun"`
	Cursor     uint64    `json:"cursor"`      // the newest event that is in a notification, or needs none
	RepeatedMS int64     `json:"repeated_ms"` // life clock, when what is still raised was told last
	Next       uint64    `json:"next"`        // number of the next body
	Pending    []pending `json:"pending"`     // oldest first
}

// pending is a notification that a target has to get.
type pending struct {
	Target string `json:"target"`
	Body   uint64 `json:"body"`
	Tries  int    `json:"tries"`
}

const (
	ledgerValue = "alert.notices"
	bodyValue   = "alert.notice/"
)

func bodyName(n uint64) string { return fmt.Sprintf("%s%d", bodyValue, n) }

func readLedger(tx core.Tx) (l ledger, err error) {
	_, err = core.GetJSON(tx, ledgerValue, &l)
	return l, err
}

// drop forgets a pending notification, and its body if no other target waits for it.
func (l *ledger) drop(tx core.Tx, p pending) error {
	l.Pending = slices.DeleteFunc(l.Pending, func(o pending) bool { return o.Target == p.Target && o.Body == p.Body })
	if slices.ContainsFunc(l.Pending, func(o pending) bool { return o.Body == p.Body }) {
		return nil
	}
	return tx.Values.Put(bodyName(p.Body), nil)
}

// notifier sends notifications of alerts to targets. A notification is durable before it
// is sent.
type notifier struct {
	base *core.Base
	Notices
	kicks map[string]chan struct{} // by target: there may be something for it
}

func newNotifier(base *core.Base, n Notices) *notifier {
	n.Wait, n.Repeat = cmp.Or(n.Wait, 30*time.Second), cmp.Or(n.Repeat, 4*time.Hour)
	k := make(map[string]chan struct{})
	for _, t := range n.Targets {
		k[t.Name()] = make(chan struct{}, 1)
	}
	return &notifier{base, n, k}
}

// run collects and delivers until ctx ends.
func (n *notifier) run(ctx context.Context) error {
	if len(n.Targets) == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.collect(ctx) })
	for _, t := range n.Targets {
		g.Go(func() error { return n.deliver(ctx, t) })
	}
	return g.Wait()
}

// collect makes notifications of events: from the first alert on it waits, and then all
// that came are told together.
func (n *notifier) collect(ctx context.Context) error {
	slow := time.NewTicker(time.Minute)
	defer slow.Stop()
	for {
		changed, done := n.base.Wake.On(core.EventsKey{})
		waits, err := n.waits(ctx)
		if err == nil && waits {
			done()
			if !pause(ctx, n.Wait) {
				return nil
			}
			err = n.cut(ctx)
			changed = nil
		}
		if err == nil {
			err = n.repeat(ctx)
		}
		if err != nil && ctx.Err() == nil {
			n.base.Log.ErrorContext(ctx, "cannot collect alerts for notifications; it is tried again", "err", err)
			changed = nil
			if !pause(ctx, time.Second) {
				done()
				return nil
			}
		}
		if changed == nil {
			done()
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			done()
			return nil
		case <-changed:
		case <-slow.C:
		}
		done()
	}
}

// pause waits. It reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isAlert reports whether an event tells of an alert.
func isAlert(e core.Event) bool { return e.Type == "alert.raised" || e.Type == "alert.cleared" }

// waits reports whether there is an alert that is in no notification yet. Events before
// it are done with. On the very first start, earlier events are
// skipped: they are no news.
func (n *notifier) waits(ctx context.Context) (waits bool, _ error) {
	var l ledger
	moved := false
	err := n.base.View(ctx, func(tx core.Tx) (err error) {
		if l, err = readLedger(tx); err != nil {
			return err
		}
		waits, moved = false, false
		if !l.Begun {
			moved, l.Begun = true, true
			l.Cursor, err = tx.Events.Last()
			l.RepeatedMS = n.base.LifeMS()
			return err
		}
		for {
			events, err := tx.Events.List(l.Cursor, eventStep)
			if err != nil {
				return err
			}
			for _, e := range events {
				if isAlert(e) {
					waits = true
					return nil
				}
				l.Cursor, moved = e.ID, true
			}
			if len(events) < eventStep {
				return nil
			}
		}
	})
	if err != nil || !moved {
		return waits, err
	}
	cursor, repeated := l.Cursor, l.RepeatedMS
	return waits, n.base.Store.Update(ctx, func(tx core.Tx) error { // no promise rests on it
		l, err := readLedger(tx)
		if err != nil {
			return err
		}
		if !l.Begun {
			l.Begun, l.RepeatedMS = true, repeated
		}
		l.Cursor = max(l.Cursor, cursor)
		return core.PutJSON(tx, ledgerValue, l)
	})
}

// cut makes notifications of all alerts that are in none.
func (n *notifier) cut(ctx context.Context) error {
	err := n.base.Update(ctx, failpoint.NoticesMade, func(tx core.Tx) error {
		l, err := readLedger(tx)
		if err != nil {
			return err
		}
		newest := make(map[[2]string]core.Event)
		for {
			events, err := tx.Events.List(l.Cursor, eventStep)
			if err != nil {
				return err
			}
			for _, e := range events {
				if l.Cursor = e.ID; isAlert(e) {
					newest[[2]string{string(e.Host), e.Object}] = e
				}
			}
			if len(events) < eventStep {
				break
			}
		}
		m, err := readMarks(tx)
		if err != nil {
			return err
		}
		groups := make(map[string]*notify.Notification)
		for _, e := range newest {
			h, err := tx.Hosts.Get(e.Host) // one that is gone has no labels
			if err != nil && !errors.Is(err, core.ErrNotFound) {
				return err
			}
			if m.muted(e.Host, h.Labels, e.Object, n.base.LifeMS()) != nil {
				continue
			}
			g := n.groupOf(groups, h.Labels)
			var said struct{ Severity, Text string }
			if err := json.Unmarshal(e.Data, &said); err != nil {
				return fmt.Errorf("event %d: %w", e.ID, err)
			}
			a := notify.Alert{Host: string(e.Host), ID: e.Object, Severity: said.Severity, Text: brief(said.Text), At: time.UnixMilli(e.AtMS).UTC()}
			if e.Type == "alert.raised" {
				g.Raised = append(g.Raised, a)
			} else {
				g.Cleared = append(g.Cleared, a)
			}
		}
		return n.put(tx, &l, groups)
	})
	n.kick(err)
	return err
}

// repeat tells what is still raised, once in a while.
func (n *notifier) repeat(ctx context.Context) error {
	var l ledger
	err := n.base.View(ctx, func(tx core.Tx) (err error) { l, err = readLedger(tx); return err })
	if err != nil || !l.Begun || n.base.LifeMS()-l.RepeatedMS < n.Repeat.Milliseconds() {
		return err
	}
	err = n.base.Update(ctx, failpoint.NoticesMade, func(tx core.Tx) error {
		l, err := readLedger(tx)
		if err != nil {
			return err
		}
		m, err := readMarks(tx)
		if err != nil {
			return err
		}
		l.RepeatedMS = n.base.LifeMS()
		groups := make(map[string]*notify.Notification)
		err = core.EachHost(tx, func(h core.Host) error {
			if h.State != core.HostApproved {
				return nil
			}
			for _, a := range h.Inventory.Alerts {
				if m.acked(h.ID, a) != nil || m.muted(h.ID, h.Labels, a.ID, l.RepeatedMS) != nil {
					continue // it is acknowledged or muted
				}
				g := n.groupOf(groups, h.Labels)
				g.Repeated = true
				g.Raised = append(g.Raised, notify.Alert{Host: string(h.ID), ID: a.ID, Severity: a.Severity, Text: brief(a.Text), At: time.UnixMilli(a.SinceMS).UTC()})
			}
			return nil
		})
		if err != nil {
			return err
		}
		return n.put(tx, &l, groups)
	})
	n.kick(err)
	return err
}

func brief(text string) string {
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}

// groupOf is the notification of the alerts of hosts with these labels.
func (n *notifier) groupOf(groups map[string]*notify.Notification, labels []string) *notify.Notification {
	value := ""
	for _, l := range labels {
		if v, ok := strings.CutPrefix(l, n.GroupBy+"="); ok && n.GroupBy != "" {
			value = v
		}
	}
	if groups[value] == nil {
		groups[value] = &notify.Notification{Fleet: string(n.base.FleetName), Group: value, Raised: []notify.Alert{}, Cleared: []notify.Alert{}}
	}
	return groups[value]
}

// put makes notifications durable, for every target.
func (n *notifier) put(tx core.Tx, l *ledger, groups map[string]*notify.Notification) error {
	l.Pending = slices.DeleteFunc(l.Pending, func(p pending) bool { return n.kicks[p.Target] == nil }) // of targets that are gone
	for _, g := range groups {
		worst := func(x, y notify.Alert) int {
			return cmp.Or(cmp.Compare(x.Severity, y.Severity), cmp.Compare(x.Host, y.Host), cmp.Compare(x.ID, y.ID))
		}
		slices.SortFunc(g.Raised, worst)
		slices.SortFunc(g.Cleared, worst)
		all := len(g.Raised) + len(g.Cleared)
		g.Raised = g.Raised[:min(len(g.Raised), maxListed)]
		g.Cleared = g.Cleared[:min(len(g.Cleared), maxListed-len(g.Raised))]
		g.Left = all - len(g.Raised) - len(g.Cleared)
		l.Next++
		g.ID = fmt.Sprintf("%s-%s-%d", n.base.FleetName, n.base.Store.ID(), l.Next)
		if err := core.PutJSON(tx, bodyName(l.Next), g); err != nil {
			return err
		}
		for _, t := range n.Targets {
			l.Pending = append(l.Pending, pending{Target: t.Name(), Body: l.Next})
			if err := n.bound(tx, l, t.Name()); err != nil {
				return err
			}
		}
	}
	return core.PutJSON(tx, ledgerValue, l)
}

// bound drops the oldest notification of a target for which too many wait.
func (n *notifier) bound(tx core.Tx, l *ledger, target string) error {
	var of []pending
	for _, p := range l.Pending {
		if p.Target == target {
			of = append(of, p)
		}
	}
	if len(of) <= maxPending {
		return nil
	}
	return n.ended(tx, l, of[0], "alert.notice_dropped", map[string]any{"why": "too many wait"})
}

// ended forgets a notification for a target, and says so in the audit log.
func (n *notifier) ended(tx core.Tx, l *ledger, p pending, verb string, detail map[string]any) error {
	detail["notification"], detail["tries"] = p.Body, p.Tries
	return cmp.Or(l.drop(tx, p), n.base.Audit(tx, core.Self(), verb, p.Target, detail))
}

func (n *notifier) kick(err error) {
	if err != nil {
		return
	}
	for _, c := range n.kicks {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// deliver sends a target what is for it, one notification after the other.
func (n *notifier) deliver(ctx context.Context, t notify.Target) error {
	for {
		p, body, err := n.first(ctx, t.Name())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			n.base.Log.ErrorContext(ctx, "cannot read what is to be notified; it is tried again", "err", err)
			pause(ctx, lastRetry)
			continue
		case p.Body == 0:
			select {
			case <-ctx.Done():
				return nil
			case <-n.kicks[t.Name()]:
			}
			continue
		}
		try, cancel := context.WithTimeout(ctx, sendPatience)
		failed := t.Send(try, body)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err := n.tried(ctx, p, failed); err != nil {
			n.base.Log.ErrorContext(ctx, "cannot note a notification; it is sent once more", "target", t.Name(), "err", err)
		}
		if failed == nil {
			continue
		}
		n.base.Log.WarnContext(ctx, "a notification was not delivered", "target", t.Name(), "try", p.Tries+1, "err", failed)
		d := min(firstRetry<<min(p.Tries, 20), lastRetry)
		pause(ctx, d/2+rand.N(d/2+1))
	}
}

// first returns the oldest notification for a target; body 0 if there is none.
func (n *notifier) first(ctx context.Context, target string) (p pending, body notify.Notification, _ error) {
	err := n.base.View(ctx, func(tx core.Tx) error {
		l, err := readLedger(tx)
		if err != nil {
			return err
		}
		p, body = pending{}, notify.Notification{}
		at := slices.IndexFunc(l.Pending, func(o pending) bool { return o.Target == target })
		if at < 0 {
			return nil
		}
		p = l.Pending[at]
		_, err = core.GetJSON(tx, bodyName(p.Body), &body)
		return err
	})
	return p, body, err
}

// tried notes a try.
func (n *notifier) tried(ctx context.Context, p pending, failed error) error {
	return n.base.Update(ctx, failpoint.NoticeTried, func(tx core.Tx) error {
		l, err := readLedger(tx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(l.Pending, func(o pending) bool { return o.Target == p.Target && o.Body == p.Body })
		if at < 0 {
			return nil // it was one too many meanwhile
		}
		l.Pending[at].Tries++
		switch now := l.Pending[at]; {
		case failed == nil:
			err = n.ended(tx, &l, now, "alert.notified", map[string]any{})
		case now.Tries >= giveUp:
			err = n.ended(tx, &l, now, "alert.notice_dropped", map[string]any{"why": brief(failed.Error())})
		}
		return cmp.Or(err, core.PutJSON(tx, ledgerValue, l))
	})
}
