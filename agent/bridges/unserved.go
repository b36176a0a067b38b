package bridges

import (
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/network/names"
	"github.com/hostler-io/hostler/protocol"
)

// Unserved tells people of networks whose server of names or of DHCP does not stay alive. It
// is for one goroutine.
type Unserved struct {
	problems func() []names.Problem // nil: there are none
	raised   map[string]bool
}

// Unserved takes up the alerts that are raised, by their ids. b may be nil: then they are
// cleared.
func (b *Bridges) Unserved(raised []string) Unserved {
	u := Unserved{raised: make(map[string]bool)}
	if b != nil && b.lookup.serves() {
		u.problems = b.lookup.servers.Problems
	}
	for _, id := range raised {
		if code, _, _ := strings.Cut(id, "/"); code == string(warnings.NetworkNames) || code == string(warnings.NetworkDHCP) {
			u.raised[id] = true
		}
	}
	return u
}

// Changes are the alerts that change. They are told again until [Unserved.Told].
func (u Unserved) Changes(atMS int64) (changes []protocol.Alert) {
	now := make(map[string]bool)
	if u.problems != nil {
		for _, p := range u.problems() {
			a := warnings.New(warnings.NetworkNames, p.Bridge, fmt.Sprintf("containers of the network of bridge %s do not find each other by name: %s", p.Bridge, p.Cause), atMS)
			if p.DHCP {
				a = warnings.New(warnings.NetworkDHCP, p.Bridge, fmt.Sprintf("containers of the network of bridge %s that ask for their address by DHCP get no answer: %s", p.Bridge, p.Cause), atMS)
			}
			now[a.ID] = true
			if !u.raised[a.ID] {
				changes = append(changes, protocol.Alert{Raised: true, AlertInfo: a})
			}
		}
	}
	for id := range u.raised {
		if !now[id] {
			code, bridge, _ := strings.Cut(id, "/")
			text := "names of the network are served again, or not wanted any more"
			if code == string(warnings.NetworkDHCP) {
				text = "DHCP is served again, or not wanted any more"
			}
			changes = append(changes, protocol.Alert{AlertInfo: warnings.New(warnings.Code(code), bridge, text, atMS)})
		}
	}
	return changes
}

// Told notes a change that is durable.
func (u Unserved) Told(a protocol.Alert) {
	if u.raised[a.ID] = a.Raised; !a.Raised {
		delete(u.raised, a.ID)
	}
}
