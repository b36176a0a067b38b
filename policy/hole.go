package policy

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// Kinds of capabilities that are still to come. Their places in the table are
// taken before they are, so that none of them opens a hole on the day it does.
const (
	kindHostAttach      protocol.Kind = "host.attach"
	kindContainerAttach protocol.Kind = "container.attach"
	kindFence           protocol.Kind = "container.fence"
	kindImport          protocol.Kind = "template.import" // no kind is called so; a policy that reserves it must reserve image.import-unsigned as well
	kindBuild           protocol.Kind = "template.build"
	kindRestore         protocol.Kind = "backup.restore"
	kindStateRestore    protocol.Kind = "agent.restore"
	kindNetwork         protocol.Kind = "network.rebuild"
)

// narrowing is how a rule can keep a kind from giving root.
type narrowing int

const (
	byNothing narrowing = iota + 1 // every requester may do anything
	byUser                         // by uid:gid, neither of them 0
	byPath                         // by directories that hold nothing that others run or trust
)

// A power is something by which one becomes root on a host, or as good as that.
type power struct {
	gives  string // a hole is called so
	kinds  []protocol.Kind
	narrow narrowing
}

// powers is the table of all of them. It is never written. A test holds it
// against the table of kinds: each kind that is root-equivalent stands here.
var powers = []power{
	{"commands on the host as root", []protocol.Kind{protocol.KindRun}, byUser},
	{"commands in containers as root", []protocol.Kind{protocol.KindExec}, byUser},
	{"sessions on the host as root", []protocol.Kind{kindHostAttach}, byUser},
	{"sessions in containers as root", []protocol.Kind{kindContainerAttach}, byUser},
	{"files brought to the host outside allowed paths", []protocol.Kind{protocol.KindHostPush}, byPath},
	{"files fetched from the host outside allowed paths", []protocol.Kind{protocol.KindHostPull}, byPath},
	{"files brought into containers outside allowed paths", []protocol.Kind{protocol.KindContainerPush}, byPath},
	{"files fetched from containers outside allowed paths", []protocol.Kind{protocol.KindContainerPull}, byPath},
	{"images, which hold all files of the containers that they were made of", []protocol.Kind{protocol.KindImageExport}, byNothing},
	{"backups, which hold all files of their containers", []protocol.Kind{protocol.KindBackupExport}, byNothing},
	{"new containers, which can be privileged, mount the host's directories and bring hooks and raw keys", []protocol.Kind{protocol.KindCreate, protocol.KindClone}, byNothing},
	{"containers of others, which can be privileged", []protocol.Kind{protocol.KindAdopt}, byNothing},
	{"the configuration of containers: privileges, host mounts, hooks and raw keys", []protocol.Kind{protocol.KindConfig, protocol.KindSet}, byNothing},
	{"unsigned imports, whose content runs as root", []protocol.Kind{protocol.KindImageImportUnsigned, kindImport, kindBuild, kindRestore, protocol.KindRestore, protocol.KindDemote}, byNothing},
	{"other images of containers, whose content runs as root in them", []protocol.Kind{protocol.KindContainerUpgrade}, byNothing},
	{"the policy itself", []protocol.Kind{protocol.KindPolicySet}, byNothing},
	{"the agent's own program and state", []protocol.Kind{protocol.KindHostUpgrade, kindStateRestore}, byNothing},
	{"the network of the host, and so the servers that it trusts", []protocol.Kind{kindNetwork}, byNothing},
}

// same lists for a kind those that do the same to a container, and more.
var same = map[protocol.Kind][]protocol.Kind{
	protocol.KindStop:  {protocol.KindDestroy, protocol.KindRestart, protocol.KindFreeze, protocol.KindRollback, protocol.KindContainerUpgrade, kindFence},
	protocol.KindStart: {protocol.KindReset, protocol.KindRestart},
}

