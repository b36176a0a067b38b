package join_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

func begin(t testing.TB, code string) join.Record {
	t.Helper()
	return must[join.Record](t)(join.Begin(code, "edge-01", []string{"rack=7"}))
}

// running is a Run under way.
type running struct {
	record join.Record
	err    error
	done   chan struct{}
	stop   context.CancelFunc
}

func (h *host) run(t testing.TB, r join.Record) *running {
	ctx, stop := context.WithCancel(t.Context())
	g := &running{done: make(chan struct{}), stop: stop}
	go func() { defer close(g.done); g.record, g.err = h.client.Run(ctx, r) }()
	t.Cleanup(func() { stop(); <-g.done })
	return g
}

func (g *running) wait(t testing.TB) (join.Record, error) {
	t.Helper()
	<-g.done
	return g.record, g.err
}

// pending waits for the words on the host's screen and checks them against the
// operator's.
func (d *desk) pending(t testing.TB, h *host) string {
	t.Helper()
	words := <-h.words
	e, err := d.coord.Members().FindEnrolment(t.Context(), "edge-01")
	if err != nil {
		t.Fatal(err)
	}
	if words != e.Words || len(strings.Fields(words)) != 4 {
		t.Errorf("the host shows %q, the operator sees %q", words, e.Words)
	}
	return words
}

func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		n.serve(t, first, d.tls(t), d.start(t))
		h := newHost(t, n)
		g := h.run(t, begin(t, d.invite(t, time.Hour)))
		words := d.pending(t, h)
		succeed(t)(d.coord.Members().ApproveEnrolment(t.Context(), admin(), "edge-01", words))
		approved := time.Now()
		r, err := g.wait(t)
		if err != nil || !r.Member() {
			t.Fatalf("state %q: %v", r.State, err)
		}
		if took := time.Since(approved); took > enrol.PollMin {
			t.Errorf("the approval was noticed after %s", took)
		}
		if r.Code != "" {
			t.Error("a member keeps the join code")
		}
		if diff := cmp.Diff([]string{"a.example:8883"}, r.Brokers); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(r, h.newest()); diff != "" {
			t.Error("what was kept is not what was returned:", diff)
		}
		chain, err := r.Chain()
		if err != nil || chain.Ring().Number != 2 {
			t.Errorf("the record leads to %v: %v", chain, err)
		}
	})
}

// TestInterrupted ends the agent at every step that it keeps, reading the record
// back as a file would give it.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		n.serve(t, first, d.tls(t), d.start(t))
		id, key := newIdentity(t, "host"), must[*certs.TLSKey](t)(certs.NewTLSKey())
		record := begin(t, d.invite(t, time.Hour))
		for range 3 {
			h := newHostOf(t, n, id, key)
			g := h.run(t, record)
			d.pending(t, h)
			g.stop()
			if _, err := g.wait(t); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if len(h.kept) > 0 {
				record = reread(t, h.newest())
			}
		}
		succeed(t)(d.coord.Members().ApproveEnrolment(t.Context(), admin(), "edge-01", ""))
		h := newHostOf(t, n, id, key)
		if r, err := h.run(t, record).wait(t); err != nil || !r.Member() {
			t.Errorf("state %q: %v", r.State, err)
		}
	})
}

func reread(t testing.TB, r join.Record) (again join.Record) {
	t.Helper()
	if err := json.Unmarshal(must[[]byte](t)(json.Marshal(r)), &again); err != nil {
		t.Fatal(err)
	}
	return again
}

// around calls before each request, which may answer it instead, and after it.
type around struct {
	next   http.Handler
	before func(w http.ResponseWriter, path string) (answered bool)
}

func (a around) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !a.before(w, strings.TrimPrefix(r.URL.Path, enrol.Path)) {
		a.next.ServeHTTP(w, r)
	}
}

