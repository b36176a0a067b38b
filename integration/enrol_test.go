//go:build integration

package integration

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// TestEnrolment lets hosts in, and keeps out who has no business here.
func TestEnrolment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.invite(t, "--label", "site=lab")
	edge := w.newHost(t, "edge-01", false)

	t.Run("the same four words on both sides", func(t *testing.T) {
		p, words := edge.join(t, code)
		if n := len(strings.Fields(words)); n != 4 {
			t.Fatalf("%d words on the host's screen: %q", n, words)
		}
		waiting := show[[]api.Enrolment](t, w, "host", "pending")
		if len(waiting) != 1 || waiting[0].Words != words || waiting[0].Host != "edge-01" {
			t.Fatalf("the host shows %q, the coordinator %+v", words, waiting)
		}
		if s := show[api.Host](t, w, "host", "show", "edge-01").State; s != "pending" {
			t.Errorf("it is shown as %s", s)
		}
		w.cli(t, "host", "approve", "edge-01").exits(t, 4, "not a terminal")
		w.cli(t, "host", "approve", "edge-01", "--words", "not these four words").exits(t, 4, "someone is intercepting the connection")
		w.must(t, "host", "approve", "edge-01", "--words", words)
		p.finish(t).exits(t, 0)
	})

	t.Run("an approved host comes online and obeys", func(t *testing.T) {
		edge.start(t)
		h := show[api.Host](t, w, "host", "show", "edge-01")
		if h.State != "online" || len(h.Labels) != 1 || h.Labels[0] != "site=lab" {
			t.Errorf("it is shown as %s with the labels %q", h.State, h.Labels)
		}
		if got, want := w.must(t, "run", "-l", "site=lab", "--", "uname", "-sr"), w.tool(t, "uname", "-sr"); got != want {
			t.Errorf("uname says %q there and %q here", got, want)
		}
	})

	t.Run("others", func(t *testing.T) {
		t.Run("a code that was used", func(t *testing.T) {
			t.Parallel()
			p := w.newHost(t, "late", false).spawn(t, "late-join", "join", code)
			p.finish(t).exits(t, 4, "the join code was used by another host")
		})
		t.Run("a code that has expired", func(t *testing.T) {
			t.Parallel()
			old := w.invite(t, "--ttl", "1s")
			elapse(t, 1100*time.Millisecond)
			p := w.newHost(t, "slow", false).spawn(t, "slow-join", "join", old)
			p.finish(t).exits(t, 4, "the join code has expired")
		})
		t.Run("a code that was guessed at", func(t *testing.T) {
			t.Parallel()
			target := w.invite(t)
			for range enrol.MaxWrong {
				status, body := w.guess(t, target)
				problem(t, "a wrong secret", status, body, http.StatusForbidden, api.CodeDenied)
			}
			p := w.newHost(t, "victim", false).spawn(t, "victim-join", "join", target)
			p.finish(t).exits(t, 4, "burned by wrong proofs")
		})
		t.Run("a name that is taken", func(t *testing.T) {
			t.Parallel()
			h := w.newHost(t, "impostor", false)
			p := h.spawn(t, "impostor-join", "join", "--host", "edge-01", w.invite(t))
			p.finish(t).exits(t, 4, "a host named edge-01 was enrolled with another key", "--host")
		})
		t.Run("two of one name", func(t *testing.T) { t.Parallel(); twins(t, w) })
		t.Run("a host that was interrupted", func(t *testing.T) {
			t.Parallel()
			h := w.newHost(t, "patient", false)
			p, words := h.join(t, w.invite(t))
			p.end(t, kill)
			p = h.spawn(t, "patient-join", "join")
			p.says(t, p.out, "words: "+words+"\n")
			w.must(t, "host", "approve", "patient", "--words", words)
			p.finish(t).exits(t, 0)
		})
		t.Run("a host that was denied", func(t *testing.T) {
			t.Parallel()
			p, _ := w.newHost(t, "unknown", false).join(t, w.invite(t))
			w.must(t, "host", "deny", "unknown", "--reason", "nobody knows this machine")
			p.finish(t).exits(t, 4, "denied", "nobody knows this machine")
			w.cli(t, "host", "approve", "unknown", "--yes").exits(t, 1, "host unknown does not wait for approval", "denied already")
			w.cli(t, "run", "unknown", "--", "true").exits(t, 125, "unknown")
		})
		t.Run("a viewer that is called like a host", func(t *testing.T) {
			t.Parallel()
			w.cli(t, "viewer", "create", "edge-01", "--out", w.path("no-viewer")).exits(t, 1, "a host is named edge-01")
			gone(t, w.path("no-viewer/viewer.key"))
		})
		t.Run("a code that was mistyped", func(t *testing.T) {
			t.Parallel()
			typo := []byte(w.invite(t))
			middle := &typo[len(typo)/2]
			if *middle == '7' {
				*middle = '8'
			} else {
				*middle = '7'
			}
			p := w.newHost(t, "typist", false).spawn(t, "typist-join", "join", string(typo))
			p.finish(t).exits(t, 2, "unusable code", "copy it again")
		})
	})
}