// typed lists for a kind that runs commands the one in which they can be typed, as
// the same user. It is never written.
var typed = map[protocol.Kind]protocol.Kind{protocol.KindRun: kindHostAttach, protocol.KindExec: kindContainerAttach}

// narrows has the narrowing of each kind in the table of powers. It is never
// written.
var narrows = func() map[protocol.Kind]narrowing {
	all := map[protocol.Kind]narrowing{}
	for _, p := range powers {
		for _, k := range p.kinds {
			all[k] = p.narrow
		}
	}
	return all
}()

// Kinds lists every kind that a rule may name, those to come included, sorted.
func Kinds() []protocol.Kind {
	all := append(protocol.Kinds(), kindFence)
	all = slices.AppendSeq(all, maps.Keys(narrows))
	slices.Sort(all)
	return slices.Compact(all)
}

// Hole is a way around an approval that a policy asks for.
type Hole struct {
	Kind protocol.Kind
	// Gives is what the kind gives, Needs what the policy asks for it.
	Gives string
	Needs Need
	// Reserved is a kind that needs more, and with it how much.
	Reserved protocol.Kind
	Wants    Need
	// Hosts are some of those on which it is so: "db-1", "edge-*", or "others".
	Hosts string
	Rule  int // that grants it, from 1; 0 is none
	Line  int // on which the rule begins, from 1; 0 if that is not known
}

// String returns the hole as people read it.
func (h Hole) String() string {
	by := "no rule asks for more"
	if h.Rule > 0 {
		by = fmt.Sprintf("rule %d", h.Rule)
	}
	if h.Line > 0 {
		by += fmt.Sprintf(", line %d", h.Line)
	}
	return fmt.Sprintf("%s needs %s (%s), and gives %s, while %s needs %s [on %s]", h.Kind, short(h.Needs), by, h.Gives, h.Reserved, short(h.Wants), h.Hosts)
}

func short(n Need) string {
	if n.Refused {
		return "approvals that cannot be had: it is refused"
	}
	return n.String()
}

// HolesError tells why a policy is not put into force.
type HolesError struct{ Holes []Hole }

// Error lists the holes, one in a line.
func (e *HolesError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the policy can be bypassed in %d ways:", len(e.Holes))
	for _, h := range e.Holes {
		b.WriteString("\n  " + h.String())
	}
	b.WriteString("\nAsk for as much in rules of their own, or accept them with allow_bypass = true")
	return b.String()
}

// Check refuses a policy with holes by a [HolesError], unless it accepts them
// itself. Without hosts it looks at every host that there could be.
func (p *Policy) Check(hosts ...protocol.HostID) error {
	if holes := p.Holes(hosts...); len(holes) > 0 && !p.Bypass() {
		return &HolesError{holes}
	}
	return nil
}

// Guarding returns the policy as it is on a host where more is vital than anywhere:
// the files that its agent is configured to keep, and trusts.
func (p *Policy) Guarding(own ...string) *Policy {
	guarding := *p
	guarding.own = own
	return &guarding
}

// grant is what a kind needs somewhere.
type grant struct {
	kind protocol.Kind
	rule int // from 1; 0 is none
	need Need
	root bool // what it takes gives root
	rest bool // it takes whatever of the kind the rules before it have left
}

// holds reports whether a way to root costs enough beside what another grant
// reserves. Kinds that are refused are judged apart: they are there for nobody, so
// that a way to root cannot need as much, but it must need an approval.
func (g grant) holds(r grant) bool {
	return g.need.covers(r.need) || r.rest && r.need.Refused && g.need.Approvals > 0
}

// Holes lists the ways around the approvals of a policy: kinds that give root,
// or the same as another kind, and need less than something that is reserved.
// Conditions on who asks do not count: the coordinator says who that is. An
// empty list of hosts is every host that there could be.
func (p *Policy) Holes(hosts ...protocol.HostID) []Hole {
	var all []Hole
	known := map[string]bool{}
	if len(hosts) == 0 {
		hosts = p.witnesses()
	}
	for _, h := range hosts {
		for _, hole := range p.holesOn(h) {
			if key := fmt.Sprint(hole.Kind, hole.Rule); !known[key] {
				known[key] = true
				hole.Hosts, hole.Line = shown(h), p.lineOf(hole.Rule)
				all = append(all, hole)
			}
		}
	}
	return all
}

