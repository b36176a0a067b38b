package coordtest

import (
	"crypto/rand"
	"net/netip"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// Attempt returns the side of a host in an enrolment by a join code.
func (f *Fleet) Attempt(id protocol.HostID, code string) enrol.Attempt {
	f.t.Helper()
	join, err := enrol.ParseJoinCode(code)
	if err != nil {
		f.t.Fatal(err)
	}
	key := NewKey("host " + string(id))
	offer, err := enrol.Offer{
		Hostname: string(id) + ".example", Host: id, Key: key.Certificate(), CSR: []byte("request of " + string(id)),
		Architecture: "amd64", Version: "0.1.0", Boot: "boot 1",
	}.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	a := enrol.Attempt{Fleet: f.ID, Secret: join.Secret, Offer: offer, Signer: key, HostKey: key.PrimaryDigest()}
	_, _ = rand.Read(a.NonceA[:]) // never fails
	return a
}

// Address is where hosts ask for enrolment from.
var Address = netip.AddrFrom4([4]byte{192, 0, 2, 20})

// Join lets a host ask for enrolment, with an invite of its own, until it
// waits for a person.
func (f *Fleet) Join(id protocol.HostID) core.Enrolment {
	f.t.Helper()
	c, ctx := f.Coordinator(), f.t.Context()
	_, code, err := c.Members().Invite(ctx, f.Admin(), time.Hour, []string{"site=lab"})
	if err != nil {
		f.t.Fatal(err)
	}
	a := f.Attempt(id, code)
	begin, err := a.Begin()
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := c.Members().BeginEnrolment(ctx, begin)
	if err != nil {
		f.t.Fatal(err)
	}
	_, ring := f.Trust.RingInForce()
	_, own := f.Trust.Own()
	offer, _, err := a.Reveal(answer, ring, own)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := c.Members().OfferEnrolment(ctx, Address, offer); err != nil {
		f.t.Fatal(err)
	}
	e, err := c.Members().FindEnrolment(ctx, offer.Exchange.String())
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

// Machine returns another machine that bears the name of a host: it has the key of the
// other name and remembers nothing. It is not connected yet.
func (f *Fleet) Machine(id, key protocol.HostID) *Host {
	return f.attach(newHost(f, id, NewKey("host "+string(key))))
}
