package enrol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// key is a signing key for these tests: whoever knows its name can sign. What
// real keys do is tested where they live, in package certs.
type key string

func (k key) mark(body []byte) []byte {
	d := protocol.Sum(append([]byte(k), body...))
	return d[:]
}

func (k key) Key() protocol.KeyID              { return protocol.KeyID(k.mark(nil)[:20]) }
func (k key) PrimaryDigest() protocol.Digest   { return protocol.Sum([]byte(k)) }
func (k key) Sign(body []byte) ([]byte, error) { return k.mark(body), nil }
func (k key) CheckForm(sig []byte) error       { return check(len(sig) == 32) }
func (k key) Verify(sig, body []byte) error    { return check(bytes.Equal(sig, k.mark(body))) }
func check(ok bool) error {
	if !ok {
		return errors.New("refused")
	}
	return nil
}

func offer() enrol.Offer {
	return enrol.Offer{
		Hostname: "web1.example.org", Host: "web1", Key: []byte("host"), CSR: []byte("csr"), Architecture: "amd64",
		Version: "1.0.0", Boot: "5f1c", Total: 1,
		Interfaces: []enrol.Interface{{Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{"192.0.2.1/24"}}},
		Containers: []enrol.Container{{Name: "db", Runtime: "lxc", Running: true}},
		Capacity:   enrol.Capacity{CPUs: 2, Memory: 4 << 30, Disk: 1 << 40},
		Labels:     []string{"site=lab"},
	}
}