// TestLostAnswer loses the answer to the offer: the same key is welcome again.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		lost, api := false, d.start(t)
		n.serve(t, first, d.tls(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/offer") && !lost {
				lost = true
				api.ServeHTTP(&nowhere{header: make(http.Header)}, r)
				panic(http.ErrAbortHandler)
			}
			api.ServeHTTP(w, r)
		}))
		h := newHost(t, n)
		h.run(t, begin(t, d.invite(t, time.Hour)))
		d.pending(t, h)
		if !lost {
			t.Error("nothing was lost")
		}
	})
}

// nowhere is an answer that is not sent.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

// TestRestartBetween restarts the coordinator between begin and offer, which
// forgets the exchange.
func TestRestartBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		var mu sync.Mutex
		api, restarted := d.start(t), false
		n.serve(t, first, d.tls(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			if strings.HasSuffix(r.URL.Path, "/offer") && !restarted {
				restarted = true
				d.stop()
				api = d.start(t)
			}
			serve := api
			mu.Unlock()
			serve.ServeHTTP(w, r)
		}))
		h := newHost(t, n)
		h.run(t, begin(t, d.invite(t, time.Hour)))
		d.pending(t, h)
	})
}

func TestDecisionsThatEndIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		decide func(t *testing.T, d *desk)
		want   error
		text   string
	}{
		{"denied", func(t *testing.T, d *desk) {
			succeed(t)(d.coord.Members().DenyEnrolment(t.Context(), admin(), "edge-01", "not ours"))
		}, join.ErrDenied, "the host was denied: not ours"},
		{"revoked", func(t *testing.T, d *desk) {
			succeed(t)(d.coord.Members().ApproveEnrolment(t.Context(), admin(), "edge-01", ""))
			if err := d.coord.Members().Revoke(t.Context(), admin(), "edge-01", "stolen"); err != nil {
				t.Fatal(err)
			}
		}, join.ErrRevoked, "the host was revoked: stolen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, n := newDesk(t), new(network)
				n.serve(t, first, d.tls(t), d.start(t))
				h := newHost(t, n)
				g := h.run(t, begin(t, d.invite(t, time.Hour)))
				d.pending(t, h)
				c.decide(t, d)
				r, err := g.wait(t)
				if !errors.Is(err, c.want) || err.Error() != c.text {
					t.Errorf("got %v, want %s", err, c.text)
				}
				if diff := cmp.Diff(r, h.newest()); diff != "" || r.Code != "" {
					t.Error("the decision was not kept, or the code was:", diff)
				}
			})
		})
	}
}

// succeed is must for what is done to the enrolment.
func succeed(t testing.TB) func(core.Enrolment, error) {
	return func(_ core.Enrolment, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCodesThatAreRefused tells people why.
func TestCodesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		code func(t *testing.T, d *desk, n *network) string
		text string
	}{
		{"expired", func(t *testing.T, d *desk, _ *network) string {
			return d.invite(t, time.Second) // over before the host comes
		}, enrol.ErrExpired.Error()},
		{"burned", func(t *testing.T, d *desk, n *network) string {
			code := d.invite(t, time.Hour)
			wrong := must[enrol.JoinCode](t)(enrol.ParseJoinCode(code))
			for range enrol.MaxWrong {
				prove(t, d, n, wrong)
			}
			return code
		}, enrol.ErrBurned.Error()},
		{"used", func(t *testing.T, d *desk, n *network) string {
			code := d.invite(t, time.Hour)
			other := newHost(t, n)
			other.run(t, begin(t, code))
			<-other.words
			return code
		}, enrol.ErrUsed.Error()},
		{"unknown", func(t *testing.T, d *desk, _ *network) string {
			c := must[enrol.JoinCode](t)(enrol.ParseJoinCode(d.invite(t, time.Hour)))
			c.Secret[0] ^= 1
			return must[string](t)(c.Encode())
		}, enrol.ErrProof.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, n := newDesk(t), new(network)
				n.serve(t, first, d.tls(t), d.start(t))
				h := newHost(t, n)
				code := c.code(t, d, n)
				time.Sleep(2 * time.Second)
				_, err := h.run(t, begin(t, code)).wait(t)
				problem, ok := errors.AsType[*api.Problem](err)
				if !errors.Is(err, join.ErrRefused) || !ok || !strings.Contains(problem.Detail, c.text) {
					t.Errorf("got %v, want %q", err, c.text)
				}
				if len(h.kept) > 0 && h.newest().Exchange != (enrol.ExchangeID{}) {
					t.Error("a refused exchange was kept")
				}
			})
		})
	}
}

