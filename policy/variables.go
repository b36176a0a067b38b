package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// foreign is a variable that no rule names: none can be called so.
const foreign = "="

// variables are the names of those that a spec sets. Sealed ones without names may
// be any.
func variables(s *protocol.Spec) []string {
	var names []string
	for _, e := range s.Process().Env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	if sealed := s.Secret(); sealed != nil {
		names = append(names, sealed.Names...)
		if !sealed.Named() {
			names = append(names, foreign)
		}
	}
	return names
}

// admits reports whether a rule fits commands that set the variables. With a
// variable of its loader or its shell a command is another one, so a rule that names
// commands names the variables, too.
func (r *rule) admits(names []string) bool {
	return r.Commands == nil || subset(names, r.Env)
}

func subset(names, of []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(of, n) })
}

// checkVariable accepts one name. It refuses those by which the loader and shells are
// told of programs: a rule with one of them would fit whatever is run.
func checkVariable(s string) error {
	if s == "" || len(s) > 255 || s[0] >= '0' && s[0] <= '9' || strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_'
	}) {
		return fmt.Errorf("%.70q is no name of a variable: want 1 to 255 of A-Z, a-z, 0-9 and _, and no digit first", s)
	}
	if s == "ENV" || strings.HasPrefix(s, "LD_") || strings.HasPrefix(s, "BASH_") {
		return fmt.Errorf("%s makes another command of any command, so a rule that lists commands must not allow it", s)
	}
	return nil
}

// settings are sets of variables that stand for all that a rule admits; of nil, for
// all that there are. Who sets more of them passes more rules by: so it suffices to
// look, for each rule, at the most that the rule admits.
func (p *Policy) settings(of *rule) [][]string {
	named, most := map[string]bool{foreign: true}, [][]string{nil}
	for i := range p.file.Rules {
		if env := p.file.Rules[i].Env; env != nil {
			most = append(most, slices.Sorted(slices.Values(env)))
		}
		for _, name := range p.file.Rules[i].Env {
			named[name] = true
		}
	}
	most = append(most, slices.Sorted(maps.Keys(named)))
	if of != nil && of.Commands != nil {
		for i := range most {
			most[i] = slices.DeleteFunc(most[i], func(n string) bool { return !slices.Contains(of.Env, n) })
		}
	}
	slices.SortFunc(most, slices.Compare)
	return slices.CompactFunc(most, slices.Equal)
}

// cheaper returns what the commands of a rule need with more variables than those
// with which they come to it, if that is less.
func (p *Policy) cheaper(h protocol.HostID, g grant) (grant, bool) {
	r, all := &p.file.Rules[g.rule-1], p.settings(nil)
	for _, names := range p.settings(r) {
		for _, more := range all {
			if !subset(names, more) {
				continue
			}
			for _, user := range r.Users {
				for _, command := range r.Commands {
					if p.reached(h, g.kind, user, command, names)[0].rule != g.rule {
						continue // rules before it have taken that
					}
					if with := p.reached(h, g.kind, user, command, more)[0]; !with.need.covers(g.need) {
						return with, true
					}
				}
			}
		}
	}
	return grant{}, false
}
