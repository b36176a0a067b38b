package broker

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

const (
	root   = "hostler/v1/acme/"
	action = "01890a5d-ac96-774b-bcce-b302099a8057"
)

var (
	web1        = san.Name{Kind: san.Host, ID: "web1"}
	viewerWeb1  = san.Name{Kind: san.Viewer, ID: "web1"}
	coordinator = san.Name{Kind: san.Coordinator}
	hop         = san.Name{Kind: san.Hop, ID: "web1"}
	acme        = rules{fleet: "acme"}
)

func TestRights(t *testing.T) {
	const none, pub, sub, both = "", "publish", "subscribe", "publish subscribe"
	for _, tc := range []struct {
		topic                     string
		host, viewer, coordinator string
	}{
		{root + "host/web1/presence", pub, sub, sub},
		{root + "host/web1/lease", pub, sub, sub},
		{root + "host/web1/out/" + action, pub, sub, sub},
		{root + "host/web1/order", sub, sub, both},
		{root + "host/web1/grant", sub, sub, both},
		{root + "host/web1/in/" + action, sub, sub, both},
		{root + "host/web1/in/+", sub, sub, sub},
		{root + "host/web2/presence", none, sub, sub},
		{root + "host/web2/order", none, sub, both},
		{root + "host/web2/in/+", none, sub, sub},
		{root + "host/web1/#", none, sub, sub},
		{root + "host/+/order", none, sub, sub},
		{root + "host/web1/nonsense", none, sub, sub},
		{root + "fleet/#", sub, sub, sub},
		{root + "fleet/ring", sub, sub, both},
		{root + "plain/host/web1/state", none, sub, both},
		{root + "plain/#", none, sub, sub},
		{root + "#", none, sub, sub},
		{"#", none, sub, sub},
		{"hostler/v1/other/fleet/#", none, sub, sub}, // there is nothing to be had
		{"hostler/v1/other/host/web1/presence", none, sub, sub},
		{"hostler/v1/other/host/web1/order", none, sub, sub},
		{"$SYS/#", none, none, none},
		{"$share/g/" + root + "host/web1/order", none, none, none},
		{"", none, sub, sub}, // the library refuses it before
	} {
		for _, who := range []struct {
			name san.Name
			want string
		}{
			{web1, tc.host}, {viewerWeb1, tc.viewer}, {coordinator, tc.coordinator},
			{hop, none}, {san.Name{Kind: san.Broker}, none}, {san.Name{}, none},
		} {
			var got []string
			if acme.mayPublish(who.name, tc.topic) {
				got = append(got, pub)
			}
			if acme.mayRead(who.name, tc.topic) {
				got = append(got, sub)
			}
			if g := strings.Join(got, " "); g != who.want {
				t.Errorf("%v on %q: %q, want %q", who.name, tc.topic, g, who.want)
			}
		}
	}
}

// Whatever filter a host may subscribe to, no topic that it matches belongs to
// another host or goes up.
func TestHostFiltersMatchNothingForeign(t *testing.T) {
	level := rapid.SampledFrom([]string{"hostler", "v1", "acme", "other", "host", "fleet", "web1", "web2", "+", "#", "",
		"presence", "order", "in", "out", "ring", action, "$share", "$SYS"})
	foreign := []string{
		root + "host/web2/order", root + "host/web2/in/" + action, root + "host/web2/presence",
		root + "host/web1/presence", root + "host/web1/out/" + action, "hostler/v1/other/host/web1/order",
	}
	rapid.Check(t, func(t *rapid.T) {
		filter := strings.Join(rapid.SliceOfN(level, 1, 7).Draw(t, "levels"), "/")
		if !acme.mayRead(web1, filter) {
			return
		}
		for _, topic := range foreign {
			if matches(filter, topic) {
				t.Fatalf("filter %q matches %q", filter, topic)
			}
		}
	})
	// The drawn filters rarely hit; these do.
	for _, filter := range []string{root + "host/web1/order", root + "host/web1/in/+", root + "fleet/#"} {
		if !acme.mayRead(web1, filter) {
			t.Errorf("host may not subscribe to %q", filter)
		}
	}
}

// matches is MQTT 3.1.1, section 4.7, written down once more.
func matches(filter, topic string) bool {
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	for i, level := range f {
		if level == "#" {
			return true
		}
		if i >= len(t) || level != "+" && level != t[i] {
			return false
		}
	}
	return len(f) == len(t)
}

func TestWillRights(t *testing.T) {
	own := root + "host/web1/presence"
	for _, tc := range []struct {
		name  san.Name
		bulk  bool
		topic string
		want  bool
	}{
		{web1, false, own, true},
		{web1, true, own, false},
		{web1, false, root + "host/web1/report", false},
		{web1, false, root + "host/web2/presence", false},
		{web1, false, "$SYS/x", false},
		{viewerWeb1, false, own, false},
		{coordinator, false, root + "fleet/coordinator", false},
	} {
		if got := acme.mayWill(tc.name, tc.bulk, tc.topic); got != tc.want {
			t.Errorf("will of %v (bulk: %v) on %q: %v, want %v", tc.name, tc.bulk, tc.topic, got, tc.want)
		}
	}
}

func TestWhatIsState(t *testing.T) {
	for c, want := range map[protocol.Channel]bool{
		protocol.ChannelPresence: true, protocol.ChannelHeartbeat: true, protocol.ChannelLease: true, protocol.ChannelAck: true,
		protocol.ChannelReport: false, protocol.ChannelAlert: false, protocol.ChannelOut: false, protocol.ChannelSamples: false, "nonsense": false,
	} {
		if got := isState(c); got != want {
			t.Errorf("%s is state: %v, want %v", c, got, want)
		}
	}
}
