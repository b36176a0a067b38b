package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/coordinator/alerting"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// given returns the rules that a host was sent since the last call, and has it tell that
// it has the newest of them.
func given(h *coordtest.Host) (all []protocol.AlertRules) {
	synctest.Wait()
	for {
		select {
		case item := <-h.Controls():
			if item.Verb == protocol.VerbRules {
				all = append(all, *item.Rules)
			}
			continue
		default:
		}
		if len(all) > 0 {
			last := all[len(all)-1]
			h.Set(func(f *coordtest.Facts) {
				f.Info.Rules = &protocol.RulesInfo{Number: last.Number, Digest: last.Digest()}
			})
			h.Heartbeat()
			synctest.Wait()
		}
		return all
	}
}

// TestAlertRules: each host gets the rules that are for it, once, when they are set, when
// its labels become those of a rule, and when it comes back; a host of an older version
// gets none.
func TestAlertRules(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		old := f.AddHost("edge-08")
		old.Connect()
		h.Set(func(f *coordtest.Facts) { f.Info.Rules = &protocol.RulesInfo{} })
		h.Heartbeat()
		synctest.Wait()
		set := func(s alerting.RuleSet) uint64 {
			t.Helper()
			s, err := f.Coordinator().Alerts().SetRule(t.Context(), f.Admin(), s, "")
			if err != nil {
				t.Fatal(err)
			}
			return s.Number
		}
		want := func(what string, number uint64, lines ...string) {
			t.Helper()
			got := given(h)
			if len(got) != 1 || got[0].Number != number || !slices.Equal(got[0].Rules, lines) {
				t.Errorf("%s: sent are %+v, want %d %q", what, got, number, lines)
			}
			if again := given(h); len(again) != 0 {
				t.Errorf("%s: sent again are %+v", what, again)
			}
		}
		if got := given(h); len(got) != 0 {
			t.Errorf("without rules: %+v", got)
		}
		n := set(alerting.RuleSet{Name: "disks", Of: "host", Rules: []string{"disk=90%/5m"}})
		want("for all", n, "host disk=90%/5m0s")
		n = set(alerting.RuleSet{Name: "lab", Selector: "site=lab", Of: "*", Rules: []string{"ram=80%"}})
		if got := given(h); len(got) != 0 {
			t.Errorf("for other labels: %+v", got)
		}
		if err := f.Coordinator().Members().Relabel(t.Context(), f.Admin(), h.ID, []string{"site=lab"}, nil, ""); err != nil {
			t.Fatal(err)
		}
		want("labelled", n, "host disk=90%/5m0s", "* ram=80%/1m0s")
		h.Goodbye()
		synctest.Wait()
		if err := f.Coordinator().Alerts().RemoveRule(t.Context(), f.Admin(), "disks", ""); err != nil {
			t.Fatal(err)
		}
		f.Restart()
		h.Connect()
		h.Heartbeat()
		want("after it was away", n+1, "* ram=80%/1m0s")
		if got := given(old); len(got) != 0 {
			t.Errorf("a host of an older version: %+v", got)
		}
	})
}

// TestAlertRulesAreChecked: what no host could use, or what somebody else has changed
// meanwhile, changes nothing; and there are no more than fit.
func TestAlertRulesAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		rules := f.Coordinator().Alerts()
		good := alerting.RuleSet{Name: "memory", Host: h.ID, Of: "web", Rules: []string{"ram=80%/60s"}}
		first, err := rules.SetRule(t.Context(), f.Admin(), good, "")
		if err != nil {
			t.Fatal(err)
		}
		for what, edit := range map[string]func(*alerting.RuleSet){
			"no name":             func(s *alerting.RuleSet) { s.Name = "" },
			"a name with a space": func(s *alerting.RuleSet) { s.Name = "a b" },
			"no such host id":     func(s *alerting.RuleSet) { s.Host = "A/B" },
			"host and labels":     func(s *alerting.RuleSet) { s.Selector = "site=lab" },
			"no selector":         func(s *alerting.RuleSet) { s.Host, s.Selector = "", "lab" },
			"nothing it is about": func(s *alerting.RuleSet) { s.Of = "" },
			"two words":           func(s *alerting.RuleSet) { s.Of = "web db" },
			"no rules":            func(s *alerting.RuleSet) { s.Rules = nil },
			"unknown quantity":    func(s *alerting.RuleSet) { s.Rules = []string{"colour=3"} },
			"offline containers":  func(s *alerting.RuleSet) { s.Rules = []string{"offline=5m"} },
		} {
			bad := good
			bad.Rules = slices.Clone(good.Rules)
			edit(&bad)
			if _, err := rules.SetRule(t.Context(), f.Admin(), bad, ""); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := rules.SetRule(t.Context(), core.Actor{Name: "eve", Role: core.RoleViewer}, good, ""); !errors.Is(err, core.ErrRole) {
			t.Errorf("a viewer: %v", err)
		}
		second, err := rules.SetRule(t.Context(), f.Admin(), good, first.Tag())
		if err != nil || second.Number <= first.Number {
			t.Errorf("changed as it was read: %+v, %v", second, err)
		}
		if _, err := rules.SetRule(t.Context(), f.Admin(), good, first.Tag()); !errors.Is(err, core.ErrChanged) {
			t.Errorf("changed as it was read before: %v", err)
		}
		if err := rules.RemoveRule(t.Context(), f.Admin(), "nosuch", ""); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("remove what is not there: %v", err)
		}
		for n := 0; ; n++ {
			many := alerting.RuleSet{Name: fmt.Sprintf("many-%d", n), Of: "*", Rules: []string{"ram=80%/60s", "cpu=90%/60s", "tasks=500", "psi-io=90%", "restarts=3"}}
			if _, err = rules.SetRule(t.Context(), f.Admin(), many, ""); err != nil {
				break
			}
		}
		all, _ := rules.Rules(t.Context())
		if !errors.Is(err, core.ErrInvalid) || len(all) < 50 {
			t.Errorf("%d rules, then %v", len(all), err)
		}
	})
}
