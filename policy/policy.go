package policy

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/protocol"
)

// Limits of a policy.
const (
	// MaxText is the longest policy that is read, in bytes. What travels is
	// shorter: see [protocol.MaxPolicy].
	MaxText = 64 << 10
	// MaxApprovals is the most persons that one rule can demand: as many
	// approvals as an order carries beside a spec of some length.
	MaxApprovals = 8

	maxRules = 100
	maxNames = 500 // of a list
	version  = 1
)

// file is a policy as it is written.
type file struct {
	// Version of the language: 1.
	Version int `toml:"version"`
	// AllowBypass takes a policy with holes all the same.
	AllowBypass bool `toml:"allow_bypass"`
	// Groups of persons, and hosts under a label. A host ending in * stands for
	// all that begin so.
	Groups   map[string][]string `toml:"groups"`
	Labels   map[string][]string `toml:"labels"`
	Rules    []rule              `toml:"rule"`
	Requests []request           `toml:"request"`
}

// rule says what a request needs that all of its conditions fit. A condition
// that is left out fits everything.
type rule struct {
	Kinds    []string `toml:"kinds"`    // "container.exec", "container.*", "*"
	Labels   []string `toml:"labels"`   // of this policy
	Users    []string `toml:"users"`    // uid or uid:gid, of commands
	Commands []string `toml:"commands"` // argv[0], of commands
	Env      []string `toml:"env"`      // names of the variables that those may set; without it they set none
	Paths    []string `toml:"paths"`    // directories, of files that are brought or fetched

	// Approvals is how many different persons must have signed, By who they may
	// be: persons, or @group; an empty list is any person of the ring. FourEyes
	// is at least two. Refuse refuses all.
	Approvals int      `toml:"approvals"`
	By        []string `toml:"by"`
	FourEyes  bool     `toml:"four_eyes"`
	Refuse    bool     `toml:"refuse"`

	need Need
}

// request says who may ask for something at all.
type request struct {
	Kinds  []string `toml:"kinds"`
	Labels []string `toml:"labels"`
	Roles  []string `toml:"roles"`
	People []string `toml:"people"`
}

// Policy is a policy that was read. It never changes and is safe for concurrent
// use.
type Policy struct {
	digest protocol.Digest
	text   []byte
	file   file
	own    []string // vital on this host, beside what is vital everywhere
}

// BuiltIn is in force on a host that has no policy: what operators and admins
// request needs no approval.
func BuiltIn() *Policy { return &Policy{file: file{Version: version}} }

// Closed is in force on a host whose policy cannot be read: it refuses
// everything to all but the host's own root, and says why.
func Closed(why error) *Policy {
	everything := rule{Kinds: []string{"*"}, Refuse: true, need: Need{Refused: true, Why: why.Error()}}
	return &Policy{file: file{Version: version, Rules: []rule{everything}}}
}

// Parse reads a policy. It refuses whatever is not understood; holes it leaves
// to [Policy.Check]. name is how errors call the text.
func Parse(name string, text []byte) (*Policy, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are allowed", name, len(text), MaxText)
	}
	p := &Policy{digest: protocol.Sum(text), text: bytes.Clone(text)}
	if err := settings.Strict(name, text, &p.file); err != nil {
		return nil, err
	}
	if err := p.file.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// Digest is that of the text; zero for a policy that was not read from one.
func (p *Policy) Digest() protocol.Digest { return p.digest }

// Text is what it was read from; empty for a policy that was not read.
func (p *Policy) Text() []byte { return bytes.Clone(p.text) }

// Bypass tells that the policy accepts its holes.
func (p *Policy) Bypass() bool { return p.file.AllowBypass }

func (f *file) check() error {
	if f.Version != version {
		return fmt.Errorf("version: %d, this program reads version %d alone", f.Version, version)
	}
	if len(f.Rules) > maxRules || len(f.Requests) > maxRules || len(f.Groups) > maxRules || len(f.Labels) > maxRules {
		return fmt.Errorf("at most %d of rules, requests, groups and labels are allowed", maxRules)
	}
	for name, persons := range f.Groups {
		if err := checkList("groups."+name, persons, checkPerson); err != nil {
			return err
		}
	}
	for name, hosts := range f.Labels {
		if err := checkList("labels."+name, hosts, checkHost); err != nil {
			return err
		}
	}
	for i := range f.Rules {
		if err := f.Rules[i].check(f); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	for i := range f.Requests {
		if err := f.Requests[i].check(f); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	return nil
}

func checkList(what string, list []string, each func(string) error) error {
	if len(list) < 1 || len(list) > maxNames {
		return fmt.Errorf("%s has %d entries, want 1 to %d", what, len(list), maxNames)
	}
	for i, s := range list {
		if err := each(s); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if slices.Contains(list[:i], s) {
			return fmt.Errorf("%s: %.70q is listed twice", what, s)
		}
	}
	return nil
}

// checkOptional holds a condition that may be left out, but not be empty: an
// empty list would fit nothing or everything, depending on who reads it.
func checkOptional(what string, list []string, each func(string) error) error {
	if list == nil {
		return nil
	}
	return checkList(what, list, each)
}

func checkPerson(s string) error {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._@+-", c)
	}) || s[0] == '@' {
		return fmt.Errorf("%.70q is no person: want 1 to 64 of a-z, 0-9 and inner . _ @ + -", s)
	}
	return nil
}

func checkHost(s string) error {
	prefix, all := strings.CutSuffix(s, "*")
	if all && (prefix == "" || protocolLabel(strings.TrimSuffix(prefix, "-"))) {
		return nil
	}
	if _, err := protocol.ParseHostID(s); err != nil {
		return fmt.Errorf("%.70q is neither a host id nor the beginning of one with *: %w", s, err)
	}
	return nil
}

