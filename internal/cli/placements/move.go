package placements

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// followEvery is how often it is looked whether a move has ended.
const followEvery = 300 * time.Millisecond

// MoveUnique asks for the move of a unique container, and follows it to its end for a time;
// 0 is without an end. The move goes on when it is followed no longer.
func MoveUnique(ctx context.Context, e *conn.Env, r *conn.Remote, c api.Container, ask api.AskMove, wait time.Duration) error {
	name := c.Host + "/" + c.Name
	what := fmt.Sprintf("move %s to host %s", name, ask.Host)
	var p api.Placement
	if err := r.Get(ctx, path(c.CTID), nil, &p); err != nil {
		return term.Cannot(what, err)
	}
	if p.Host != c.Host {
		return &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: fmt.Sprintf("host %s holds the container now, and this is an old copy of it", p.Host), Next: fmt.Sprintf("hostler ct move %s/%s %s", p.Host, c.Name, ask.Host)}
	}
	if err := r.Post(ctx, path(c.CTID)+"/move", nil, ask, &p); err != nil {
		return term.Cannot(what, err)
	}
	e.Say("%s moves to host %s.", term.Printable(name), term.Printable(ask.Host))
	tick := e.Tick("move of "+name, "to host "+ask.Host)
	defer tick.End()
	for began := time.Now(); p.Move != nil; {
		if wait > 0 && time.Since(began) > wait {
			return &term.Failure{Code: term.ExitTimeout, What: "the move of " + name + " has not ended after " + wait.String(), Why: "it goes on", Next: "hostler placement show " + c.Name}
		}
		if err := term.Pause(ctx, followEvery); err != nil {
			return err
		}
		p = api.Placement{}
		if err := r.Get(ctx, path(c.CTID), nil, &p); err != nil {
			return term.Cannot("follow the move of "+name, err)
		}
		tick.Tell("to host " + ask.Host + ", " + stands(p.Lease))
	}
	if p.Moved == nil || p.Moved.To != ask.Host {
		return &term.Failure{Code: term.ExitFailed, What: "the move of " + name + " has ended, and nothing is known of it any more", Next: "hostler why " + c.Name}
	}
	if p.Moved.Dropped != "" {
		return &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("the move to host %s was dropped", ask.Host), Why: p.Moved.Dropped, Next: "hostler why " + c.Name}
	}
	e.Say("%s runs on host %s under epoch %s.", term.Printable(c.Name), term.Printable(p.Host), term.Printable(p.Epoch))
	return nil
}

// stands says in few words on which host a container may run.
func stands(l api.Lease) string {
	if l.Phase == "free" { // and its host is the one that held it last
		return l.Phase
	}
	return l.Phase + " on host " + l.Host
}

// sayMove says where a container is on its way to; nothing if it is not.
func sayMove(m *api.Move) string {
	if m == nil {
		return ""
	}
	text := "to host " + m.To + " by " + m.By
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return text
}

// sayMoved says how the newest move of a container has ended; nothing if it has not.
func sayMoved(m *api.MoveEnd) string {
	if m == nil {
		return ""
	}
	text := m.EndedAt.UTC().Format("2006-01-02 15:04:05") + " " + sayMove(&m.Move)
	if m.Dropped != "" {
		text += "; dropped: " + m.Dropped
	}
	return text
}
