package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// Request is what a requester wants of a host.
type Request struct {
	Host protocol.HostID
	Spec *protocol.Spec
	// Requester and Role are who asks, as far as that is known: what a
	// coordinator says of it can only be refused for it.
	Requester string
	Role      string
}

// Need is what a request needs before a host begins it.
type Need struct {
	// Refused: no approval helps. Why says so to people.
	Refused bool
	Why     string
	// Approvals is how many different persons must have signed, By who they may
	// be, sorted; nil is every person of the ring.
	Approvals int
	By        []string
	// Within are the directories in which the files that it moves must lie,
	// wherever links lead; none is anywhere.
	Within []string
}

// None reports whether nothing is needed.
func (n Need) None() bool { return !n.Refused && n.Approvals == 0 }

// May reports whether a person's approval counts.
func (n Need) May(person string) bool {
	return person != "" && (n.By == nil || slices.Contains(n.By, person))
}

// Missing is how many more persons must sign. It counts each once.
func (n Need) Missing(persons ...string) int {
	counted := slices.Clone(persons)
	slices.Sort(counted)
	counted = slices.DeleteFunc(slices.Compact(counted), func(p string) bool { return !n.May(p) })
	return max(0, n.Approvals-len(counted))
}

// String returns the need as people read it.
func (n Need) String() string {
	switch {
	case n.Refused:
		return n.Why
	case n.Approvals == 0:
		return "no approval"
	}
	text := "the approval of 1 person"
	if n.Approvals > 1 {
		text = fmt.Sprintf("the approvals of %d different persons", n.Approvals)
	}
	if n.By != nil {
		text += " of " + strings.Join(n.By, ", ")
	}
	return text
}

// Needs says what a request needs. Whether what a policy document is signed by
// is enough is for [Standing.Admit] instead: its own signatures let it.
func (p *Policy) Needs(r Request) Need {
	kind := ruled(r.Spec.Kind)
	for i := range p.file.Requests {
		if q := &p.file.Requests[i]; fitsAny(q.Kinds, kind) && p.file.labelled(q.Labels, r.Host) && !q.lets(r) {
			return Need{Refused: true, Why: "the policy does not let " + who(r) + " request " + string(r.Spec.Kind)}
		}
	}
	return p.byRules(r)
}

// byRules is what the first rule says that fits.
func (p *Policy) byRules(r Request) Need {
	kind := ruled(r.Spec.Kind)
	for i := range p.file.Rules {
		if ru := &p.file.Rules[i]; fitsAny(ru.Kinds, kind) && p.file.labelled(ru.Labels, r.Host) && ru.conditions(r) {
			return ru.need
		}
	}
	return Need{}
}

func who(r Request) string {
	if r.Role == "" {
		return fmt.Sprintf("%.70q", r.Requester)
	}
	return fmt.Sprintf("%.70q (%.20s)", r.Requester, r.Role)
}

// lets reports whether who asks may. A host knows no roles: it leaves those to
// the coordinator, whose word on them it could not check.
func (q *request) lets(r Request) bool {
	return slices.Contains(q.People, r.Requester) || slices.Contains(q.Roles, r.Role) || r.Role == "" && q.Roles != nil
}

// labelled reports whether a host has one of the labels; no labels are every
// host.
func (f *file) labelled(labels []string, h protocol.HostID) bool {
	return labels == nil || slices.ContainsFunc(labels, func(l string) bool {
		return slices.ContainsFunc(f.Labels[l], func(pattern string) bool {
			prefix, all := strings.CutSuffix(pattern, "*")
			return all && strings.HasPrefix(string(h), prefix) || pattern == string(h)
		})
	})
}

// conditions reports whether a spec fits what a rule says of commands and
// files.
func (r *rule) conditions(q Request) bool {
	s, command := q.Spec, q.Spec.Process()
	switch {
	case r.Users != nil && !slices.Contains(r.Users, command.User):
		return false
	case r.Commands != nil && (len(command.Argv) == 0 || !slices.Contains(r.Commands, command.Argv[0])):
		return false
	case !r.admits(variables(s)):
		return false
	case r.Paths != nil && !within(r.Paths, s):
		return false
	}
	return true
}

// unconditional reports whether the rule takes every request of its kinds and
// hosts.
func (r *rule) unconditional() bool { return r.Users == nil && r.Commands == nil && r.Paths == nil }

// within reports whether all files that a spec moves are below the directories.
// Archives and modes beyond 0777 do not fit: they could bring programs that run
// as their owner.
func within(directories []string, s *protocol.Spec) bool {
	f := s.Files()
	if f == nil || len(f.Paths) == 0 || f.Archive || len(f.Mode) == 4 && f.Mode[0] != '0' {
		return false
	}
	pull := ruled(s.Kind) == protocol.KindHostPull || s.Kind == protocol.KindContainerPull
	return !slices.ContainsFunc(f.Paths, func(p string) bool {
		return checkPath(p) != nil || !slices.ContainsFunc(directories, func(d string) bool {
			// A directory may be fetched, and a file brought into it by a name.
			return below(d, p) || d == p && (pull || f.Name != "")
		})
	})
}

// below reports whether a path is in a directory, at whatever depth.
func below(directory, p string) bool {
	return directory != p && strings.HasPrefix(p, strings.TrimSuffix(directory, "/")+"/")
}

// ruled is the kind whose rules a kind follows: stopping at once is stopping.
func ruled(k protocol.Kind) protocol.Kind {
	if k == protocol.KindStopNow {
		return protocol.KindStop
	}
	return k
}