func encode(t *testing.T, o enrol.Offer) []byte {
	t.Helper()
	b, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exchange plays both sides up to the offer.
func exchange(t *testing.T) (enrol.Attempt, enrol.Exchange, enrol.OfferRequest, []byte) {
	t.Helper()
	a := enrol.Attempt{
		Fleet: protocol.FleetID{7}, Secret: enrol.Secret{9}, Offer: encode(t, offer()), NonceA: [enrol.NonceSize]byte{1},
		Signer: key("host"), HostKey: key("host").PrimaryDigest(),
	}
	begin, err := a.Begin()
	if err != nil {
		t.Fatal(err)
	}
	s := enrol.Exchange{
		Fleet: a.Fleet, Invite: begin.Invite, Commit: begin.Commit, HostKey: key("host"), HostKeyRaw: begin.HostKey,
		Ring: protocol.Sum([]byte("ring")), Coordinator: key("coordinator").PrimaryDigest(), NonceC: [enrol.NonceSize]byte{2},
	}
	r, transcript, err := a.Reveal(enrol.BeginResponse{Exchange: enrol.ExchangeID{3}, NonceC: s.NonceC[:], Ring: 1}, s.Ring, s.Coordinator)
	if err != nil {
		t.Fatal(err)
	}
	return a, s, r, transcript
}

func TestBothSidesSeeTheSame(t *testing.T) {
	a, s, r, transcript := exchange(t)
	o, seen, err := s.Reveal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := offer()
	want.Type = enrol.OfferType
	if d := cmp.Diff(want, o); d != "" {
		t.Errorf("the offer differs (-want +got):\n%s", d)
	}
	if !bytes.Equal(transcript, seen) || enrol.Words(transcript) != enrol.Words(seen) {
		t.Error("the transcripts differ")
	}
	if a.Secret.ID() != s.Invite {
		t.Error("the invite is not found")
	}
	if _, err := (enrol.Invite{Secret: a.Secret, Expires: 10}).Judge(5, key("host").Key(), seen, r.Proof); err != nil {
		t.Errorf("the proof: %v", err)
	}
	poll, err := a.Poll(r.Exchange)
	if err != nil {
		t.Fatal(err)
	}
	if err := enrol.CheckSigned(s.HostKey, poll.Sig, enrol.StateStatement(s.Fleet, r.Exchange)); err != nil {
		t.Errorf("the poll: %v", err)
	}
	if err := enrol.CheckSigned(s.HostKey, poll.Sig, enrol.StateStatement(s.Fleet, enrol.ExchangeID{4})); !errors.Is(err, enrol.ErrSigned) {
		t.Errorf("the poll of another session: %v", err)
	}
}

func TestRevealRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*enrol.Exchange, *enrol.OfferRequest)
		want   error
	}{
		"another nonce": {func(_ *enrol.Exchange, r *enrol.OfferRequest) { r.NonceA = bytes.Repeat([]byte{8}, enrol.NonceSize) }, enrol.ErrCommit},
		"a short nonce": {func(_ *enrol.Exchange, r *enrol.OfferRequest) { r.NonceA = r.NonceA[1:] }, enrol.ErrMalformed},
		"another offer": {func(_ *enrol.Exchange, r *enrol.OfferRequest) {
			r.Offer = bytes.Replace(r.Offer, []byte("web1"), []byte("web2"), 1)
		}, enrol.ErrCommit},
		"another key than first":  {func(s *enrol.Exchange, _ *enrol.OfferRequest) { s.HostKeyRaw = []byte("other") }, enrol.ErrOffer},
		"another key's signature": {func(s *enrol.Exchange, _ *enrol.OfferRequest) { s.HostKey = key("other") }, enrol.ErrSigned},
		"a malformed signature":   {func(_ *enrol.Exchange, r *enrol.OfferRequest) { r.Sig = r.Sig[1:] }, enrol.ErrSigned},
		"of another fleet":        {func(s *enrol.Exchange, _ *enrol.OfferRequest) { s.Fleet[0]++ }, enrol.ErrSigned},
		"for another coordinator": {func(s *enrol.Exchange, _ *enrol.OfferRequest) { s.Coordinator[0]++ }, enrol.ErrSigned},
		"under another ring":      {func(s *enrol.Exchange, _ *enrol.OfferRequest) { s.Ring[0]++ }, enrol.ErrSigned},
		"for another nonce_c":     {func(s *enrol.Exchange, _ *enrol.OfferRequest) { s.NonceC[0]++ }, enrol.ErrSigned},
	} {
		_, s, r, _ := exchange(t)
		c.change(&s, &r)
		if _, transcript, err := s.Reveal(r); !errors.Is(err, c.want) || transcript != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestTranscriptHasNoSeams moves bytes from each field to the next: the
// transcript must change.
func TestTranscriptHasNoSeams(t *testing.T) {
	a := enrol.Transcript{CSR: []byte("ab"), Host: "c", Offer: []byte("d")}
	b := enrol.Transcript{CSR: []byte("a"), Host: "bc", Offer: []byte("d")}
	c := enrol.Transcript{CSR: []byte("ab"), Host: "cd", Offer: nil}
	if bytes.Equal(a.Bytes(), b.Bytes()) || bytes.Equal(a.Bytes(), c.Bytes()) {
		t.Error("two transcripts have the same bytes")
	}
}

func TestJudge(t *testing.T) {
	transcript, secret := []byte("transcript"), enrol.Secret{1}
	right, wrong := enrol.Proof(secret, transcript), enrol.Proof(enrol.Secret{2}, transcript)
	web1, web2 := key("web1").Key(), key("web2").Key()
	fresh := enrol.Invite{Secret: secret, Expires: 100}
	bound := fresh
	bound.Bound = web1
	weary := func(n int) enrol.Invite { i := fresh; i.Wrong = n; return i }
	for name, c := range map[string]struct {
		invite enrol.Invite
		now    int64
		key    protocol.KeyID
		proof  []byte
		want   error
		after  enrol.Invite
	}{
		"right":                        {fresh, 99, web1, right, nil, bound},
		"right, of a bound one":        {bound, 99, web1, right, nil, bound},
		"again after it expired":       {bound, 1e9, web1, right, nil, bound},
		"another host":                 {bound, 50, web2, right, enrol.ErrUsed, bound},
		"another host guesses":         {bound, 50, web2, wrong, enrol.ErrProof, bound},
		"expired":                      {fresh, 100, web1, right, enrol.ErrExpired, fresh},
		"expired and wrong":            {fresh, 100, web1, wrong, enrol.ErrExpired, fresh},
		"wrong":                        {fresh, 50, web1, wrong, enrol.ErrProof, weary(1)},
		"empty":                        {fresh, 50, web1, nil, enrol.ErrProof, weary(1)},
		"right after four wrong":       {weary(4), 50, web1, right, nil, func() enrol.Invite { i := weary(4); i.Bound = web1; return i }()},
		"the fifth wrong":              {weary(4), 50, web1, wrong, enrol.ErrProof, weary(5)},
		"right, but burned":            {weary(5), 50, web1, right, enrol.ErrBurned, weary(5)},
		"proof for another transcript": {fresh, 50, web1, enrol.Proof(secret, []byte("x")), enrol.ErrProof, weary(1)},
	} {
		after, err := c.invite.Judge(c.now, c.key, transcript, c.proof)
		if !errors.Is(err, c.want) || after != c.after {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, after, err, c.after, c.want)
		}
	}
}