func protocolLabel(s string) bool { _, err := protocol.ParseHostID(s); return err == nil }

// checkKind accepts a kind that there is or will be, all kinds of a family, and
// everything. An unknown kind is a mistake, and would reserve nothing.
func checkKind(s string) error {
	if k := protocol.Kind(s); ruled(k) != k {
		return fmt.Errorf("%s follows the rules of %s: name that instead", k, ruled(k))
	}
	if !slices.ContainsFunc(Kinds(), func(k protocol.Kind) bool { return fits(s, k) }) {
		return fmt.Errorf("unknown kind %.60q", s)
	}
	return nil
}

// fits reports whether a kind is the pattern, or of its family.
func fits(pattern string, k protocol.Kind) bool {
	family, all := strings.CutSuffix(pattern, "*")
	return all && (family == "" || strings.HasSuffix(family, ".")) && strings.HasPrefix(string(k), family) || pattern == string(k)
}

func fitsAny(patterns []string, k protocol.Kind) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, k) })
}

func (f *file) checkWhere(kinds, labels []string) error {
	if err := checkList("kinds", kinds, checkKind); err != nil {
		return err
	}
	return checkOptional("labels", labels, func(s string) error {
		if f.Labels[s] == nil {
			return fmt.Errorf("%.70q is not under [labels]; labels that the coordinator gives hosts do not count here", s)
		}
		return nil
	})
}

func (r *rule) check(f *file) error {
	if err := f.checkWhere(r.Kinds, r.Labels); err != nil {
		return err
	}
	if err := checkOptional("users", r.Users, checkUser); err != nil {
		return err
	}
	if err := checkOptional("commands", r.Commands, checkPath); err != nil {
		return err
	}
	if err := checkOptional("env", r.Env, checkVariable); err != nil {
		return err
	}
	if r.Env != nil && r.Commands == nil {
		return fmt.Errorf("env belongs to a rule with commands: without commands, variables are free as well")
	}
	if err := checkOptional("paths", r.Paths, checkPath); err != nil {
		return err
	}
	// A condition that some of the kinds do not have would quietly leave them
	// out of the rule.
	for _, pattern := range r.Kinds {
		for _, k := range Kinds() {
			if fits(pattern, k) && (r.Users != nil || r.Commands != nil) && narrows[k] != byUser {
				return fmt.Errorf("users and commands belong to kinds that run commands, and %.60q is more", pattern)
			}
			if fits(pattern, k) && r.Paths != nil && narrows[k] != byPath {
				return fmt.Errorf("paths belong to kinds that move files, and %.60q is more", pattern)
			}
		}
	}
	return r.checkNeed(f)
}

func (r *rule) checkNeed(f *file) error {
	members, err := f.members(r.By)
	if err != nil {
		return err
	}
	n := Need{Refused: r.Refuse, Approvals: r.Approvals, By: members, Within: r.Paths}
	if r.FourEyes {
		n.Approvals = max(2, n.Approvals)
	}
	switch {
	case n.Approvals < 0 || n.Approvals > MaxApprovals:
		return fmt.Errorf("approvals: %d is not between 0 and %d", n.Approvals, MaxApprovals)
	case r.Refuse && (n.Approvals > 0 || r.By != nil):
		return fmt.Errorf("refuse excludes approvals, by and four_eyes")
	case r.By != nil && n.Approvals == 0:
		return fmt.Errorf("by names approvers, but the rule asks for no approvals")
	case r.By != nil && n.Approvals > len(members):
		return fmt.Errorf("%d persons must approve, and %d may", n.Approvals, len(members))
	case r.Refuse:
		n.Why = "the policy refuses it"
	}
	r.need = n
	return nil
}

// members returns the persons that the list by names, alone or by their group, sorted.
func (f *file) members(by []string) ([]string, error) {
	if by == nil {
		return nil, nil
	}
	var all []string
	err := checkList("by", by, func(s string) error {
		group, ok := strings.CutPrefix(s, "@")
		if !ok {
			all = append(all, s)
			return checkPerson(s)
		}
		if f.Groups[group] == nil {
			return fmt.Errorf("%.70q is not under [groups]", group)
		}
		all = append(all, f.Groups[group]...)
		return nil
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

func (q *request) check(f *file) error {
	if err := f.checkWhere(q.Kinds, q.Labels); err != nil {
		return err
	}
	if q.Roles == nil && q.People == nil {
		return fmt.Errorf("it says neither roles nor people")
	}
	err := checkOptional("roles", q.Roles, func(s string) error {
		if !slices.Contains([]string{"operator", "approver", "admin"}, s) {
			return fmt.Errorf("%.40q is no role that requests: want operator, approver or admin", s)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return checkOptional("people", q.People, func(s string) error {
		if len(s) > 255 || s == "" {
			return fmt.Errorf("a name has 1 to 255 bytes")
		}
		return nil
	})
}

// checkUser accepts numbers alone: what a name means is decided by a file that
// others write, in a container by the container.
func checkUser(s string) error {
	uid, gid, both := strings.Cut(s, ":")
	if !isNumber(uid) || both && !isNumber(gid) {
		return fmt.Errorf("%.40q is neither a uid nor uid:gid; user names are not allowed, because a file that others can change says what a name means", s)
	}
	return nil
}

func isNumber(s string) bool {
	return len(s) >= 1 && len(s) <= 10 && (s == "0" || s[0] != '0') && strings.Trim(s, "0123456789") == ""
}

func checkPath(s string) error {
	if !path.IsAbs(s) || path.Clean(s) != s || strings.ContainsRune(s, 0) {
		return fmt.Errorf("%.100q is no absolute path in its shortest form", s)
	}
	return nil
}
