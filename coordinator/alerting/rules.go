package alerting

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// RuleSet is what a person has set under a name: rules, and whom they are for.
type RuleSet struct {
	Name string `json:"name"`
	// Host is the only host that it is for; empty is every host that Selector selects.
	Host     protocol.HostID `json:"host,omitempty"`
	Selector string          `json:"selector,omitempty"` // labels; empty selects all
	// Of is what of a host it is about: [alerts.Host], [alerts.Every] or a container.
	Of string `json:"of"`
	// Rules are without a target: "ram=80%/60s".
	Rules []string `json:"rules"`
	// Number is that of the change that made it so.
	Number uint64 `json:"number"`
	SetBy  string `json:"set_by"`
	SetMS  int64  `json:"set_ms"`
}

// Tag names the set as it is, in an ETag.
func (s RuleSet) Tag() string { return strconv.FormatUint(s.Number, 10) }

// book holds all sets, by name. It is one value of the store.
type book struct {
	Number uint64    `json:"number"` // of changes
	Sets   []RuleSet `json:"sets"`
}

const bookValue = "alert.rules"

// Bounds of what people may set. What a host gets is bounded besides, see
// [protocol.MaxAlertRules].
const (
	maxSets    = 200
	maxRules   = 32 // of one set
	maxOf      = 255
	maxMatcher = 1024
)

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

func readBook(tx core.Tx) (b book, err error) {
	_, err = core.GetJSON(tx, bookValue, &b)
	return b, err
}

// Rules returns all sets, by name.
func (r *Room) Rules(ctx context.Context) ([]RuleSet, error) {
	b, err := core.Read(ctx, r.base, readBook)
	return b.Sets, err
}

// Rule returns the set of a name.
func (r *Room) Rule(ctx context.Context, name string) (RuleSet, error) {
	sets, err := r.Rules(ctx)
	if err != nil {
		return RuleSet{}, err
	}
	n := slices.IndexFunc(sets, func(s RuleSet) bool { return s.Name == name })
	if n < 0 {
		return RuleSet{}, fmt.Errorf("rule %.63q: %w", name, core.ErrNotFound)
	}
	return sets[n], nil
}

// SetRule sets what a name stands for. as is the [RuleSet.Tag] of the set that the requester has
// read; of empty any will do, or none.
func (r *Room) SetRule(ctx context.Context, by core.Actor, s RuleSet, as string) (RuleSet, error) {
	if err := r.base.Allow(by, core.RoleOperator, "set rules of alerts"); err != nil {
		return s, err
	}
	if err := s.check(); err != nil {
		return s, fmt.Errorf("%w: rule %.63q: %w", core.ErrInvalid, s.Name, err)
	}
	s.SetBy, s.SetMS = by.LogName(), r.base.NowMS()
	err := r.change(ctx, by, s.Name, as, "alert.rule_set", func(tx core.Tx, b *book, at int) error {
		s.Number = b.Number
		if at >= 0 {
			b.Sets[at] = s
		} else {
			b.Sets = append(b.Sets, s)
			slices.SortFunc(b.Sets, func(x, y RuleSet) int { return strings.Compare(x.Name, y.Name) })
		}
		if len(b.Sets) > maxSets {
			return fmt.Errorf("%w: there are %d rules, and no more can be; remove some: hostler alert rule rm NAME", core.ErrInvalid, maxSets)
		}
		return fits(tx, b.Sets)
	})
	return s, err
}

// RemoveRule removes the set of a name.
func (r *Room) RemoveRule(ctx context.Context, by core.Actor, name string, as string) error {
	if err := r.base.Allow(by, core.RoleOperator, "remove rules of alerts"); err != nil {
		return err
	}
	return r.change(ctx, by, name, as, "alert.rule_removed", func(_ core.Tx, b *book, at int) error {
		if at < 0 {
			return fmt.Errorf("rule %.63q: %w", name, core.ErrNotFound)
		}
		b.Sets = slices.Delete(b.Sets, at, at+1)
		return nil
	})
}