// prove makes an exchange with a proof that is wrong.
func prove(t testing.TB, d *desk, n *network, code enrol.JoinCode) {
	t.Helper()
	id, key := newIdentity(t, "guesser"), must[*certs.TLSKey](t)(certs.NewTLSKey())
	offer := must[[]byte](t)(enrol.Offer{
		Hostname: "x", Host: "x", Key: id.Public(), CSR: must[[]byte](t)(key.Request()), Architecture: "amd64", Version: "1", Boot: "b",
	}.Encode())
	a := enrol.Attempt{Fleet: d.Chain().Ring().Fleet, Secret: code.Secret, Offer: offer, Signer: id, HostKey: id.PublicKey().PrimaryDigest()}
	begun := must[enrol.BeginResponse](t)(d.coord.Members().BeginEnrolment(t.Context(), must[enrol.BeginRequest](t)(a.Begin())))
	_, ring := d.RingInForce()
	a.Secret[0] ^= 1
	q, _, err := a.Reveal(begun, ring, d.key.PublicKey().PrimaryDigest())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.coord.Members().OfferEnrolment(t.Context(), netip.MustParseAddr("192.0.2.20"), q); !strings.Contains(err.Error(), enrol.ErrProof.Error()) {
		t.Fatalf("a wrong proof gives %v", err)
	}
}

// TestNameTaken asks for the id of a host that exists.
func TestNameTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		n.serve(t, first, d.tls(t), d.start(t))
		h := newHost(t, n)
		g := h.run(t, begin(t, d.invite(t, time.Hour)))
		d.pending(t, h)
		succeed(t)(d.coord.Members().ApproveEnrolment(t.Context(), admin(), "edge-01", ""))
		must[join.Record](t)(g.wait(t))
		_, err := newHost(t, n).run(t, begin(t, d.invite(t, time.Hour))).wait(t)
		if p, ok := errors.AsType[*api.Problem](err); !errors.Is(err, join.ErrRefused) || !ok || p.Code != api.CodeExists {
			t.Errorf("got %v", err)
		}
	})
}

// TestStrangers answers a join code with servers that are not of its fleet.
func TestStrangers(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(t *testing.T, d *desk, n *network)
		want  error
	}{
		{"another fleet", func(t *testing.T, _ *desk, n *network) {
			other := newDesk(t)
			n.serve(t, first, other.tls(t), other.start(t))
		}, certs.ErrPin},
		{"the right rings behind the wrong authority", func(t *testing.T, d *desk, n *network) {
			// Somebody in the middle passes everything on, and can read it.
			n.serve(t, first, newDesk(t).tls(t), d.start(t))
		}, certs.ErrPeer},
		{"a host of the fleet as coordinator", func(t *testing.T, d *desk, n *network) {
			api := d.start(t)
			d.cert = must[[]byte](t)(d.ca.Issue(must[[]byte](t)(d.leaf.Request()), certs.Leaf{
				Name: san.Name{Kind: san.Host, ID: "edge-66"}, Now: time.Now(),
			}))
			n.serve(t, first, d.tls(t), api)
		}, certs.ErrPeer},
		{"a key that is not in the ring", func(t *testing.T, d *desk, n *network) {
			n.serve(t, first, d.tls(t), d.start(t))
			d.key = newIdentity(t, "another key")
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, n := newDesk(t), new(network)
				number, digest := d.RingInForce()
				code := must[string](t)(enrol.JoinCode{Addresses: []string{first, second}, Pin: enrol.PinOf(number, digest), Secret: enrol.Secret{1}}.Encode())
				c.serve(t, d, n)
				h := newHost(t, n)
				_, err := h.run(t, begin(t, code)).wait(t)
				if !errors.Is(err, join.ErrStranger) || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if len(h.kept) > 0 {
					t.Errorf("%d records were kept", len(h.kept))
				}
			})
		})
	}
}