func TestOfferRefused(t *testing.T) {
	for name, change := range map[string]func(*enrol.Offer){
		"no id":              func(o *enrol.Offer) { o.Host = "" },
		"malformed id":       func(o *enrol.Offer) { o.Host = "Web1" },
		"no key":             func(o *enrol.Offer) { o.Key = nil },
		"no request":         func(o *enrol.Offer) { o.CSR = nil },
		"no boot":            func(o *enrol.Offer) { o.Boot = "" },
		"escape sequence":    func(o *enrol.Offer) { o.Hostname = "\x1b[2Jweb1" },
		"text the other way": func(o *enrol.Offer) { o.Containers[0].Name = "\u202etxt" },
		"long text":          func(o *enrol.Offer) { o.Version = strings.Repeat("1", 257) },
		"many containers":    func(o *enrol.Offer) { o.Containers = make([]enrol.Container, 65); o.Total = 65 },
		"fewer in all":       func(o *enrol.Offer) { o.Total = 0 },
		"negative":           func(o *enrol.Offer) { o.Capacity.Disk = -1 },
		"large":              func(o *enrol.Offer) { o.Key = make([]byte, enrol.MaxOffer) },
	} {
		o := offer()
		change(&o)
		if _, err := o.Encode(); !errors.Is(err, enrol.ErrOffer) {
			t.Errorf("%s: %v, want ErrOffer", name, err)
		}
	}
	good := string(encode(t, offer()))
	with := func(members string) string { return good[:len(good)-1] + "," + members + "}" }
	for _, b := range []string{
		``, `null`, `{}`, `{"hostler":"offer/2"}`, good + "{}",
		with(`"host":"web9"`), with(`"HOST":"web9"`), with(`"ho\u017ft":"web9"`), with(`"more":1`),
	} {
		if _, err := enrol.DecodeOffer([]byte(b)); !errors.Is(err, enrol.ErrOffer) {
			t.Errorf("%q: %v, want ErrOffer", b, err)
		}
	}
}

// TestWireReadsBack holds that each wire type is I-JSON both ways.
func TestWireReadsBack(t *testing.T) {
	_, _, offered, _ := exchange(t)
	for _, v := range []any{
		&enrol.BeginRequest{Invite: enrol.InviteID{1}, HostKey: []byte("k")},
		&enrol.BeginResponse{Exchange: enrol.ExchangeID{1}, NonceC: []byte("n"), CoordinatorKey: []byte("k"), Ring: 1},
		&offered,
		&enrol.StateRequest{Exchange: enrol.ExchangeID{1}, Sig: []byte("s")},
		&enrol.StateResponse{State: enrol.Pending, Host: "web1"},
		&enrol.StateResponse{State: enrol.Denied, Host: "web1", Reason: "no"},
		&enrol.StateResponse{State: enrol.Approved, Host: "web1", Fleet: protocol.FleetID{1}, FleetName: "lab", Certificate: []byte("c"), CA: []byte("c"), Brokers: []string{"a:1"}, Rings: []byte("r")},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got := newLike(v)
		if err := enrol.Decode(b, got); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		if d := cmp.Diff(v, got); d != "" {
			t.Errorf("%T differs (-want +got):\n%s", v, d)
		}
		if r, ok := got.(*enrol.StateResponse); ok {
			if err := r.Check(); err != nil {
				t.Errorf("%s: %v", b, err)
			}
		}
	}
	for _, b := range []string{`{"session":"00","sig":""}`, `{"session":null}`, `{"SESSION":"x"}`, `{"x":1}`, `[]`, strings.Repeat(" ", enrol.MaxBody+1)} {
		if err := enrol.Decode([]byte(b), &enrol.StateRequest{}); !errors.Is(err, enrol.ErrMalformed) {
			t.Errorf("%.40q: %v, want ErrMalformed", b, err)
		}
	}
	for _, r := range []enrol.StateResponse{{}, {State: "x", Host: "a"}, {State: enrol.Pending}, {State: enrol.Approved, Host: "a"}} {
		if err := r.Check(); !errors.Is(err, enrol.ErrMalformed) {
			t.Errorf("%+v: %v, want ErrMalformed", r, err)
		}
	}
}

func newLike(v any) any {
	switch v.(type) {
	case *enrol.BeginRequest:
		return &enrol.BeginRequest{}
	case *enrol.BeginResponse:
		return &enrol.BeginResponse{}
	case *enrol.OfferRequest:
		return &enrol.OfferRequest{}
	case *enrol.StateRequest:
		return &enrol.StateRequest{}
	default:
		return &enrol.StateResponse{}
	}
}
