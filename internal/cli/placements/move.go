package placements

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol/contract"
)

// MoveCommand returns hostler ct move.
func MoveCommand(e *conn.Env) *cobra.Command {
	var ask api.AskMove
	var wait bool
	cmd := &cobra.Command{
		Use: "move HOST/NAME TARGET", Short: "Move a unique container to another host", Args: term.Exactly(2),
		Long: `Moves a unique container to the host TARGET and to no other one: it is stopped on its host,
and started on TARGET under the next epoch when its host has said that it has stopped.
What it has written on its host does not go with it, so only one with data none or shared
can be moved.

It is refused before anything is stopped if TARGET cannot take it: hostler placement show
NAME says what each host says. If TARGET fails meanwhile, the move is dropped, and the
container runs where it can, as ever. It stays on TARGET afterwards. With --wait the exit
code is 1 if the move was dropped.`,
		Example: "  hostler ct move edge-01/db edge-02\n  hostler ct move edge-01/db edge-02 --reason 'new disks' --wait",
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return e.Completing(conn.ContainerNames)(cmd, args, word)
		}
		return e.Completing(conn.HostNames)(cmd, nil, word)
	}
	cmd.Flags().StringVar(&ask.Reason, "reason", "", "reason, for others")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the move has ended")
	cmd.RunE = e.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		name, err := conn.ParseRef(args[0], false)
		if err != nil {
			return term.Usage("hostler ct ls", "%s", err)
		}
		to, err := conn.ParseHost(args[1])
		if err != nil {
			return term.Usage("hostler host ls", "%s", err)
		}
		c, err := r.Container(cmd.Context(), name)
		if err != nil {
			return term.Cannot("move "+args[0], err)
		}
		if c.Class != contract.Unique {
			return &term.Failure{Code: term.ExitFailed, What: "cannot move " + name.String(), Why: "only unique containers can be moved so far, and its class is " + c.Class, Next: "hostler backup --help"}
		}
		ask.Host = string(to)
		return MoveUnique(cmd.Context(), e, r, c, ask, wait)
	})
	return cmd
}

// followEvery is how often it is looked whether a move has ended.
const followEvery = 300 * time.Millisecond

// MoveUnique asks for the move of a unique container, and waits for its end if that is
// wanted.
func MoveUnique(ctx context.Context, e *conn.Env, r *conn.Remote, c api.Container, ask api.AskMove, wait bool) error {
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
	if !wait {
		return nil
	}
	for p.Move != nil {
		if err := term.Pause(ctx, followEvery); err != nil {
			return err
		}
		p = api.Placement{}
		if err := r.Get(ctx, path(c.CTID), nil, &p); err != nil {
			return term.Cannot("follow the move of "+name, err)
		}
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