// TestStrangersDecideNothing lets somebody whose rings nobody has seen yet say
// no for the coordinator.
func TestStrangersDecideNothing(t *testing.T) {
	for _, code := range []string{api.CodeDenied, api.CodeGone, api.CodeExists} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, n := newDesk(t), new(network)
				n.serve(t, first, newDesk(t).tls(t), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusForbidden)
					_, _ = w.Write([]byte(`{"code":"` + code + `","detail":"go away"}`))
				}))
				n.serve(t, second, d.tls(t), d.start(t))
				invited := must[enrol.JoinCode](t)(enrol.ParseJoinCode(d.invite(t, time.Hour)))
				invited.Addresses = []string{first, second}
				h := newHost(t, n)
				h.run(t, begin(t, must[string](t)(invited.Encode())))
				d.pending(t, h)
			})
		})
	}
}

// TestMiddle lets somebody who holds an authority of the ring change what
// passes: the two sides no longer mean the same, and nobody comes to wait for
// approval.
func TestMiddle(t *testing.T) {
	for _, c := range []struct {
		name, path string
		request    func(t *testing.T, b []byte) []byte
		answer     func(t *testing.T, b []byte) []byte
		want       error
	}{
		{"another nonce", "begin", pass, change(func(b *enrol.BeginResponse) { b.NonceC[0] ^= 1 }), enrol.ErrSigned},
		{"another offer", "offer", change(func(o *enrol.OfferRequest) { o.Offer = bytes.Replace(o.Offer, []byte("edge-01"), []byte("edge-02"), 1) }), pass, enrol.ErrCommit},
		{"another proof", "offer", change(func(o *enrol.OfferRequest) { o.Proof[0] ^= 1 }), pass, enrol.ErrProof},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, n := newDesk(t), new(network)
				honest := d.start(t)
				n.serve(t, first, d.tls(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasSuffix(r.URL.Path, c.path) {
						honest.ServeHTTP(w, r)
						return
					}
					body := c.request(t, must[[]byte](t)(io.ReadAll(r.Body)))
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
					seen := httptest.NewRecorder()
					honest.ServeHTTP(seen, r)
					w.WriteHeader(seen.Code)
					_, _ = w.Write(c.answer(t, seen.Body.Bytes()))
				}))
				h := newHost(t, n)
				_, err := h.run(t, begin(t, d.invite(t, time.Hour))).wait(t)
				if !errors.Is(err, join.ErrRefused) || !strings.Contains(err.Error(), c.want.Error()) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if all := must[[]core.Enrolment](t)(d.coord.Members().Enrolments(t.Context(), "")); len(all) != 0 {
					t.Errorf("%d hosts wait for approval", len(all))
				}
			})
		})
	}
}

func pass(_ *testing.T, b []byte) []byte { return b }

// change decodes a body, changes it and encodes it again.
func change[T any](fn func(*T)) func(*testing.T, []byte) []byte {
	return func(t *testing.T, b []byte) []byte {
		var v T
		if err := enrol.Decode(b, &v); err != nil {
			t.Error(err)
			return b
		}
		fn(&v)
		return must[[]byte](t)(json.Marshal(v))
	}
}

