package alerting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Ack is the acknowledgement of an alert by a person: while the alert lasts, no more
// notifications are sent for it. An alert that is raised again later is another alert.
type Ack struct {
	Host    protocol.HostID `json:"host"`
	Alert   string          `json:"alert"`
	SinceMS int64           `json:"since_ms"` // of the alert, by its host
	By      string          `json:"by"`
	AtMS    int64           `json:"at_ms"`
	Note    string          `json:"note,omitempty"`
}

// Mute stops notifications for alerts until it ends. The alerts are still listed.
type Mute struct {
	ID       string          `json:"id"`
	Host     protocol.HostID `json:"host,omitempty"`     // the only host; empty is every host that Selector selects
	Selector string          `json:"selector,omitempty"` // labels; empty selects all
	Alert    string          `json:"alert,omitempty"`    // with what the ids of the alerts begin; empty is all
	UntilMS  int64           `json:"until_ms"`
	By       string          `json:"by"`
	AtMS     int64           `json:"at_ms"`
	Reason   string          `json:"reason,omitempty"`
}

// marks are what people have said of alerts. It is one value of the store.
type marks struct {
	Next  uint64 `json:"next"` // number of the next mute
	Acks  []Ack  `json:"acks"` // oldest first
	Mutes []Mute `json:"mutes"`
}

const marksValue = "alert.marks"

// Bounds of marks.
const (
	maxAcks  = 1000 // the oldest go
	maxMutes = 200
	maxNote  = 500
	maxMute  = 90 * 24 * time.Hour
)

func readMarks(tx core.Tx) (m marks, err error) {
	_, err = core.GetJSON(tx, marksValue, &m)
	return m, err
}

// acked returns the acknowledgement of an alert as it stands.
func (m *marks) acked(host protocol.HostID, a protocol.AlertInfo) *Ack {
	n := slices.IndexFunc(m.Acks, func(k Ack) bool { return k.Host == host && k.Alert == a.ID && k.SinceMS == a.SinceMS })
	if n < 0 {
		return nil
	}
	return &m.Acks[n]
}

// muted returns the mute of an alert that ends last.
func (m *marks) muted(host protocol.HostID, labels []string, alert string, lifeMS int64) (longest *Mute) {
	for n := range m.Mutes {
		k := &m.Mutes[n]
		if core.Over(k.AtMS, k.UntilMS, lifeMS) || !strings.HasPrefix(alert, k.Alert) || !(&RuleSet{Host: k.Host, Selector: k.Selector}).applies(core.Host{ID: host, Labels: labels}) {
			continue
		}
		if longest == nil || k.UntilMS > longest.UntilMS {
			longest = k
		}
	}
	return longest
}

// Raised is an alert that is raised, with what people have said of it.
type Raised struct {
	Host   protocol.HostID
	Labels []string
	protocol.AlertInfo
	Ack  *Ack
	Mute *Mute
}

// Raised returns the alerts of the approved hosts after one, by host, until there are at
// least limit of them: a host is never cut in two. next is the last host, empty at the end.
func (r *Room) Raised(ctx context.Context, after protocol.HostID, limit int) (all []Raised, next protocol.HostID, _ error) {
	const step = 500
	life := r.base.LifeMS()
	err := r.base.View(ctx, func(tx core.Tx) error {
		all, next = nil, ""
		m, err := readMarks(tx)
		if err != nil {
			return err
		}
		for {
			hosts, err := tx.Hosts.List(after, step)
			if err != nil {
				return err
			}
			for _, h := range hosts {
				if after = h.ID; h.State != core.HostApproved {
					continue
				}
				for _, a := range h.Inventory.Alerts {
					all = append(all, Raised{h.ID, h.Labels, a, m.acked(h.ID, a), m.muted(h.ID, h.Labels, a.ID, life)})
				}
				if len(all) >= limit {
					next = h.ID
					return nil
				}
			}
			if len(hosts) < step {
				return nil
			}
		}
	})
	return all, next, err
}

// Acknowledge acknowledges the one alert of a host whose id is, or begins with, the text
// id.
func (r *Room) Acknowledge(ctx context.Context, by core.Actor, host protocol.HostID, id, note string) (done Raised, _ error) {
	if err := r.base.Allow(by, core.RoleOperator, "acknowledge alerts"); err != nil {
		return done, err
	}
	if len(note) > maxNote {
		return done, fmt.Errorf("%w: the note is longer than %d bytes", core.ErrInvalid, maxNote)
	}
	err := r.base.Update(ctx, failpoint.AlertsMarked, func(tx core.Tx) error {
		h, err := tx.Hosts.Get(host)
		if errors.Is(err, core.ErrNotFound) {
			err = core.ErrUnknownHost
		}
		if err != nil {
			return fmt.Errorf("host %.63q: %w", host, err)
		}
		a, err := named(h.Inventory.Alerts, id)
		if err != nil {
			return fmt.Errorf("alert %.100q of host %s: %w", id, host, err)
		}
		m, err := readMarks(tx)
		if err != nil {
			return err
		}
		ack := Ack{Host: host, Alert: a.ID, SinceMS: a.SinceMS, By: by.LogName(), AtMS: r.base.NowMS(), Note: note}
		m.Acks = append(slices.DeleteFunc(m.Acks, func(k Ack) bool { return k.Host == host && k.Alert == a.ID }), ack)
		m.Acks = m.Acks[max(0, len(m.Acks)-maxAcks):]
		done = Raised{host, h.Labels, a, &ack, m.muted(host, h.Labels, a.ID, r.base.LifeMS())}
		what := map[string]any{"host": host, "note": note}
		return cmp.Or(core.PutJSON(tx, marksValue, m), r.base.Audit(tx, by, "alert.acknowledged", a.ID, what), r.base.Event(tx, "alert.acknowledged", host, a.ID, map[string]any{"by": by.LogName(), "note": note}))
	})
	if err == nil {
		r.base.Wake.Fire(core.EventsKey{})
	}
	return done, err
}