// change makes a change of the book durable, and has hosts get what follows.
func (r *Room) change(ctx context.Context, by core.Actor, name string, as string, verb string, fn func(tx core.Tx, b *book, at int) error) error {
	err := r.base.Update(ctx, failpoint.AlertRulesSet, func(tx core.Tx) error {
		b, err := readBook(tx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(b.Sets, func(s RuleSet) bool { return s.Name == name })
		is := ""
		if at >= 0 {
			is = b.Sets[at].Tag()
		}
		if err := core.AsRead(fmt.Sprintf("rule %.63q", name), as, is); err != nil {
			return err
		}
		b.Number++
		if err := fn(tx, &b, at); err != nil {
			return err
		}
		detail := map[string]any{"number": b.Number}
		if n := slices.IndexFunc(b.Sets, func(s RuleSet) bool { return s.Name == name }); n >= 0 {
			s := b.Sets[n]
			detail["host"], detail["selector"], detail["of"], detail["rules"] = s.Host, s.Selector, s.Of, s.Rules
		}
		return errors.Join(core.PutJSON(tx, bookValue, b), r.base.Audit(tx, by, verb, name, detail), r.base.Event(tx, verb, "", name, detail))
	})
	if err == nil {
		r.base.Wake.Fire(core.EventsKey{})
		r.everyHost()
	}
	return err
}

// check refuses a set that no host could use.
func (s *RuleSet) check() error {
	if !nameForm.MatchString(s.Name) {
		return errors.New("the name is not made of up to 63 small letters, digits, dots and hyphens")
	}
	if s.Host != "" {
		if _, err := protocol.ParseHostID(string(s.Host)); err != nil {
			return err
		}
		if s.Selector != "" {
			return errors.New("it is for one host or for those that labels select, and not for both")
		}
	}
	if s.Selector != "" {
		var sel api.Selector
		if len(s.Selector) > maxMatcher {
			return fmt.Errorf("the selector is longer than %d bytes", maxMatcher)
		}
		if err := sel.Set(s.Selector); err != nil {
			return err
		}
	}
	if s.Of == "" || len(s.Of) > maxOf || strings.ContainsAny(s.Of, " \t\r\n") {
		return fmt.Errorf("%.63q is neither host, nor *, nor the name of a container", s.Of)
	}
	if len(s.Rules) == 0 || len(s.Rules) > maxRules {
		return fmt.Errorf("want 1 to %d quantities with a threshold, such as ram=80%%/60s", maxRules)
	}
	parsed, err := alerts.Parse(s.line())
	if err != nil {
		return err
	}
	for n, p := range parsed { // as they will be shown and sent
		_, s.Rules[n], _ = strings.Cut(p.String(), " ")
	}
	return nil
}

// line is the set as a host reads it.
func (s *RuleSet) line() string { return s.Of + " " + strings.Join(s.Rules, " ") }

// applies reports whether a set is for a host.
func (s *RuleSet) applies(h core.Host) bool {
	if s.Host != "" {
		return s.Host == h.ID
	}
	var sel api.Selector
	return s.Selector == "" || sel.Set(s.Selector) == nil && sel.Match(h.Labels)
}

// linesFor are the rules of the sets that a host has to judge by.
func linesFor(sets []RuleSet, h core.Host) (lines []string) {
	for _, s := range sets {
		if !s.applies(h) {
			continue
		}
		if line := s.sent(); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// fits refuses sets that are too many for one host together.
func fits(tx core.Tx, sets []RuleSet) error {
	total := 0
	for _, s := range sets {
		total += len(s.line())
	}
	if total <= protocol.MaxAlertRulesSize {
		return nil // for whichever hosts they are
	}
	return core.EachHost(tx, func(h core.Host) error {
		size := 0
		for _, l := range linesFor(sets, h) {
			size += len(l)
		}
		if size > protocol.MaxAlertRulesSize {
			return fmt.Errorf("%w: host %s would have %d bytes of rules, at most %d are taken; remove some: hostler alert rule ls", core.ErrInvalid, h.ID, size, protocol.MaxAlertRulesSize)
		}
		return nil
	})
}

// Next returns what brings a host the rules that it lacks, by its newest inventory; nil
// if it has them, or if they are on their way. A host of before there were any is left
// alone. It is called with each inventory that is taken in.
func (r *Room) Next(tx core.Tx, h core.Host) (*protocol.ControlItem, error) {
	has := h.Inventory.Host.Rules
	if has == nil || h.State != core.HostApproved || r.base.Recovery() != "" {
		return nil, nil
	}
	b, err := readBook(tx)
	if err != nil {
		return nil, err
	}
	want := protocol.AlertRules{Number: max(b.Number, 1), Rules: linesFor(b.Sets, h)}
	digest := want.Digest()
	if has.Digest == digest || has.Number == 0 && len(want.Rules) == 0 {
		return nil, nil
	}
	controls, err := tx.Streams.Get(h.ID, protocol.StreamControl)
	waiting := controls.Pos.N - controls.Freed.N
	if err != nil || waiting >= stream.Window/2 {
		return nil, err // a host that takes no controls gets no more of them
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent[h.ID] == digest && waiting > 0 {
		return nil, nil
	}
	return &protocol.ControlItem{Verb: protocol.VerbRules, Rules: &want}, nil
}

// Sent notes that the rules which Next returned have their number, when that is durable.
// A transaction may run more than once, so Next itself notes nothing.
func (r *Room) Sent(host protocol.HostID, rules *protocol.AlertRules) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[host] = rules.Digest()
}
