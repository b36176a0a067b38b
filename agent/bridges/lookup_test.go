package bridges

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/network/names"
)

// files is a directory that every user of the machine reaches.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "names")
}

// TestNames: a network that has containers has a server of names. It knows the containers that
// run, and only containers of the network may ask it. Their file of resolvers says whether
// there is one.
func TestNames(t *testing.T) {
	cfg := Config{First: first, Mark: "test", Files: files(t), Names: true, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	inNetwork(t, func(t *testing.T) {
		b := New(cfg)
		if serves, err := b.Names(); err != nil || !serves {
			t.Errorf("with dnsmasq, names are served: %v, %v", serves, err)
		}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		nets := []queue.Network{b.First(), made("back", "10.213.62.0/24")}
		nets[1].IPv6 = netip.MustParsePrefix("fd62::/64")
		told, err := b.Resolver(nets[1])
		if err != nil {
			t.Error(err)
		}
		resolv := func(path, want string) {
			t.Helper()
			if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s says %q, %v, want %q", path, text, err, want)
			}
		}
		resolv(told, "nameserver 10.213.62.1\nsearch hostler\n")
		before, err := os.Stat(told)
		if err != nil {
			t.Error(err)
		}
		all := []containers.Named{
			{Name: "db", Network: "back", Address: netip.MustParseAddr("10.213.62.2"), Address6: netip.MustParseAddr("fd62::2"), Running: true},
			{Name: "idle", Network: "back", Address: netip.MustParseAddr("10.213.62.3")},
			{Name: "Not_DNS", Network: "back", Address: netip.MustParseAddr("10.213.62.4"), Running: true},
		}
		if failed, err := b.Apply(t.Context(), nets, nil, all); err != nil || len(failed) > 0 {
			t.Errorf("%v, %v", failed, err)
		}
		hosts := filepath.Join(filepath.Dir(told), "hosts")
		if text, err := os.ReadFile(hosts); err != nil || string(text) != "10.213.62.2 db.hostler db\nfd62::2 db.hostler db\n" {
			t.Errorf("the names are %q, %v", text, err)
		}
		rules := tool(t, "nft", "list", "ruleset")
		if !strings.Contains(rules, `iifname != "hstl-back" ip6 daddr fd62::1 tcp dport 53 drop`) || strings.Contains(rules, "hlt-first") {
			t.Errorf("the rules are\n%s", rules)
		}
		if failed, err := b.Apply(t.Context(), nets, nil, nil); err != nil || len(failed) > 0 {
			t.Errorf("%v, %v", failed, err)
		}
		if left := tool(t, "nft", "list", "tables"); strings.Contains(left, "hostler") {
			t.Errorf("without containers there is %s", left)
		}

		// Without the program, the network is used as before, and the same file names the
		// servers that the host asks.
		again := testBridges()
		again.lookup = lookup{dir: cfg.Files, wanted: true}
		if failed, err := again.Apply(t.Context(), nets, nil, all); err != nil || len(failed) > 0 {
			t.Errorf("%v, %v", failed, err)
		}
		if after, err := os.Stat(told); err != nil || !os.SameFile(before, after) {
			t.Errorf("what is mounted in containers is another file now: %v", err)
		}
		if text, err := os.ReadFile(told); err != nil || strings.Contains(string(text), "10.213.62.1") {
			t.Errorf("%s says %q, %v", told, text, err)
		}
		if err := again.Remove(t.Context(), nets[1]); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(told); !os.IsNotExist(err) {
			t.Errorf("of a network that is gone is left %s: %v", told, err)
		}
	})
}

// TestUnreachable: where the files of names cannot be read, a container is made without, and it
// is told why.
func TestUnreachable(t *testing.T) {
	dir := files(t)
	if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	inNetwork(t, func(t *testing.T) {
		b := New(Config{First: first, Mark: "test", Files: dir, Names: true})
		if path, err := b.Resolver(first); err != nil || path != "" {
			t.Errorf("a container has %q, %v", path, err)
		}
		web := containers.Named{Name: "web", Address: netip.MustParseAddr("10.213.60.2"), Running: true}
		if failed, err := b.Apply(t.Context(), []queue.Network{first}, nil, []containers.Named{web}); err != nil || len(failed) > 0 {
			t.Errorf("the network itself is not as it should be: %v, %v", failed, err)
		}
		if all := b.Unserved(nil).Changes(1); len(all) != 1 || !strings.Contains(all[0].Text, "chmod o+x") {
			t.Errorf("that names are not read is told as %v", all)
		}
		if failed, err := b.Apply(t.Context(), []queue.Network{first}, nil, nil); err != nil || len(failed) > 0 || len(b.Unserved(nil).Changes(1)) > 0 {
			t.Errorf("without containers something is wrong: %v, %v", failed, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWithoutNames: a host that lacks the program says so and does not tell the feature; one
// that is not to serve names says nothing, and its containers are told nothing.
func TestWithoutNames(t *testing.T) {
	dir := files(t)
	t.Setenv("PATH", t.TempDir())
	inNetwork(t, func(t *testing.T) {
		for _, wanted := range []bool{true, false} {
			b := New(Config{First: first, Mark: "test", Files: dir, Names: wanted})
			serves, err := b.Names()
			if serves || (err != nil) != wanted || wanted && !strings.Contains(err.Error(), names.Package) {
				t.Errorf("with names = %v, they are served: %v, %v", wanted, serves, err)
			}
			if path, err := b.Resolver(b.First()); err != nil || (path != "") != wanted {
				t.Errorf("with names = %v, a container has %q, %v", wanted, path, err)
			}
			if failed, err := b.Apply(t.Context(), []queue.Network{b.First()}, nil, []containers.Named{{Name: "web", Address: netip.MustParseAddr("10.213.60.2"), Running: true}}); err != nil || len(failed) > 0 {
				t.Errorf("with names = %v: %v, %v", wanted, failed, err)
			}
		}
	})
}

// TestUnserved: a network whose server does not stay alive is an alert until it is served, also
// over a start of the agent.
func TestUnserved(t *testing.T) {
	var now []names.Problem
	u := (*Bridges)(nil).Unserved(nil)
	u.problems = func() []names.Problem { return now }
	about := "network.names/hlt-br"
	step := func(u Unserved, want ...bool) {
		t.Helper()
		var got []bool
		for _, a := range u.Changes(1) {
			if a.ID != about {
				t.Errorf("the alert is %s", a.ID)
			}
			got = append(got, a.Raised)
			u.Told(a)
		}
		if !slices.Equal(got, want) {
			t.Errorf("alerts are raised: %v, want %v", got, want)
		}
	}
	step(u)
	now = []names.Problem{{Bridge: "hlt-br", Cause: "dnsmasq: address in use"}}
	if all := u.Changes(1); len(all) != 1 || !strings.Contains(all[0].Text, "address in use") {
		t.Errorf("the alerts are %v", all)
	}
	step(u, true)
	step(u)
	again := (*Bridges)(nil).Unserved([]string{"network.names/hlt-br", "sink.away"})
	again.problems = u.problems
	step(again)
	now = nil
	step(u, false)
	step((*Bridges)(nil).Unserved([]string{"network.names/hlt-br"}), false) // names are not wanted any more
	step(u)
	about, now = "network.dhcp/hlt-br", []names.Problem{{Bridge: "hlt-br", DHCP: true, Cause: "dnsmasq: address in use"}}
	step(u, true)
	step(u)
	now = nil
	step(u, false)
	step((*Bridges)(nil).Unserved([]string{"network.dhcp/hlt-br"}), false)
}
