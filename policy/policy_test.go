package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

// tight reserves destruction and, with it, everything by which it could be had.
const tight = `version = 1
[groups]
ops = ["alice", "bob", "carol"]
[labels]
prod = ["db-1", "edge-*"]
[[rule]]
kinds = ["host.run", "container.exec"]
users = ["65534:65534", "1000:1000"]
commands = ["/usr/bin/uptime", "/usr/bin/df"]
[[rule]]
kinds = ["host.push", "container.push", "host.pull"]
paths = ["/srv/drop"]
[[rule]]
kinds = ["container.start", "container.stop", "container.reset", "container.rename", "host.ping"]
[[rule]]
kinds = ["*"]
approvals = 2
by = ["@ops"]
`

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNeeds(t *testing.T) {
	p := parse(t, tight)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		spec protocol.Spec
		want string
	}{
		{"destroy", protocol.Spec{Kind: protocol.KindDestroy}, "the approvals of 2 different persons of alice, bob, carol"},
		{"start", protocol.Spec{Kind: protocol.KindStart}, "no approval"},
		{"stop at once, as stop", protocol.Spec{Kind: protocol.KindStopNow}, "no approval"},
		{"nobody's uptime", protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{User: "65534:65534", Argv: []string{"/usr/bin/uptime", "-p"}}}}, "no approval"},
		{"with a variable", nobodys(protocol.KindRun, nil, "LANG=C"), "the approvals of 2 different persons of alice, bob, carol"},
		{"with a library", nobodys(protocol.KindRun, nil, "LD_PRELOAD=/srv/drop/a.so"), "the approvals of 2 different persons of alice, bob, carol"},
		{"with a function of a shell", nobodys(protocol.KindExec, nil, "BASH_FUNC_echo%%=() { id; }"), "the approvals of 2 different persons of alice, bob, carol"},
		{"with a sealed variable", nobodys(protocol.KindRun, &protocol.Sealed{Sealed: []byte("x"), Names: []string{"BASH_ENV"}}), "the approvals of 2 different persons of alice, bob, carol"},
		{"with sealed variables without names", nobodys(protocol.KindRun, &protocol.Sealed{Sealed: []byte("x")}), "the approvals of 2 different persons of alice, bob, carol"},
		{"root's uptime", protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("/usr/bin/uptime")}, "the approvals of 2 different persons of alice, bob, carol"},
		{"uid 0", protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{User: "0", Argv: []string{"/usr/bin/uptime"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"a name", protocol.Spec{Kind: protocol.KindExec, Args: &protocol.CommandArgs{Process: protocol.Process{User: "nobody", Argv: []string{"/usr/bin/uptime"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"another group", protocol.Spec{Kind: protocol.KindExec, Args: &protocol.CommandArgs{Process: protocol.Process{User: "65534:0", Argv: []string{"/usr/bin/uptime"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"another spelling", protocol.Spec{Kind: protocol.KindExec, Args: &protocol.CommandArgs{Process: protocol.Process{User: "065534:65534", Argv: []string{"/usr/bin/uptime"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"another command", protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{User: "65534:65534", Argv: []string{"uptime"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"a file below", protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop/a/b"}, Mode: "0644"}}}, "no approval"},
		{"the directory itself", protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"a name in the directory", protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop"}, Name: "a"}}}, "no approval"},
		{"beside it", protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/dropped"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"out of it", protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop/../etc/shadow"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"a program that runs as root", protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop/a"}, Mode: "4755"}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"an archive", protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop/a"}, Archive: true}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"one of two", protocol.Spec{Kind: protocol.KindHostPull, Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop/a", "/etc/shadow"}}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"the whole directory", protocol.Spec{Kind: protocol.KindHostPull, Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop"}}}}, "no approval"},
		{"nothing", protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{}}}, "the approvals of 2 different persons of alice, bob, carol"},
		{"no files", protocol.Spec{Kind: protocol.KindHostPush}, "the approvals of 2 different persons of alice, bob, carol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := p.Needs(policy.Request{Host: "db-1", Spec: &c.spec}).String(); got != c.want {
				t.Errorf("needs %s, want %s", got, c.want)
			}
		})
	}
}

// nobodys is uptime as nobody, with variables.
func nobodys(k protocol.Kind, sealed *protocol.Sealed, env ...string) protocol.Spec {
	return protocol.Spec{Kind: k, Args: &protocol.CommandArgs{
		Process: protocol.Process{User: "65534:65534", Argv: []string{"/usr/bin/uptime"}, Env: env}, Secrets: protocol.Secrets{SecretEnv: sealed},
	}}
}

// TestVariables: a rule for commands fits requests that set the variables that it
// names, and no others.
func TestVariables(t *testing.T) {
	p := parse(t, "version = 1\n[[rule]]\nkinds = ['host.run']\nusers = ['65534:65534']\ncommands = ['/usr/bin/uptime']\nenv = ['LANG', 'TOKEN']\n[[rule]]\nkinds = ['*']\napprovals = 1")
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	sealed := func(names ...string) *protocol.Sealed {
		return &protocol.Sealed{Sealed: []byte("x"), Names: names}
	}
	for _, c := range []struct {
		name string
		spec protocol.Spec
		free bool
	}{
		{"none", nobodys(protocol.KindRun, nil), true},
		{"a named one", nobodys(protocol.KindRun, nil, "LANG=C"), true},
		{"one whose value has a sign", nobodys(protocol.KindRun, nil, "LANG=a=b"), true},
		{"both, one of them sealed", nobodys(protocol.KindRun, sealed("TOKEN"), "LANG=C"), true},
		{"one more", nobodys(protocol.KindRun, nil, "LANG=C", "LANGUAGE=x"), false},
		{"another case", nobodys(protocol.KindRun, nil, "lang=C"), false},
		{"one more, sealed", nobodys(protocol.KindRun, sealed("LD_PRELOAD", "TOKEN"), "LANG=C"), false},
		{"sealed ones without names", nobodys(protocol.KindRun, sealed()), false},
	} {
		if n := p.Needs(policy.Request{Host: "db-1", Spec: &c.spec}); n.None() != c.free {
			t.Errorf("%s: %s", c.name, n)
		}
	}
}

// TestLabels are those of the policy: a host has the ones it is named under.
func TestLabels(t *testing.T) {
	p := parse(t, "version = 1\n[labels]\nprod = ['db-1', 'edge-*']\n[[rule]]\nkinds = ['*']\nlabels = ['prod']\napprovals = 1\n")
	for host, reserved := range map[protocol.HostID]bool{"db-1": true, "db-10": false, "edge-7": true, "edge": false, "lab-1": false} {
		n := p.Needs(policy.Request{Host: host, Spec: &protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("a")}})
		if n.None() == reserved {
			t.Errorf("%s: %s", host, n)
		}
	}
}

// TestWhoRequests: who may ask is refused for, and never makes anything cheaper.
func TestWhoRequests(t *testing.T) {
	p := parse(t, tight+"[[request]]\nkinds = ['container.destroy']\nroles = ['admin']\npeople = ['alice']\n")
	destroy := &protocol.Spec{Kind: protocol.KindDestroy}
	for _, c := range []struct {
		requester, role string
		refused         bool
	}{{"alice", "", false}, {"alice", "operator", false}, {"bob", "admin", false}, {"bob", "operator", true}, {"bob", "", false}} {
		n := p.Needs(policy.Request{Host: "db-1", Spec: destroy, Requester: c.requester, Role: c.role})
		if n.Refused != c.refused || !n.Refused && n.Approvals != 2 {
			t.Errorf("%+v: %s", c, n)
		}
	}
	p = parse(t, tight+"[[request]]\nkinds = ['container.destroy']\npeople = ['alice']\n")
	if n := p.Needs(policy.Request{Host: "db-1", Spec: destroy, Requester: "bob"}); !n.Refused {
		t.Errorf("bob: %s", n)
	}
}

func TestParseRefuses(t *testing.T) {
	rule := "version = 1\n[groups]\nops = ['a', 'b']\n[labels]\nlab = ['x-*']\n[[rule]]\n"
	for name, text := range map[string]string{
		"no version":           "",
		"another version":      "version = 2",
		"no TOML":              "version = ",
		"unknown member":       "version = 1\nallow = true",
		"member in upper case": "version = 1\nAllow_Bypass = true",
		"rule in upper case":   rule + "Kinds = ['*']",
		"unknown in a rule":    rule + "kinds = ['*']\nkind = 'a'",
		"no kinds":             rule + "approvals = 1",
		"empty kinds":          rule + "kinds = []",
		"unknown kind":         rule + "kinds = ['container.destory']",
		"unknown family":       rule + "kinds = ['containers.*']",
		"part of a word":       rule + "kinds = ['container.de*']",
		"stop-now by name":     rule + "kinds = ['container.stop-now']\napprovals = 1",
		"unknown label":        rule + "kinds = ['*']\nlabels = ['prod']",
		"empty labels":         rule + "kinds = ['*']\nlabels = []",
		"user by name":         rule + "kinds = ['host.run']\nusers = ['nobody']",
		"user in octal":        rule + "kinds = ['host.run']\nusers = ['01']",
		"users of a start":     rule + "kinds = ['container.start']\nusers = ['1']",
		"users of all":         rule + "kinds = ['*']\nusers = ['1']",
		"commands of a push":   rule + "kinds = ['host.push']\ncommands = ['/bin/a']",
		"command by name":      rule + "kinds = ['host.run']\ncommands = ['uptime']",
		"variables of a push":  rule + "kinds = ['host.push']\nenv = ['LANG']",
		"variables alone":      rule + "kinds = ['host.run']\nusers = ['1:1']\nenv = ['LANG']",
		"no variables":         rule + "kinds = ['host.run']\ncommands = ['/bin/a']\nenv = []",
		"variable twice":       rule + "kinds = ['host.run']\ncommands = ['/bin/a']\nenv = ['A', 'A']",
		"variable and value":   rule + "kinds = ['host.run']\ncommands = ['/bin/a']\nenv = ['LANG=C']",
		"many variables":       rule + "kinds = ['host.run']\ncommands = ['/bin/a']\nenv = ['LC_*']",
		"variable of a loader": rule + "kinds = ['host.run']\ncommands = ['/bin/a']\nenv = ['LD_PRELOAD']",
		"variable of a shell":  rule + "kinds = ['host.run']\ncommands = ['/bin/a']\nenv = ['LANG', 'BASH_ENV']",
		"function of a shell":  rule + "kinds = ['host.run']\ncommands = ['/bin/a']\nenv = ['BASH_FUNC_ls%%']",
		"paths of a run":       rule + "kinds = ['host.run']\npaths = ['/srv']",
		"relative path":        rule + "kinds = ['host.push']\npaths = ['srv']",
		"path with dots":       rule + "kinds = ['host.push']\npaths = ['/srv/../etc']",
		"too many approvals":   rule + "kinds = ['*']\napprovals = 9",
		"fewer than none":      rule + "kinds = ['*']\napprovals = -1",
		"more than there are":  rule + "kinds = ['*']\napprovals = 3\nby = ['@ops']",
		"one person twice":     rule + "kinds = ['*']\napprovals = 3\nby = ['@ops', 'a']",
		"four eyes of one":     rule + "kinds = ['*']\nfour_eyes = true\nby = ['a']",
		"by without approvals": rule + "kinds = ['*']\nby = ['a']",
		"unknown group":        rule + "kinds = ['*']\napprovals = 1\nby = ['@sec']",
		"no person":            rule + "kinds = ['*']\napprovals = 1\nby = ['A']",
		"refuse with by":       rule + "kinds = ['*']\nrefuse = true\napprovals = 1",
		"empty group":          "version = 1\n[groups]\nops = []",
		"label of no host":     "version = 1\n[labels]\nlab = ['A']",
		"request of nobody":    "version = 1\n[[request]]\nkinds = ['*']",
		"request of a viewer":  "version = 1\n[[request]]\nkinds = ['*']\nroles = ['viewer']",
		"too long":             "version = 1\n#" + strings.Repeat("x", policy.MaxText),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := policy.Parse("policy", []byte(text)); err == nil {
				t.Error("it is taken")
			} else if !strings.HasPrefix(err.Error(), "policy:") {
				t.Errorf("the error does not say of what: %s", err)
			}
		})
	}
}

// TestEveryHoleIsRefused reserves one kind and leaves one way around it open at a
// time. Each is refused, and the list names it.
func TestEveryHoleIsRefused(t *testing.T) {
	const reserve = "[[rule]]\nkinds = ['*']\napprovals = 1\n"
	ways := map[string]struct{ rule, kind string }{
		"exec as uid 0":                   {"kinds = ['container.exec']\nusers = ['0']", "container.exec"},
		"exec as uid 0 among others":      {"kinds = ['container.exec']\nusers = ['1000:1000', '0:0']", "container.exec"},
		"exec with unsaid groups":         {"kinds = ['container.exec']\nusers = ['1000']", "container.exec"},
		"run with unsaid groups":          {"kinds = ['host.run']\nusers = ['1000:1000', '1000']", "host.run"},
		"attach with unsaid groups":       {"kinds = ['host.attach']\nusers = ['65534']", "host.attach"},
		"exec of group 0":                 {"kinds = ['container.exec']\nusers = ['1000:0']", "container.exec"},
		"exec as anybody":                 {"kinds = ['container.exec']", "container.exec"},
		"exec of one command":             {"kinds = ['container.exec']\ncommands = ['/bin/true']", "container.exec"},
		"run as uid 0":                    {"kinds = ['host.run']\nusers = ['0']", "host.run"},
		"run of one command":              {"kinds = ['host.run']\ncommands = ['/usr/bin/uptime']", "host.run"},
		"run as anybody":                  {"kinds = ['host.run']", "host.run"},
		"attach as root":                  {"kinds = ['host.attach']\nusers = ['0']", "host.attach"},
		"attach as anybody":               {"kinds = ['host.attach']", "host.attach"},
		"attach to a container as root":   {"kinds = ['container.attach']", "container.attach"},
		"push anywhere":                   {"kinds = ['host.push']", "host.push"},
		"push to the root":                {"kinds = ['host.push']\npaths = ['/']", "host.push"},
		"push beside the policy":          {"kinds = ['host.push']\npaths = ['/etc/hostler']", "host.push"},
		"push among containers":           {"kinds = ['host.push']\npaths = ['/srv', '/var/lib/lxc/db']", "host.push"},
		"push above them":                 {"kinds = ['host.push']\npaths = ['/var']", "host.push"},
		"push into a container":           {"kinds = ['container.push']", "container.push"},
		"pull of the host's key":          {"kinds = ['host.pull']\npaths = ['/var/lib/hostler']", "host.pull"},
		"pull out of a container":         {"kinds = ['container.pull']", "container.pull"},
		"privileged containers, mounts":   {"kinds = ['container.create']", "container.create"},
		"clones of them":                  {"kinds = ['container.clone']", "container.clone"},
		"hooks and raw keys":              {"kinds = ['container.config']", "container.config"},
		"settings of containers":          {"kinds = ['container.set']", "container.set"},
		"unsigned imports":                {"kinds = ['image.import-unsigned']", "image.import-unsigned"},
		"unsigned imports by an old name": {"kinds = ['template.import']\napprovals = 1\n[[rule]]\nkinds = ['image.import-unsigned']", "image.import-unsigned"},
		"all files of a container":        {"kinds = ['container.promote', 'image.export']", "image.export"},
		"builds":                          {"kinds = ['template.build']", "template.build"},
		"restored backups":                {"kinds = ['backup.restore']", "backup.restore"},
		"the policy":                      {"kinds = ['policy.set']", "policy.set"},
		"the agent's update":              {"kinds = ['host.upgrade']", "host.upgrade"},
		"the agent's state":               {"kinds = ['agent.restore']", "agent.restore"},
		"the network":                     {"kinds = ['network.rebuild']", "network.rebuild"},
		"a family":                        {"kinds = ['container.*']", "container.exec"},
		"everything else":                 {"kinds = ['container.destroy']\napprovals = 2", "host.run"},
		"typing what is run":              {"kinds = ['host.attach']\nusers = ['1000:1000']", "host.attach"},
		"typing what is executed":         {"kinds = ['container.attach']\nusers = ['1000:1000']\ncommands = ['/bin/sh']", "container.attach"},
		"typing another command":          {"kinds = ['host.run']\nusers = ['1000:1000']\ncommands = ['/bin/true']\n[[rule]]\nkinds = ['host.attach']\nusers = ['1000:1000']", "host.attach"},
		"a command with variables":        {"kinds = ['host.run']\nusers = ['1:1']\ncommands = ['/bin/a']\napprovals = 1\n[[rule]]\nkinds = ['host.run']\nusers = ['1:1']", "host.run"},
		"a refused one with variables":    {"kinds = ['host.run']\nusers = ['1:1']\ncommands = ['/bin/a']\nrefuse = true", "host.run"},
		"a command with one more":         {"kinds = ['container.exec']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['A']\napprovals = 1\n[[rule]]\nkinds = ['container.exec']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['A', 'B']", "container.exec"},
		"a session with variables":        {"kinds = ['host.attach']\nusers = ['1:1']\ncommands = ['/bin/a']\napprovals = 1\n[[rule]]\nkinds = ['host.run', 'host.attach']\nusers = ['1:1']", "host.attach"},
		"typing with more variables":      {"kinds = ['host.run']\nusers = ['1:1']\ncommands = ['/bin/a']\n[[rule]]\nkinds = ['host.attach']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['TERM']", "host.attach"},
		"typing with other variables":     {"kinds = ['host.run']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['LANG']\n[[rule]]\nkinds = ['host.attach']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['LANG', 'TERM']", "host.attach"},
		"root beside what is refused":     {"kinds = ['container.create']\nrefuse = true\n[[rule]]\nkinds = ['host.run']", "host.run"},
		"stop, refused, by destroy":       {"kinds = ['container.stop']\nrefuse = true", "container.destroy"},
		"typing what is refused":          {"kinds = ['host.run']\nusers = ['1:1']\nrefuse = true\n[[rule]]\nkinds = ['host.attach']\nusers = ['1:1']\napprovals = 1", "host.attach"},
		"start by reset":                  {"kinds = ['container.reset']", "container.reset"},
		"push below an ostree":            {"kinds = ['host.push']\npaths = ['/sysroot']", "host.push"},
		"push into its deployments":       {"kinds = ['host.push']\npaths = ['/ostree/deploy']", "host.push"},
		"push home of its root":           {"kinds = ['host.push']\npaths = ['/var/roothome']", "host.push"},
		"push to people":                  {"kinds = ['host.push']\npaths = ['/var/home/ann']", "host.push"},
		"push to its programs":            {"kinds = ['host.push']\npaths = ['/var/opt', '/var/usrlocal']", "host.push"},
		"push what boots":                 {"kinds = ['host.push']\npaths = ['/efi']", "host.push"},
		"push into a store":               {"kinds = ['host.push']\npaths = ['/nix/store']", "host.push"},
		"push into another store":         {"kinds = ['host.push']\npaths = ['/gnu/store']", "host.push"},
		"stop by destroy":                 {"kinds = ['container.destroy']", "container.destroy"},
		"on some hosts":                   {"kinds = ['host.run']\nlabels = ['lab']", "host.run"},
		"other persons":                   {"kinds = ['host.run']\napprovals = 1\nby = ['bob']", "container.exec"},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			text := "version = 1\n[labels]\nlab = ['lab-*']\n[[rule]]\n" + way.rule + "\n" + reserve
			err := parse(t, text).Check()
			var holes *policy.HolesError
			if !errors.As(err, &holes) {
				t.Fatalf("it is taken: %v", err)
			}
			if !slices.ContainsFunc(holes.Holes, func(h policy.Hole) bool { return string(h.Kind) == way.kind }) {
				t.Errorf("the list does not name it: %s", err)
			}
			if err := parse(t, "allow_bypass = true\n"+text).Check(); err != nil {
				t.Errorf("it is not accepted loudly: %s", err)
			}
		})
	}
	t.Run("nothing said of the rest", func(t *testing.T) {
		var holes *policy.HolesError
		if err := parse(t, "version = 1\n[[rule]]\nkinds = ['container.destroy']\napprovals = 1\n").Check(); !errors.As(err, &holes) {
			t.Fatal("it is taken")
		}
		for _, k := range protocol.Kinds() {
			info, _ := protocol.KindOf(k)
			if found := slices.ContainsFunc(holes.Holes, func(h policy.Hole) bool { return h.Kind == k }); found != info.RootEquivalent {
				t.Errorf("%s: in the list %t, gives root %t", k, found, info.RootEquivalent)
			}
		}
	})
}

// TestNoHoles: policies that hold what they reserve are taken.
func TestNoHoles(t *testing.T) {
	for name, text := range map[string]string{
		"nothing reserved":   "version = 1",
		"everything":         "version = 1\n[[rule]]\nkinds = ['*']\napprovals = 1",
		"tight":              strings.Replace(tight, `"container.stop", `, "", 1),
		"typed as it is run": "version = 1\n[[rule]]\nkinds = ['host.run', 'host.attach']\nusers = ['1000:1000']\n[[rule]]\nkinds = ['*']\nfour_eyes = true",
		"typed as the same":  "version = 1\n[[rule]]\nkinds = ['host.run', 'host.attach']\nusers = ['1000:1000']\ncommands = ['/bin/top']\n[[rule]]\nkinds = ['*']\nfour_eyes = true",
		"typed by as many":   "version = 1\n[[rule]]\nkinds = ['host.attach']\nusers = ['1000:1000']\napprovals = 2\n[[rule]]\nkinds = ['*']\napprovals = 2",
		"a session of one who has sessions before": "version = 1\n[[rule]]\nkinds = ['host.run']\nusers = ['7:7']\n[[rule]]\nkinds = ['host.attach']\nusers = ['1:1']\napprovals = 2\n[[rule]]\nkinds = ['host.attach']\nusers = ['1:1', '7:7']\n[[rule]]\nkinds = ['*']\napprovals = 2",
		"no sessions":                                   "version = 1\n[[rule]]\nkinds = ['host.attach', 'container.attach']\nrefuse = true\n[[rule]]\nkinds = ['*']\napprovals = 2",
		"no sessions, and one for ping":                 "version = 1\n[[rule]]\nkinds = ['host.ping']\n[[rule]]\nkinds = ['host.run']\nusers = ['1:1']\ncommands = ['/bin/a']\n[[rule]]\nkinds = ['host.attach', 'container.attach']\nrefuse = true\n[[rule]]\nkinds = ['*']\napprovals = 1\nby = ['a', 'b']",
		"no sessions anywhere, and approvals somewhere": "version = 1\n[labels]\nprod = ['db-*']\n[[rule]]\nkinds = ['host.attach', 'container.attach']\nlabels = ['prod']\nrefuse = true\n[[rule]]\nkinds = ['*']\nlabels = ['prod']\napprovals = 1",
		"variables for both":                            "version = 1\n[[rule]]\nkinds = ['host.run', 'host.attach']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['TERM', 'LANG']\n[[rule]]\nkinds = ['*']\napprovals = 2",
		"fewer variables typed":                         "version = 1\n[[rule]]\nkinds = ['host.run']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['TERM', 'LANG']\n[[rule]]\nkinds = ['host.attach']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['TERM']\n[[rule]]\nkinds = ['*']\napprovals = 2",
		"dearer with variables":                         "version = 1\n[[rule]]\nkinds = ['host.run']\nusers = ['1:1']\ncommands = ['/bin/a']\n[[rule]]\nkinds = ['host.run']\nusers = ['1:1']\ncommands = ['/bin/a']\nenv = ['A']\napprovals = 1\n[[rule]]\nkinds = ['*']\napprovals = 2",
		"narrowed":                                      "version = 1\n[[rule]]\nkinds = ['container.exec']\nusers = ['1000:1000']\n[[rule]]\nkinds = ['*']\nfour_eyes = true",
		"drop box":                                      "version = 1\n[[rule]]\nkinds = ['host.push', 'host.pull']\npaths = ['/srv/drop']\n[[rule]]\nkinds = ['*']\nrefuse = true",
		"on some hosts":                                 "version = 1\n[labels]\nprod = ['db-*']\n[[rule]]\nkinds = ['*']\nlabels = ['prod']\napprovals = 1",
		"others cost more":                              "version = 1\n[[rule]]\nkinds = ['container.destroy']\napprovals = 1\n[[rule]]\nkinds = ['host.ping', 'container.start', 'container.stop', 'container.reset']\n[[rule]]\nkinds = ['*']\napprovals = 2",
	} {
		if err := parse(t, text).Check(); err != nil {
			t.Errorf("%s: %s", name, err)
		}
	}
}

// TestPowersAreComplete holds the table of ways to root against that of kinds.
func TestPowersAreComplete(t *testing.T) {
	for _, k := range protocol.Kinds() {
		info, _ := protocol.KindOf(k)
		if info.RootEquivalent != policy.GivesRoot(k) {
			t.Errorf("%s: root-equivalent %t in the table of kinds, %t in that of powers: a kind by which one becomes root stands in both", k, info.RootEquivalent, policy.GivesRoot(k))
		}
	}
}

// TestGuarding: where an agent keeps its own files is vital on its host, and in no
// container.
func TestGuarding(t *testing.T) {
	const text = "version = 1\n[[rule]]\nkinds = ['%s']\npaths = ['%s']\n[[rule]]\nkinds = ['*']\napprovals = 1\n"
	own := []string{"/srv/agent/state", "/data/policy.toml"}
	for _, c := range []struct {
		kind, path string
		hole       bool
	}{
		{"host.push", "/srv/agent/state", true},
		{"host.pull", "/srv/agent/state/keys", true},
		{"host.push", "/srv", true},
		{"host.push", "/data", true},
		{"host.push", "/srv/agent/drop", false},
		{"host.push", "/data/policy.toml.d", false},
		{"container.push", "/srv", false},
	} {
		p := parse(t, fmt.Sprintf(text, c.kind, c.path))
		if err := p.Guarding(own...).Check("edge-01"); (err != nil) != c.hole {
			t.Errorf("%s to %s: %v", c.kind, c.path, err)
		}
		if err := p.Check("edge-01"); err != nil {
			t.Errorf("%s to %s elsewhere: %v", c.kind, c.path, err)
		}
	}
}

// TestClosureHolds looks for a way around what a policy reserves by trying: of
// a policy that is taken, whoever gets anything that gives root has what every
// kind needs.
func TestClosureHolds(t *testing.T) {
	kinds := []string{"host.run", "host.attach", "container.exec", "container.destroy", "container.create", "policy.set", "host.*", "container.*", "*"}
	rapid.Check(t, func(t *rapid.T) {
		text := "version = 1\n[labels]\nx = ['a', 'b-*']\n"
		for range rapid.IntRange(1, 5).Draw(t, "rules") {
			k := rapid.SampledFrom(kinds).Draw(t, "kind")
			text += "[[rule]]\nkinds = ['" + k + "']\n"
			if rapid.Bool().Draw(t, "label") {
				text += "labels = ['x']\n"
			}
			if k == "host.run" || k == "host.attach" || k == "container.exec" {
				text += rapid.SampledFrom([]string{"", "users = ['0']\n", "users = ['7']\n", "users = ['7:7']\n", "commands = ['/c']\n", "users = ['7:7', '8:8']\ncommands = ['/c', '/d']\n", "users = ['8:8']\ncommands = ['/d']\n", "users = ['7:7']\ncommands = ['/c']\nenv = ['A']\n", "users = ['7:7', '8:8']\ncommands = ['/c', '/d']\nenv = ['B', 'A']\n"}).Draw(t, "condition")
			}
			text += rapid.SampledFrom([]string{"", "approvals = 1\n", "approvals = 2\n", "approvals = 1\nby = ['a', 'b']\n", "approvals = 2\nby = ['a', 'b', 'c']\n", "refuse = true\n"}).Draw(t, "need")
		}
		p, err := policy.Parse("policy", []byte(text))
		if err != nil {
			t.Fatalf("%s\n%s", err, text)
		}
		if p.Check() != nil {
			return
		}
		host := rapid.SampledFrom([]protocol.HostID{"a", "b-1", "c"}).Draw(t, "host")
		spec := func(k protocol.Kind, user, command string, env ...string) policy.Request {
			return policy.Request{Host: host, Spec: &protocol.Spec{Kind: k, Args: &protocol.CommandArgs{Process: protocol.Process{User: user, Argv: []string{command}, Env: env}}}}
		}
		have := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4).Draw(t, "persons")
		met := func(n policy.Need) bool { return !n.Refused && n.Missing(have...) == 0 }
		root := spec(rapid.SampledFrom([]protocol.Kind{protocol.KindRun, protocol.KindExec, protocol.KindCreate, protocol.KindPolicySet}).Draw(t, "power"),
			rapid.SampledFrom([]string{"", "0", "root", "0:0", "app"}).Draw(t, "user"), rapid.SampledFrom([]string{"/c", "/d", "/e"}).Draw(t, "command"))
		user := rapid.SampledFrom([]string{"7:7", "8:8", "9:9"}).Draw(t, "user of a session")
		for _, command := range []string{"/c", "/d", "/e"} {
			env := rapid.SampledFrom([][]string{nil, {"A="}, {"B="}, {"A=", "B="}, {"C="}, {"A=", "C="}}).Draw(t, "env")
			run := p.Needs(spec(protocol.KindRun, user, command, env...))
			if typed := p.Needs(spec(protocol.KindAttach, user, command, env...)); met(typed) && !met(run) {
				t.Fatalf("%v may type what %s runs as %s with %v on %s, and not run it:\n%s", have, command, user, env, host, text)
			}
			for _, more := range []string{"A=", "B=", "C="} {
				if with := p.Needs(spec(protocol.KindRun, user, command, append(slices.Clone(env), more)...)); met(with) && !met(run) {
					t.Fatalf("%v may run %s as %s with %v and %s on %s, and not without that:\n%s", have, command, user, env, more, host, text)
				}
			}
		}
		way := p.Needs(root)
		if !met(way) {
			return
		}
		for _, k := range protocol.Kinds() {
			// What is refused costs whoever becomes root an approval, at least.
			if n := p.Needs(spec(k, "0", "/x")); !met(n) && !(n.Refused && way.Approvals > 0) {
				t.Fatalf("%v get %s on %s, and with it %s, which needs %s:\n%s", have, root.Spec.Kind, host, k, n, text)
			}
		}
	})
}

// TestMissingCountsPersons: twice the same is one.
func TestMissingCountsPersons(t *testing.T) {
	n := policy.Need{Approvals: 2, By: []string{"alice", "bob"}}
	for _, c := range []struct {
		have []string
		want int
	}{{nil, 2}, {[]string{"alice", "alice"}, 1}, {[]string{"alice", "mallory"}, 1}, {[]string{"bob", "alice"}, 0}, {[]string{""}, 2}} {
		if got := n.Missing(c.have...); got != c.want {
			t.Errorf("%v: %d missing, want %d", c.have, got, c.want)
		}
	}
}

// TestClosed refuses everything, with the reason.
func TestClosed(t *testing.T) {
	p := policy.Closed(errors.New("it is broken"))
	for _, k := range policy.Kinds() {
		if n := p.Needs(policy.Request{Host: "a", Spec: &protocol.Spec{Kind: k}}); !n.Refused || n.String() != "it is broken" {
			t.Errorf("%s: %s", k, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(tight))
	f.Add([]byte("version = 1\n[[rule]]\nkinds = ['container.*']\nrefuse = true\n[[request]]\nkinds = ['*']\nroles = ['admin']"))
	f.Add([]byte("version = 1\n[[rule]]\nkinds = ['host.run', 'host.attach']\nusers = ['1:1']\ncommands = ['/a']\nenv = ['TERM', 'LANG']\n[[rule]]\nkinds = ['container.attach']\nrefuse = true\n[[rule]]\nkinds = ['*']\napprovals = 1"))
	f.Add([]byte("version = 1\nallow_bypass = true\n[labels]\nx = ['*', 'a-*']\n[[rule]]\nkinds = ['host.push']\npaths = ['/']"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 8<<10 {
			return
		}
		p, err := policy.Parse("policy", text)
		if err != nil {
			return
		}
		if p.Digest() != protocol.Sum(text) {
			t.Error("it has another digest")
		}
		err = p.Check()
		if err == nil && !p.Bypass() {
			// What is taken lets nobody become root who could not have everything.
			for _, h := range []protocol.HostID{"a", "db-1"} {
				run := p.Needs(policy.Request{Host: h, Spec: &protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{User: "0", Argv: []string{"/a"}}}}})
				for _, k := range protocol.Kinds() {
					n := p.Needs(policy.Request{Host: h, Spec: &protocol.Spec{Kind: k}})
					if !run.Refused && run.Approvals == 0 && !n.None() && len(p.Requests()) == 0 {
						t.Errorf("root on %s is free, and %s needs %s: %s", h, k, n, text)
					}
				}
			}
		}
		_ = fmt.Sprint(err)
	})
}

// TestHolesSayWhere: each hole names the rule that grants it, and its line.
func TestHolesSayWhere(t *testing.T) {
	for text, want := range map[string]int{
		"version = 1\n# [[rule]]\n\n[[ rule ]] # cheap\nkinds = [\"host.run\"]\n[[rule]]\nkinds = [\"*\"]\napprovals = 2\n": 4,
		"version = 1\nrule = [{kinds = [\"host.run\"]}, {kinds = [\"*\"], approvals = 2}]\n":                                0,
	} {
		p, err := policy.Parse("test", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		holes := p.Holes()
		if len(holes) != 1 || holes[0].Kind != protocol.KindRun || holes[0].Rule != 1 || holes[0].Line != want {
			t.Errorf("%s\nhas the holes %+v, want one of rule 1 on line %d", text, holes, want)
		}
		if said := "(rule 1, line 4)"; want > 0 && !strings.Contains(holes[0].String(), said) {
			t.Errorf("it is told as %q, want %q", holes[0], said)
		}
	}
}
