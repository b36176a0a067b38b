package join

import (
	"crypto/rand"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// asked is a record that waits for approval, with all that the coordinator
// could approve it by.
func asked(t testing.TB) (r Record, key *certs.TLSKey, good enrol.StateResponse) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	owner, err := certs.Generate("owner", time.Now())
	fail(err)
	var fleet protocol.FleetID
	_, _ = rand.Read(fleet[:]) // never fails
	ring, err := certs.NewFleet(fleet, "lab", "anna", owner.PublicKey())
	fail(err)
	ca, err := certs.NewAuthority("lab")
	fail(err)
	coordinator, err := certs.Generate("coordinator", time.Now())
	fail(err)
	fail(ring.AddCoordinator(enrol.CoordinatorRequest{Fleet: fleet, Key: coordinator.Public(), TLSCA: ca.Certificate()}))
	raw, err := certs.SignRing(ring, owner)
	fail(err)
	body, err := ring.Body()
	fail(err)
	pin := enrol.PinOf(1, protocol.Sum(body))
	key, err = certs.NewTLSKey()
	fail(err)
	csr, err := key.Request()
	fail(err)
	cert, err := ca.Issue(csr, certs.Leaf{Name: san.Name{Kind: san.Host, ID: "edge-01"}, Now: time.Now()})
	fail(err)
	r = Record{Code: "secret", Host: "edge-01", Ring: 1, Pin: pin.Digest[:], Rings: [][]byte{raw}}
	return r, key, enrol.StateResponse{
		State: enrol.Approved, Host: "edge-01", Fleet: fleet, FleetName: "lab", Certificate: cert, CA: ca.Certificate(),
		Brokers: []string{"192.0.2.1:8883"}, Rings: raw,
	}
}

// TestApprovalThatDoesNotHold changes one thing each of an approval.
func TestApprovalThatDoesNotHold(t *testing.T) {
	r, key, good := asked(t)
	if got, err := r.accept(good, key); err != nil || !got.Member() || got.Code != "" {
		t.Fatalf("the good one gives %+v: %v", got, err)
	}
	_, other, foreign := asked(t)
	for _, c := range []struct {
		name   string
		change func(a *enrol.StateResponse)
		key    *certs.TLSKey
		want   error
	}{
		{"another host", func(a *enrol.StateResponse) { a.Host = "edge-02" }, key, enrol.ErrMalformed},
		{"another fleet", func(a *enrol.StateResponse) { a.Fleet[0] ^= 1 }, key, ErrStranger},
		{"another fleet's name", func(a *enrol.StateResponse) { a.FleetName = "den" }, key, ErrStranger},
		{"another authority", func(a *enrol.StateResponse) { a.CA = foreign.CA }, key, ErrStranger},
		{"another chain", func(a *enrol.StateResponse) { a.Rings = foreign.Rings }, key, ErrStranger},
		{"a certificate of another authority", func(a *enrol.StateResponse) { a.Certificate = foreign.Certificate }, other, enrol.ErrMalformed},
		{"a certificate for another key", func(*enrol.StateResponse) {}, other, enrol.ErrMalformed},
		{"no certificate", func(a *enrol.StateResponse) { a.Certificate = nil }, key, enrol.ErrMalformed},
		{"a broker without port", func(a *enrol.StateResponse) { a.Brokers = []string{"192.0.2.1"} }, key, enrol.ErrMalformed},
		{"too many brokers", func(a *enrol.StateResponse) { a.Brokers = make([]string, maxBrokers+1) }, key, enrol.ErrMalformed},
		{"no state", func(a *enrol.StateResponse) { a.State = "" }, key, enrol.ErrMalformed},
	} {
		bad := good
		c.change(&bad)
		got, err := r.accept(bad, c.key)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if !reflect.DeepEqual(got, r) {
			t.Errorf("%s: something of it was taken", c.name)
		}
	}
}

// TestPause holds the pauses to their bounds.
func TestPause(t *testing.T) {
	for n := range 100 {
		most := enrol.PollMax
		if n < atFirst {
			most = enrol.PollMin
		}
		if d := pause(n); d < firstPause || d > most {
			t.Errorf("pause %d is %s", n, d)
		}
	}
}

// FuzzAnswers reads whatever a server may say: it panics at nothing, and what it
// takes holds together.
func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`{"state":"pending","host":"edge-01"}`))
	f.Add(200, []byte(`{"state":"approved","host":"edge-01","fleet":"00112233445566778899aabbccddeeff","fleet_name":"lab","certificate":"MIIB","ca":"MIIB","brokers":["a:1"],"rings":"e30="}`))
	f.Add(200, []byte(`{"state":"denied","host":"edge-01","reason":"no"}`))
	f.Add(200, []byte(`{"session":"00112233445566778899aabbccddeeff","nonce_c":"AA==","coordinator_key":"mQ==","ring":1}`))
	f.Add(403, []byte(`{"code":"denied","detail":"no","status":403}`))
	f.Add(502, []byte(`<html>`))
	r, key, _ := asked(f)
	chain, err := r.Chain()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status/100 != 2 {
			err := problem(status, body)
			if p, ok := errors.AsType[*api.Problem](err); ok && len(p.Detail) > maxDetail {
				t.Errorf("a detail of %d bytes is shown", len(p.Detail))
			}
			if !errors.Is(err, errLater) && !errors.Is(err, errAgain) && !errors.Is(err, ErrRefused) {
				t.Errorf("nobody knows what to do about %v", err)
			}
			return
		}
		var begun enrol.BeginResponse
		if enrol.Decode(body, &begun) == nil {
			if _, _, err := vouched(chain, begun); err == nil && begun.Ring != 1 {
				t.Errorf("ring %d is vouched for", begun.Ring)
			}
		}
		var a enrol.StateResponse
		if enrol.Decode(body, &a) != nil {
			return
		}
		got, err := r.decided(a, key)
		if got.Member() && (err != nil || checkCertificate(got.Certificate, r.Host, chain, key) != nil) {
			t.Errorf("a member by %q", body)
		}
	})
}

// TestTriedAgain tells those problems that pass from those that stay.
func TestTriedAgain(t *testing.T) {
	for code, want := range map[string]error{
		api.CodeNotFound: errAgain, api.CodeGone: errAgain,
		api.CodeInvalid: ErrRefused, api.CodeDenied: ErrRefused, api.CodeExists: ErrRefused, api.CodeConflict: ErrRefused,
		api.CodeRateLimit: errLater, api.CodeUnavailable: errLater, api.CodeRecovery: errLater, api.CodeInternal: errLater, "": errLater,
	} {
		if err := problem(500, []byte(`{"code":"`+code+`"}`)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", code, err, want)
		}
	}
}