// lineOf is the line on which a rule begins; 0 if it is not written as a table of
// its own, as all rules are that people write.
func (p *Policy) lineOf(rule int) int {
	var lines []int
	n := 0
	for line := range bytes.Lines(p.text) {
		n++
		if before, _, _ := bytes.Cut(line, []byte("#")); string(bytes.ReplaceAll(bytes.TrimSpace(before), []byte(" "), nil)) == "[[rule]]" {
			lines = append(lines, n)
		}
	}
	if rule < 1 || len(lines) != len(p.file.Rules) {
		return 0
	}
	return lines[rule-1]
}

func (p *Policy) holesOn(h protocol.HostID) []Hole {
	var grants []grant
	for _, k := range Kinds() {
		grants = append(grants, p.grants(h, k)...)
	}
	var holes []Hole
	for _, g := range grants {
		for _, r := range grants {
			gives := ""
			if slices.Contains(same[r.kind], g.kind) && !g.need.covers(r.need) {
				gives = "what " + string(r.kind) + " does"
			}
			if g.root && !g.holds(r) {
				gives = gave(g.kind)
			}
			if gives != "" {
				holes = append(holes, Hole{Kind: g.kind, Gives: gives, Needs: g.need, Reserved: r.kind, Wants: r.need, Rule: g.rule})
				break
			}
		}
	}
	for _, g := range grants {
		if g.root || g.rule == 0 || narrows[g.kind] != byUser {
			continue
		}
		for run, session := range typed {
			if g.kind != session {
				continue
			}
			if want, ok := p.dearer(h, run, g); ok {
				holes = append(holes, Hole{Kind: g.kind, Gives: "what " + string(run) + " does as the same user", Needs: g.need, Reserved: run, Wants: want, Rule: g.rule})
			}
		}
		if with, ok := p.cheaper(h, g); ok {
			holes = append(holes, Hole{Kind: g.kind, Gives: "the same command with more variables", Needs: with.need, Reserved: g.kind, Wants: g.need, Rule: with.rule})
		}
	}
	return holes
}

// dearer returns what a kind that runs commands needs for one that a session may run
// by a grant, if that is more.
func (p *Policy) dearer(h protocol.HostID, run protocol.Kind, session grant) (Need, bool) {
	r := &p.file.Rules[session.rule-1]
	commands := r.Commands
	if commands == nil {
		commands = []string{""}
	}
	for _, names := range p.settings(r) {
		for _, user := range r.Users {
			for _, command := range commands {
				if !slices.ContainsFunc(p.reached(h, session.kind, user, command, names), func(g grant) bool { return g.rule == session.rule }) {
					continue // rules before it have taken all of that
				}
				for _, g := range p.reached(h, run, user, command, names) {
					if !session.need.covers(g.need) {
						return g.need, true
					}
				}
			}
		}
	}
	return Need{}, false
}

// reached are the grants that commands of a user can come to with the variables that
// are named: one command, or, if it is empty, some.
func (p *Policy) reached(h protocol.HostID, k protocol.Kind, user, command string, names []string) []grant {
	var all []grant
	for i := range p.file.Rules {
		r := &p.file.Rules[i]
		switch {
		case !fitsAny(r.Kinds, k) || !p.file.labelled(r.Labels, h):
			continue
		case r.Users != nil && !slices.Contains(r.Users, user):
			continue
		case r.Commands != nil && command != "" && !slices.Contains(r.Commands, command), !r.admits(names):
			continue
		}
		all = append(all, grant{kind: k, rule: i + 1, need: r.need})
		if r.Commands == nil || command != "" {
			return all
		}
	}
	return append(all, grant{kind: k})
}

