package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/attach"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// session proposes a session in somebody's name.
func (s *site) session(name string, role core.TokenRole) string {
	s.t.Helper()
	tty := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}})
	a, err := s.f.Coordinator().Actions().Propose(s.t.Context(), core.Actor{Name: name, Role: role}, actions.Request{Host: "edge-07", Spec: tty})
	if err != nil {
		s.t.Fatal(err)
	}
	return a.ID.String()
}

// dial connects to a session over a websocket, and returns the status of the
// answer: 101 with a connection.
func (s *site) dial(id string, header http.Header, w attach.Wish) (*attach.Conn, int) {
	s.t.Helper()
	conn, resp, err := attach.Dial(s.t.Context(), s.client, "http://coordinator/v1/actions/"+id+"/attach", header, w)
	switch {
	case err == nil:
		return conn, http.StatusSwitchingProtocols
	case resp == nil:
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return nil, resp.StatusCode
}

// TestSocketsAreForWhoMay: a websocket is no way around tokens, roles and the
// browser's rule of origins, all of which are judged before it is opened.
func TestSocketsAreForWhoMay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		own := s.session("operator", core.RoleOperator)
		anothers := s.session("bob", core.RoleOperator)
		bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
		as := func(role core.TokenRole) http.Header { return bearer(s.tokens[role]) }
		from := func(origin string, h http.Header) http.Header { h.Set("Origin", origin); return h }
		types, looks := attach.Wish{Peer: terminal.Peer{1}}, attach.Wish{Peer: terminal.Peer{1}, ReadOnly: true}
		const (
			opens, unauthentic = http.StatusSwitchingProtocols, http.StatusUnauthorized
			denied             = http.StatusForbidden
		)
		for name, c := range map[string]struct {
			id     string
			header http.Header
			wish   attach.Wish
			want   int
		}{
			"no token":                        {own, nil, types, unauthentic},
			"no token, to look":               {own, nil, looks, unauthentic},
			"a wrong token":                   {own, bearer("htk_" + strings.Repeat("0", 64)), types, unauthentic},
			"a token that was changed":        {own, bearer(s.tokens[core.RoleOperator] + "0"), types, unauthentic},
			"a viewer":                        {own, as(core.RoleViewer), types, denied},
			"another operator's session":      {anothers, as(core.RoleOperator), types, denied},
			"an approver":                     {own, as(core.RoleApprover), types, denied},
			"a page of another site":          {own, from("https://evil.example", as(core.RoleOperator)), types, denied},
			"a page of another port":          {own, from("http://coordinator:8080", as(core.RoleOperator)), types, denied},
			"a page without origin":           {own, from("null", as(core.RoleOperator)), types, denied},
			"who asked for it":                {own, as(core.RoleOperator), types, opens},
			"who asked, from the page itself": {own, from("http://coordinator", as(core.RoleOperator)), types, opens},
			"an admin":                        {anothers, as(core.RoleAdmin), types, opens},
			"a viewer who looks":              {own, as(core.RoleViewer), looks, opens},
		} {
			conn, status := s.dial(c.id, c.header, c.wish)
			if status != c.want {
				t.Errorf("%s: status %d, want %d", name, status, c.want)
			}
			if conn != nil {
				conn.Close()
			}
			synctest.Wait()
		}
	})
}

// TestLookersTypeNothing ends the connection of who only looks and types all the
// same.
func TestLookersTypeNothing(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		id := s.session("operator", core.RoleOperator)
		header := http.Header{"Authorization": {"Bearer " + s.tokens[core.RoleViewer]}}
		conn, status := s.dial(id, header, attach.Wish{Peer: terminal.Peer{1}, ReadOnly: true})
		if conn == nil {
			t.Fatalf("status %d", status)
		}
		defer conn.Close()
		if err := conn.Send(context.Background(), terminal.Packet{Peer: terminal.Peer{1}, Number: 1}); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Receive(context.Background())
		if why, refused := attach.Refused(err); !refused || !strings.Contains(why, "looking only") {
			t.Errorf("it goes on: %v", err)
		}
	})
}

// TestMuchIsPrinted: what is printed faster than it is read comes in messages that
// every peer takes.
func TestMuchIsPrinted(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		text := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
		s.host.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Write(o.Item.Action, 1, protocol.Stdout, []byte(text))
			h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: int64(len(text))}))
		})
		id := s.session("operator", core.RoleOperator)
		synctest.Wait()
		header := http.Header{"Authorization": {"Bearer " + s.tokens[core.RoleOperator]}}
		conn, status := s.dial(id, header, attach.Wish{Peer: terminal.Peer{1}})
		if conn == nil {
			t.Fatalf("status %d", status)
		}
		defer conn.Close()
		var got strings.Builder
		for {
			m, err := conn.Receive(t.Context())
			if err != nil {
				t.Fatalf("after %d bytes: %v", got.Len(), err)
			}
			if m.Kind == terminal.MessageEnd {
				break
			}
			if m.Kind == terminal.MessageOutput && m.Offset == int64(got.Len()) {
				got.Write(m.Data)
			}
		}
		if got.String() != text {
			t.Errorf("%d of %d bytes came", got.Len(), len(text))
		}
	})
}