// twins lets two hosts ask for one name: one of them gets it.
func twins(t *testing.T, w *world) {
	first := w.newHost(t, "twin", false)
	p, words := first.join(t, w.invite(t))
	second := w.newHost(t, "twin-b", false)
	q := second.spawn(t, "twin-b-join", "join", "--host", "twin", w.invite(t))
	q.says(t, q.out, "words:")
	w.cli(t, "host", "approve", "twin", "--yes").exits(t, 2, "ambiguous")
	var one, other string
	for _, e := range show[[]api.Enrolment](t, w, "host", "pending") {
		switch {
		case e.Host == "twin" && e.Words == words:
			one = e.ID
		case e.Host == "twin":
			other = e.ID
		}
	}
	w.must(t, "host", "approve", one, "--words", words)
	p.finish(t).exits(t, 0)
	w.cli(t, "host", "approve", other, "--yes").exits(t, 1, "a host named twin is a member already")
	w.must(t, "host", "deny", other, "--reason", "the name is taken")
	q.finish(t).exits(t, 4, "the name is taken")
}

// elapse lets time pass that the system under test measures itself.
func elapse(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// guess asks to be let in by somebody who knows which code there is, but not
// its secret.
func (w *world) guess(t testing.TB, code string) (status int, body string) {
	t.Helper()
	right, err := enrol.ParseJoinCode(code)
	if err != nil {
		t.Fatal(err)
	}
	_, rings := w.ask(t, http.MethodGet, enrol.Path+"rings", "")
	chain, err := certs.OpenChain(right.Pin, []byte(rings))
	if err != nil {
		t.Fatal(err)
	}
	a := w.attempt(t, chain)
	question, err := a.Begin()
	if err != nil {
		t.Fatal(err)
	}
	question.Invite = right.Secret.ID()
	var begun enrol.BeginResponse
	if status, body = w.post(t, "begin", question); status != http.StatusOK {
		t.Fatalf("begin: %d %s", status, body)
	}
	if err := enrol.Decode([]byte(body), &begun); err != nil {
		t.Fatal(err)
	}
	digest, ok := chain.Digest(begun.Ring)
	key, err := certs.ParsePublicKey(begun.CoordinatorKey)
	if !ok || err != nil {
		t.Fatalf("ring %d, %v", begun.Ring, err)
	}
	offer, _, err := a.Reveal(begun, digest, key.PrimaryDigest())
	if err != nil {
		t.Fatal(err)
	}
	return w.post(t, "offer", offer)
}

// attempt is one of somebody who has made up the secret.
func (w *world) attempt(t testing.TB, chain *certs.Chain) enrol.Attempt {
	t.Helper()
	id := stranger(t)
	key, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.Request()
	if err != nil {
		t.Fatal(err)
	}
	offer, err := enrol.Offer{
		Hostname: "guesser", Host: "guesser", Key: id.Public(), CSR: csr, Architecture: "amd64", Version: "1", Boot: "b",
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	a := enrol.Attempt{Fleet: chain.Ring().Fleet, Offer: offer, Signer: id, HostKey: id.PublicKey().PrimaryDigest()}
	rand.Read(a.NonceA[:])
	return a
}

// post makes a request of the enrolment.
func (w *world) post(t testing.TB, name string, question any) (int, string) {
	t.Helper()
	b, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	return w.ask(t, http.MethodPost, enrol.Path+name, string(b))
}