// TestNewAuthority gives the coordinator a new authority while a host waits: it
// walks the rings forward and goes on.
func TestNewAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		api := d.start(t)
		stop := n.serve(t, first, d.tls(t), api)
		h := newHost(t, n)
		g := h.run(t, begin(t, d.invite(t, time.Hour)))
		d.pending(t, h)
		stop()
		d.nextRing(t, must[*certs.Authority](t)(certs.NewAuthority("lab again")))
		n.serve(t, first, d.tls(t), api)
		succeed(t)(d.coord.Members().ApproveEnrolment(t.Context(), admin(), "edge-01", ""))
		r := must[join.Record](t)(g.wait(t))
		if chain := must[*certs.Chain](t)(r.Chain()); chain.Ring().Number != 3 {
			t.Errorf("the record leads to ring %d", chain.Ring().Number)
		}
	})
}

// TestManyRings joins a fleet whose rings are more than travels at once, and
// misses as many while it waits.
func TestManyRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		more := func() {
			for range 40 {
				d.nextRing(t, d.ca)
			}
		}
		more()
		if size := len(bytes.Join(d.Chain().Rings(), nil)); size < certs.MaxChain*5/4 {
			t.Fatalf("the rings have only %d bytes", size)
		}
		api := d.start(t)
		stop := n.serve(t, first, d.tls(t), api)
		h := newHost(t, n)
		g := h.run(t, begin(t, d.invite(t, time.Hour)))
		d.pending(t, h)
		stop()
		more()
		d.nextRing(t, must[*certs.Authority](t)(certs.NewAuthority("lab again")))
		n.serve(t, first, d.tls(t), api)
		succeed(t)(d.coord.Members().ApproveEnrolment(t.Context(), admin(), "edge-01", ""))
		r := must[join.Record](t)(g.wait(t))
		if got, want := must[*certs.Chain](t)(r.Chain()).Ring().Number, d.Ring(); got != want {
			t.Errorf("the record leads to ring %d, want %d", got, want)
		}
	})
}

// TestAwayForLong takes the coordinator away for a day: the host asks seldom,
// and comes through afterwards.
func TestAwayForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		api := d.start(t)
		stop := n.serve(t, first, d.tls(t), api)
		h := newHost(t, n)
		g := h.run(t, begin(t, d.invite(t, time.Hour)))
		d.pending(t, h)
		stop()
		time.Sleep(24 * time.Hour)
		succeed(t)(d.coord.Members().ApproveEnrolment(t.Context(), admin(), "edge-01", ""))
		asked := 0
		n.serve(t, first, d.tls(t), around{api, func(w http.ResponseWriter, path string) bool {
			asked++
			if asked > 20 {
				return false
			}
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>the proxy is unhappy</html>")
			return true
		}})
		begun := time.Now()
		must[join.Record](t)(g.wait(t))
		if took := time.Since(begun); took > 21*enrol.PollMax || took < enrol.PollMax {
			t.Errorf("21 questions took %s", took)
		}
	})
}

// TestRenew asks for a new certificate when the old one ages.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDesk(t), new(network)
		n.serve(t, second, d.tls(t), d.start(t)) // the first address does not answer
		h := newHost(t, n)
		g := h.run(t, begin(t, d.invite(t, time.Hour)))
		d.pending(t, h)
		succeed(t)(d.coord.Members().ApproveEnrolment(t.Context(), admin(), "edge-01", ""))
		r := must[join.Record](t)(g.wait(t))
		same := must[join.Record](t)(h.client.Ask(t.Context(), r))
		if diff := cmp.Diff(r, same); diff != "" {
			t.Error("the record changed without need:", diff)
		}
		d.aged = true
		newer := must[join.Record](t)(h.client.Ask(t.Context(), r))
		if string(newer.Certificate) == string(r.Certificate) {
			t.Error("the certificate is still the old one")
		}
		if rings := must[[]byte](t)(h.client.Rings(t.Context(), r.Addresses, 1)); string(rings) != string(d.Rings(1)) {
			t.Error("other rings were fetched than are served")
		}
	})
}

func TestBeginChecksTheCode(t *testing.T) {
	if _, err := join.Begin("hostler-agent join", "edge-01", nil); !errors.Is(err, enrol.ErrCode) {
		t.Errorf("got %v", err)
	}
}
