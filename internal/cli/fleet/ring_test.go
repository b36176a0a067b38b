package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestDifferencesAreWhole: who signs a ring is shown another TLS authority for the
// same coordinator, and another certificate for the same primary key.
func TestDifferencesAreWhole(t *testing.T) {
	identity := func() *certs.Identity { return must[*certs.Identity](t)(certs.Generate("somebody", time.Now())) }
	owner, coord, ann := identity(), identity(), identity()
	with := func(ca *certs.Authority, annsKey []byte) certs.Ring {
		r := must[certs.Ring](t)(certs.NewFleet(protocol.FleetID{1}, "lab", "olga", owner.PublicKey()))
		if err := r.AddCoordinator(enrol.CoordinatorRequest{Fleet: protocol.FleetID{1}, Key: coord.Public(), TLSCA: ca.Certificate()}); err != nil {
			t.Fatal(err)
		}
		r.People = []certs.Person{{Person: "ann", Keys: [][]byte{annsKey}}}
		return r
	}
	ours := must[*certs.Authority](t)(certs.NewAuthority("lab"))
	another := must[*certs.Authority](t)(certs.NewAuthority("lab"))
	// The packets of a certificate in which its last one stands twice.
	longer := ann.Public()
	for i := len(longer) - 1; len(longer) == len(ann.Public()); i-- {
		if b := append(ann.Public(), ann.Public()[i:]...); i == 0 {
			t.Fatal("no packet was found")
		} else if _, err := certs.ParsePublicKey(b); err == nil {
			longer = b
		}
	}
	old := with(ours, ann.Public())
	if lines := differences(old, with(ours, ann.Public())); len(lines) > 0 {
		t.Errorf("of the same ring: %q", lines)
	}
	for name, c := range map[string]struct {
		next certs.Ring
		who  string
		key  *certs.Identity
	}{
		"another authority":   {with(another, ann.Public()), "coordinator", coord},
		"another certificate": {with(ours, longer), "approver ann", ann},
	} {
		lines := differences(old, c.next)
		who := c.who + " " + c.key.Key().String()
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "− "+who) || !strings.HasPrefix(lines[1], "+ "+who) {
			t.Errorf("%s: %q", name, lines)
		}
	}
}