// named finds the alert whose id is, or alone begins with, a text.
func named(all []protocol.AlertInfo, id string) (found protocol.AlertInfo, _ error) {
	var begin []string
	for _, a := range all {
		if a.ID == id {
			return a, nil
		}
		if id != "" && strings.HasPrefix(a.ID, id) {
			found, begin = a, append(begin, a.ID)
		}
	}
	switch n := len(begin); {
	case n == 0:
		return found, fmt.Errorf("%w: it is not raised", core.ErrNotFound)
	case n > maxNamed:
		return found, fmt.Errorf("%w: %d alerts begin so, such as %s", core.ErrAmbiguous, n, strings.Join(begin[:maxNamed], ", "))
	case n > 1:
		return found, fmt.Errorf("%w: the alerts %s begin so", core.ErrAmbiguous, strings.Join(begin, ", "))
	}
	return found, nil
}

// maxNamed is how many alerts an error names.
const maxNamed = 5

// Mutes returns those that have not ended, oldest first.
func (r *Room) Mutes(ctx context.Context) ([]Mute, error) {
	m, err := core.Read(ctx, r.base, readMarks)
	life := r.base.LifeMS()
	return slices.DeleteFunc(m.Mutes, func(k Mute) bool { return core.Over(k.AtMS, k.UntilMS, life) }), err
}

// Mute keeps alerts from being told for a time.
func (r *Room) Mute(ctx context.Context, by core.Actor, k Mute, life time.Duration) (Mute, error) {
	if err := r.base.Allow(by, core.RoleOperator, "mute alerts"); err != nil {
		return k, err
	}
	var sel api.Selector
	switch {
	case life <= 0 || life > maxMute:
		return k, fmt.Errorf("%w: a mute of %s: want up to 90 days", core.ErrInvalid, life)
	case k.Host != "" && k.Selector != "":
		return k, fmt.Errorf("%w: a mute is for one host or for those that labels select, and not for both", core.ErrInvalid)
	case len(k.Alert) > maxMatcher || len(k.Selector) > maxMatcher || len(k.Reason) > maxNote:
		return k, fmt.Errorf("%w: a text of the mute is too long", core.ErrInvalid)
	case k.Selector != "":
		if err := sel.Set(k.Selector); err != nil {
			return k, fmt.Errorf("%w: %w", core.ErrInvalid, err)
		}
	}
	err := r.base.Update(ctx, failpoint.AlertsMarked, func(tx core.Tx) error {
		m, err := readMarks(tx)
		if err != nil {
			return err
		}
		now := r.base.LifeMS()
		m.Mutes = slices.DeleteFunc(m.Mutes, func(o Mute) bool { return core.Over(o.AtMS, o.UntilMS, now) })
		if len(m.Mutes) >= maxMutes {
			return fmt.Errorf("%w: there are %d mutes, and no more can be; end some: hostler alert unmute ID", core.ErrInvalid, maxMutes)
		}
		m.Next++
		k.ID, k.By, k.AtMS, k.UntilMS = fmt.Sprintf("mute-%d", m.Next), by.LogName(), now, now+life.Milliseconds()
		m.Mutes = append(m.Mutes, k)
		return r.marked(tx, by, m, "alert.muted", k)
	})
	if err == nil {
		r.base.Wake.Fire(core.EventsKey{})
	}
	return k, err
}

// Unmute ends a mute. What is raised by then is told with what is told again.
func (r *Room) Unmute(ctx context.Context, by core.Actor, id string) error {
	if err := r.base.Allow(by, core.RoleOperator, "end mutes"); err != nil {
		return err
	}
	err := r.base.Update(ctx, failpoint.AlertsMarked, func(tx core.Tx) error {
		m, err := readMarks(tx)
		if err != nil {
			return err
		}
		n := slices.IndexFunc(m.Mutes, func(k Mute) bool { return k.ID == id })
		if n < 0 {
			return fmt.Errorf("mute %.40q: %w", id, core.ErrNotFound)
		}
		k := m.Mutes[n]
		m.Mutes = slices.Delete(m.Mutes, n, n+1)
		return r.marked(tx, by, m, "alert.unmuted", k)
	})
	if err == nil {
		r.base.Wake.Fire(core.EventsKey{})
	}
	return err
}

// marked keeps a change of the mutes.
func (r *Room) marked(tx core.Tx, by core.Actor, m marks, verb string, k Mute) error {
	what := map[string]any{"host": k.Host, "selector": k.Selector, "alert": k.Alert, "until_ms": k.UntilMS, "reason": k.Reason}
	return cmp.Or(core.PutJSON(tx, marksValue, m), r.base.Audit(tx, by, verb, k.ID, what), r.base.Event(tx, verb, k.Host, k.ID, what))
}