func gave(k protocol.Kind) string {
	i := slices.IndexFunc(powers, func(p power) bool { return slices.Contains(p.kinds, k) })
	return powers[i].gives
}

// grants are the rules that requests of a kind can come to, up to the first
// that takes all of them; without one, what comes to none needs nothing.
func (p *Policy) grants(h protocol.HostID, k protocol.Kind) []grant {
	if ruled(k) != k {
		return nil // what its rules give was looked at
	}
	var all []grant
	for i := range p.file.Rules {
		r := &p.file.Rules[i]
		if !fitsAny(r.Kinds, k) || !p.file.labelled(r.Labels, h) {
			continue
		}
		rest := r.unconditional()
		all = append(all, grant{k, i + 1, r.need, narrows[k] != 0 && !p.narrowed(r, k), rest})
		if rest {
			return all
		}
	}
	return append(all, grant{k, 0, Need{}, narrows[k] != 0, true})
}

// narrowed reports whether the conditions of a rule keep a kind from giving
// root.
func (p *Policy) narrowed(r *rule, k protocol.Kind) bool {
	switch narrows[k] {
	case byUser:
		return r.Users != nil && !slices.ContainsFunc(r.Users, rootUser)
	case byPath:
		own := p.own
		if k != protocol.KindHostPush && k != protocol.KindHostPull {
			own = nil // they are not in containers
		}
		return r.Paths != nil && !slices.ContainsFunc(r.Paths, func(d string) bool { return trusted(vital, d) || trusted(own, d) })
	}
	return false
}

// rootUser reports whether a user, or its group, is root, or may be: a uid alone has
// the groups that /etc/passwd and /etc/group give it, which are docker, disk or 0
// without a word in the policy. uid:gid has that group and no other.
func rootUser(s string) bool {
	uid, gid, both := strings.Cut(s, ":")
	return uid == "0" || !both || gid == "0"
}

// vital are the directories whose files others run, read as settings, or keep
// secrets in. It is never written.
var vital = []string{
	"/bin", "/boot", "/dev", "/efi", "/etc", "/gnu", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/ostree", "/proc", "/root", "/run",
	"/sbin", "/snap", "/sys", "/sysroot", "/usr",
	"/var/backups", "/var/cache", "/var/home", "/var/lib", "/var/log", "/var/opt", "/var/roothome", "/var/run", "/var/spool", "/var/usrlocal",
}

// trusted reports whether a directory is, holds, or is in a vital one.
func trusted(vital []string, directory string) bool {
	return slices.ContainsFunc(vital, func(v string) bool {
		return directory == v || below(v, directory) || below(directory, v)
	})
}

// covers reports whether what meets n meets m as well.
func (n Need) covers(m Need) bool {
	switch {
	case n.Refused || m.None():
		return true
	case m.Refused:
		return false
	case m.By == nil:
		return n.Approvals >= m.Approvals
	case n.By == nil:
		return false
	}
	// The worst choice takes first those whom m does not count.
	others := 0
	for _, p := range n.By {
		if !m.May(p) {
			others++
		}
	}
	return n.Approvals-others >= m.Approvals
}

// stranger is a host that no label names: none can be called so.
const stranger = "~"

// witnesses are hosts that stand for all: each that a label names, and for each
// beginning one that begins so and is named by nothing longer.
func (p *Policy) witnesses() []protocol.HostID {
	all := []protocol.HostID{stranger}
	for _, hosts := range p.file.Labels {
		for _, h := range hosts {
			if prefix, ok := strings.CutSuffix(h, "*"); ok {
				h = prefix + "~" // no host is called so, so no label names it
			}
			all = append(all, protocol.HostID(h))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// shown returns a witness as people read it.
func shown(h protocol.HostID) string {
	if h == stranger {
		return "hosts without a label"
	}
	if prefix, ok := strings.CutSuffix(string(h), "~"); ok {
		return prefix + "*"
	}
	return string(h)
}
