package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

const closedFile = "version = 1\n[[rule]]\nkinds = ['*']\napprovals = 1\n"

func runs(p *policy.Policy) policy.Need {
	return p.Needs(policy.Request{Host: "edge-01", Spec: &protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("a")}})
}

// TestLocalPolicy reads root's file, and lets nobody do anything if it cannot be
// used: a file with a mistake must not be as good as none.
func TestLocalPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	if p, err := localPolicy(path, "edge-01", nil); p != nil || err != nil {
		t.Errorf("without a file: %v, %v", p, err)
	}
	put := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	put(closedFile, 0o644)
	if p, err := localPolicy(path, "edge-01", nil); err != nil || runs(p).Approvals != 1 {
		t.Errorf("a good one: %v", err)
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"others may write it": {closedFile, 0o666, "may be written by others"},
		"a group may":         {closedFile, 0o664, "may be written by others"},
		"no policy":           {"version = 2", 0o644, "version 1 alone"},
		"empty":               {"", 0o644, "version 1 alone"},
		"holes":               {"version = 1\n[[rule]]\nkinds = ['container.destroy']\napprovals = 1\n", 0o644, "can be bypassed"},
		"too long":            {"version = 1\n#" + strings.Repeat("x", policy.MaxText), 0o644, path},
	} {
		put(c.text, c.mode)
		p, err := localPolicy(path, "edge-01", nil)
		if err == nil || !strings.Contains(err.Error(), c.says) || p == nil || !runs(p).Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	put(closedFile, 0o644)
	if err := os.Chmod(filepath.Dir(path), 0o775); err != nil {
		t.Fatal(err)
	}
	if p, err := localPolicy(path, "edge-01", nil); !errors.Is(err, durable.ErrOpen) || !runs(p).Refused {
		t.Errorf("where a group may put another one: %v", err)
	}
}

// TestOwnFilesAreVital: a policy that opens what this agent is configured to keep, or
// that a link in its configuration leads to, has a hole.
func TestOwnFilesAreVital(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/disk", 0o755), os.Symlink(dir+"/disk", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	file := dir + "/agent.toml"
	if err := os.WriteFile(file, []byte("state_dir = '/srv/agent'\npolicy = '"+dir+"/link/policy.toml'\n[lxc]\npath = '/data/lxc'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, hole := range map[string]bool{
		"/srv/agent/keys": true, "/data/lxc/db": true, dir + "/link": true, dir + "/disk": true, file: true, "/srv/drop": false, "/data/drop": false, dir + "/drop": false,
	} {
		text := "version = 1\n[[rule]]\nkinds = ['host.push']\npaths = ['" + path + "']\n[[rule]]\nkinds = ['*']\napprovals = 1\n"
		if err := os.WriteFile(c.Policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := localPolicy(c.Policy, "edge-01", c.own()); (err != nil) != hole {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestPolicyOutlivesLeave: a host that leaves, and is made to join again, has its
// policy and the newest date still; another fleet has its own.
func TestPolicyOutlivesLeave(t *testing.T) {
	s := state(t.TempDir())
	ours, others := protocol.FleetID{1}, protocol.FleetID{2}
	want := rights.Record{Number: 7, Text: []byte(closedFile), FloorMS: 1234, SinceMS: 5, Store: protocol.StoreID{1}}
	if err := errors.Join(s.keep(join.Record{Host: "edge-01"}), s.keepPolicy(ours, want), s.forget()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.record(); err == nil {
		t.Fatal("it is a member still")
	}
	var p rights.Policies
	s.loadPolicies(ours, &p)
	if p.Kept.Number != 7 || p.Kept.FloorMS != 1234 || !bytes.Equal(p.Kept.Text, want.Text) || p.Local != nil || p.Kept.Store != want.Store {
		t.Errorf("kept is %+v", p.Kept)
	}
	var q rights.Policies
	s.loadPolicies(others, &q)
	if q.Kept.Number != 0 || q.Local != nil {
		t.Errorf("another fleet has %+v", q.Kept)
	}
}

// TestDamagedPolicyIsNotNone turns bits of what is kept: the host lets nobody do
// anything until root has decided.
func TestDamagedPolicyIsNotNone(t *testing.T) {
	s := state(t.TempDir())
	fleet := protocol.FleetID{1}
	if err := s.keepPolicy(fleet, rights.Record{Number: 7, Text: []byte(closedFile), FloorMS: 1}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(s.policy(fleet))
	if err != nil {
		t.Fatal(err)
	}
	for bit := 0; bit < 8*len(raw); bit += 3 {
		raw[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(s.policy(fleet), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var p rights.Policies
		s.loadPolicies(fleet, &p)
		if p.Local == nil || p.Broken == nil || !runs(p.Local).Refused {
			t.Fatalf("bit %d turned: %+v", bit, p)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

// TestPolicyCommands types what root types.
func TestPolicyCommands(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := file("agent.toml", "host = 'edge-01'\nstate_dir = '"+dir+"/state'\npolicy = '"+dir+"/policy.toml'\n")
	do := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := program(context.Background(), append([]string{"--config", config}, args...), strings.NewReader(""), &out, &errs)
		return code, out.String() + errs.String()
	}
	good, holes := file("good.toml", closedFile), file("holes.toml", "version = 1\n[labels]\nprod = ['db-*']\n[[rule]]\nkinds = ['container.destroy']\nlabels = ['prod']\napprovals = 1\n")
	bypass := file("bypass.toml", "version = 1\nallow_bypass = true\n[[rule]]\nkinds = ['container.destroy']\napprovals = 1\n")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"policy", "check", good}, 0, "can be put into force"},
		{[]string{"policy", "check", holes}, 1, "host.run needs no approval"},
		{[]string{"policy", "check", holes, "--host", "lab-1"}, 0, "can be put into force"},
		{[]string{"policy", "check", holes, "--host", "A"}, 2, "--host"},
		{[]string{"policy", "check", bypass}, 0, "it can be bypassed in"},
		{[]string{"policy", "check", dir + "/none"}, 1, "no such file"},
		{[]string{"policy", "check"}, 2, "takes 1 argument, got none"},
		{[]string{"policy"}, 2, "check or show"},
		{[]string{"policy", "show"}, 0, "# built in"},
	} {
		if code, said := do(c.args...); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%v: exit code %d, %q; want %d, %q", c.args, code, said, c.code, c.says)
		}
	}
	file("policy.toml", closedFile)
	if code, said := do("policy", "show"); code != 0 || !strings.Contains(said, "root") || !strings.HasSuffix(said, closedFile) {
		t.Errorf("show: exit code %d, %q", code, said)
	}
}
