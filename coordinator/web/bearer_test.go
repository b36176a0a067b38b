package web_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/attach"
	"github.com/hostler-io/hostler/terminal"
)

// TestTokensEndWhatGoesOnByThem: with a token ends whatever is being served by it,
// and nothing that is served by another.
func TestTokensEndWhatGoesOnByThem(t *testing.T) {
	const life = 5*time.Minute + 3*time.Second // no multiple of what anything does again and again
	for name, c := range map[string]struct {
		life time.Duration
		end  func(*testing.T, *site, core.Token)
		says string
	}{
		"revoked": {0, func(t *testing.T, s *site, k core.Token) {
			if err := s.f.Coordinator().Access().RevokeToken(t.Context(), s.f.Admin(), k.ID); err != nil {
				t.Fatal(err)
			}
		}, "the token was revoked"},
		"expired": {life, func(*testing.T, *site, core.Token) { <-time.After(life + 2*time.Second) }, "the token has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) { testTokenEnds(t, s, c.life, c.end, c.says) })
		})
	}
}

func testTokenEnds(t *testing.T, s *site, life time.Duration, end func(*testing.T, *site, core.Token), says string) {
	secret, token, err := s.f.Coordinator().Access().CreateToken(t.Context(), s.f.Admin(), access.Wish{Name: "bob", Role: core.RoleOperator, Life: life})
	if err != nil {
		t.Fatal(err)
	}
	typed := s.session("bob", core.RoleOperator)
	take := func(secret string, wish attach.Wish) (*attach.Conn, chan error) {
		conn, status := s.dial(typed, http.Header{"Authorization": {"Bearer " + secret}}, wish)
		if conn == nil {
			t.Fatalf("status %d", status)
		}
		ended := make(chan error, 1)
		go func() { // ends with the connection
			_, err := conn.Receive(t.Context())
			ended <- err
		}()
		return conn, ended
	}
	conn, goes := take(secret, attach.Wish{Peer: terminal.Peer{1}})
	defer conn.Close()
	other, stays := take(s.tokens[core.RoleViewer], attach.Wish{Peer: terminal.Peer{2}, ReadOnly: true})
	defer other.Close()

	a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("sleep", "1000")), http.StatusAccepted)
	b := as[api.Batch](t, s.call(core.RoleOperator, http.MethodPost, "/v1/batches", api.NewBatch{Hosts: []string{"edge-07"}, Spec: run("sleep", "1000").Spec}), http.StatusAccepted)
	streams := make(map[string]chan reply)
	for _, path := range []string{"/v1/events", "/v1/actions/" + a.ID + "/output?follow=true", "/v1/batches/" + b.ID + "/events", "/v1/actions/" + a.ID + "?wait=10m"} {
		req := s.request("", http.MethodGet, path, nil)
		req.Header.Set("Authorization", "Bearer "+secret)
		got := make(chan reply, 1)
		streams[path] = got
		go func() { // ends with the stream
			resp, err := s.client.Do(req)
			if err != nil {
				t.Error(err)
				got <- reply{}
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body) // it may break off
			got <- reply{resp, body}
		}()
	}
	synctest.Wait()
	for path, got := range streams {
		if len(got) > 0 {
			r := <-got
			t.Fatalf("%s did not go on: %s", path, r.body)
		}
	}

	end(t, s, token)
	synctest.Wait()
	select {
	case err := <-goes:
		if why, refused := attach.Refused(err); !refused || why != says {
			t.Errorf("the session ended with %v", err)
		}
	default:
		t.Error("the session goes on")
	}
	for path, got := range streams {
		select {
		case <-got:
		default:
			t.Errorf("%s goes on", path)
		}
		req := s.request("", http.MethodGet, path, nil)
		req.Header.Set("Authorization", "Bearer "+secret)
		wantProblem(t, s.do(req), api.CodeUnauthentic)
	}
	if len(stays) > 0 {
		t.Errorf("a session by another token ended: %v", <-stays)
	}
}
