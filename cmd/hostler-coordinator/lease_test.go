package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/fence"
)

// TestUnsafeTimesAreRefused: the program does not start with times under which a host may
// still run what another host is to start.
func TestUnsafeTimesAreRefused(t *testing.T) {
	p := newProgram(t, 1)
	text, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string]string{
		"takeover_seconds = 90\n":                          "use at least 1m58s",
		"takeover_seconds = 117\n":                         "use at least 1m58s",
		"ttl_seconds = 120\ntakeover_seconds = 118\n":      "use at least 2m28s",
		"drift_permille = 100\ntakeover_seconds = 118\n":   "use at least 2m16s",
		"takeover_seconds = 118\nkill_seconds = 3000000\n": "lease.kill",
	} {
		p.write(p.config, string(text)+"[lease]\n"+more)
		var said bytes.Buffer
		if code := run(t.Context(), []string{"--config", p.config, "run"}, io.Discard, &said); code == 0 || !strings.Contains(said.String(), want) {
			t.Errorf("%s: exit code %d, %s; want %s", more, code, &said, want)
		}
	}
}

// TestWitnessOfOurSide: no host is fenced while the broker does not serve, or while no
// witness answers. A connection that is refused is an answer.
func TestWitnessOfOurSide(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answers := l.Addr().String()
	_, port, _ := net.SplitHostPort(answers)
	const silent = "255.255.255.255:9" // no connection can be made there
	refuses := "127.0.0.2:" + port
	for _, c := range []struct {
		serves bool
		ask    []string
		want   string // within what it says; empty if all is well
	}{
		{false, nil, "the broker does not serve"},
		{false, []string{answers}, "the broker does not serve"},
		{true, nil, ""},
		{true, []string{answers}, ""},
		{true, []string{refuses}, ""},
		{true, []string{silent}, "no witness answers (" + silent + ")"},
		{true, []string{silent, answers}, ""},
	} {
		s := &server{broker: newEmbedded("", nil, nil, nil)}
		s.config.Fence.Witness = c.ask
		if c.serves {
			s.broker.server.Store(&broker.Server{})
		}
		if got := s.witness(t.Context()); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("broker %t, witnesses %v: %q, want %q", c.serves, c.ask, got, c.want)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestRestartsNeedTime: a coordinator that asks for hosts which restart themselves gives them
// the time for that.
func TestRestartsNeedTime(t *testing.T) {
	for _, c := range []struct {
		fence string
		kill  int
		want  string
	}{{"guard", 1, ""}, {"reboot", 12, ""}, {"reboot", 11, "use at least that"}, {"watchdog", 15, ""}, {"watchdog", 14, "use at least that"}, {"hope", 15, "use guard, reboot or watchdog"}} {
		_, err := leaseConfig{TTL: 90, Kill: c.kill, Drift: 10, Margin: 10, Fence: c.fence}.timing()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s and %d s: %v", c.fence, c.kill, err)
		}
	}
}

// TestOrderOfFencingBySite: a site has an order of its own, and what is no order is refused.
func TestOrderOfFencingBySite(t *testing.T) {
	for _, c := range []struct {
		at   []string
		want string // what is said; empty: it is taken
	}{
		{nil, ""},
		{[]string{"north=lease", "lab=device"}, ""},
		{[]string{"north"}, `fence.first_at: "north=": use SITE=auto`},
		{[]string{"=lease"}, `fence.first_at: "=lease": use SITE=auto`},
		{[]string{"north=soon"}, `fence.first_at: "north=soon": use SITE=auto`},
		{[]string{"north=lease", "north=device"}, "fence.first_at: a site is named twice"},
	} {
		f := defaultFence()
		f.FirstAt = c.at
		err := f.check()
		if c.want == "" && (err != nil || len(f.policy().Sites) != len(c.at)) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.at, err, c.want)
		}
	}
	f := defaultFence()
	f.FirstAt = []string{"lab=device"}
	if p := f.policy(); p.OrderAt("lab") != fence.DeviceFirst || p.OrderAt("north") != fence.Auto {
		t.Errorf("the orders are %+v", p)
	}
}
