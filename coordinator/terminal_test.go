package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// TestWhoMayType: what was approved was approved for whoever asked for it, so
// nobody else types in it but admins; everybody may look; both are written down.
func TestWhoMayType(t *testing.T) {
	f := coordtest.New(t)
	h := f.AddHost("edge-07")
	ann := coordinator.Actor{Name: "ann", Role: coordinator.RoleOperator, From: "192.0.2.7"}
	tty := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, TTY: &protocol.TTY{Rows: 24, Cols: 80}})
	session, err := f.Coordinator().Propose(t.Context(), ann, coordinator.Request{Host: h.ID, Spec: tty})
	if err != nil {
		t.Fatal(err)
	}
	command, err := f.Coordinator().Propose(t.Context(), ann, coordinator.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		by   coordinator.Actor
		id   protocol.ActionID
		look bool
		want error
	}{
		"the requester":       {ann, session.ID, false, nil},
		"an admin":            {f.Admin(), session.ID, false, nil},
		"another operator":    {coordinator.Actor{Name: "bob", Role: coordinator.RoleOperator}, session.ID, false, coordinator.ErrDenied},
		"an approver":         {coordinator.Actor{Name: "eve", Role: coordinator.RoleApprover}, session.ID, false, coordinator.ErrDenied},
		"its viewer":          {coordinator.Actor{Name: "ann", Role: coordinator.RoleViewer}, session.ID, false, coordinator.ErrDenied},
		"a viewer who looks":  {coordinator.Actor{Name: "vic", Role: coordinator.RoleViewer}, session.ID, true, nil},
		"at what is no shell": {ann, command.ID, true, coordinator.ErrInvalid},
		"at nothing":          {ann, protocol.ActionID{15: 1}, true, coordinator.ErrNotFound},
	} {
		part, err := f.Coordinator().Attach(t.Context(), c.by, c.id, terminal.Peer{1}, c.look)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err != nil {
			continue
		}
		if c.look {
			p := terminal.AppendPacket(nil, terminal.Packet{Peer: terminal.Peer{1}, Number: 1})
			if err := part.Type(t.Context(), p); !errors.Is(err, coordinator.ErrDenied) {
				t.Errorf("%s types: %v", name, err)
			}
		}
		part.Close()
		part.Close() // once is enough
	}
	for _, verb := range []string{"session.attach", "session.detach"} {
		records, _, err := f.Coordinator().Audit(t.Context(), coordinator.AuditFilter{Verb: verb, Object: session.ID.String(), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var who []string
		for _, r := range records {
			who = append(who, r.Actor+" "+r.From)
		}
		if len(records) != 3 || !slices.Contains(who, "token:ann 192.0.2.7") || records[0].Host != h.ID {
			t.Errorf("%s was written down of %q", verb, who)
		}
	}
}

// TestTypeBeforeItRuns waits with what is typed until the session runs, and takes
// no packet of somebody else.
func TestTypeBeforeItRuns(t *testing.T) {
	f := coordtest.New(t)
	h := f.AddHost("edge-07")
	tty := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, TTY: &protocol.TTY{Rows: 24, Cols: 80}})
	session, err := f.Coordinator().Propose(t.Context(), f.Admin(), coordinator.Request{Host: h.ID, Spec: tty})
	if err != nil {
		t.Fatal(err)
	}
	part, err := f.Coordinator().Attach(t.Context(), f.Admin(), session.ID, terminal.Peer{1}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	other := terminal.AppendPacket(nil, terminal.Packet{Peer: terminal.Peer{2}, Number: 1})
	if err := part.Type(t.Context(), other); !errors.Is(err, coordinator.ErrInvalid) {
		t.Errorf("a packet of another peer: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	mine := terminal.AppendPacket(nil, terminal.Packet{Peer: terminal.Peer{1}, Number: 1})
	if err := part.Type(ctx, mine); !errors.Is(err, enough) {
		t.Errorf("before it runs: %v", err)
	}
}
