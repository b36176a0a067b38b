// Package batch does one thing in many places, or many things from a file: it
// selects the places, asks in turns, follows all, and tells what became of each. It
// has the commands of hostler batch.
package batch

import (
	"cmp"
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/cli/transfer"
	"github.com/hostler-io/hostler/protocol"
)

// Batcher does things in many places.
type Batcher struct {
	*dispatch.Dispatcher
	files *transfer.Files
}

// New returns a Batcher; files moves what a file of operations pushes and pulls.
func New(d *dispatch.Dispatcher, files *transfer.Files) *Batcher { return &Batcher{d, files} }

func (a *Batcher) batchFollowCommand() *cobra.Command {
	var output bool
	cmd := &cobra.Command{
		Use: "follow ID", Short: "Follow a batch until all of it has ended", Args: term.Exactly(1),
		Long:    "Follows a batch from its beginning: the output of its commands, and their results. The exit code is that of run on many hosts.",
		Example: "  hostler batch follow 0199f3c2-1b7e-7c11-9a33-4d2f0a1b2c3d",
	}
	s := &Selection{}
	f := cmd.Flags()
	f.Var(&s.wait, "wait", "wait no longer than this; running actions continue")
	f.BoolVar(&s.Many.leaveOffline, "no-wait-offline", false, "do not wait for offline hosts")
	f.BoolVar(&output, "logs", true, "also print the output of commands")
	v := show.FormatFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := s.Check(0); err != nil {
			return err
		}
		r, id, all, err := a.openBatch(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		m := s.Many
		m.Output, m.View, m.Verb = output, v, "do it"
		return a.followMany(cmd.Context(), r, &m, id, all)
	}
	return cmd
}

// openBatch finds a batch that was asked for before.
func (a *Batcher) openBatch(ctx context.Context, text string) (*conn.Remote, protocol.BatchID, []api.Action, error) {
	id, err := protocol.ParseBatchID(text)
	if err != nil {
		return nil, id, nil, term.Usage("hostler action ls -o wide", "%q is not the id of a batch: want a whole id, as in 01928fd1-6d4a-7c3e-9b1f-0a2b3c4d5e6f", text)
	}
	r, err := a.Coordinator()
	if err != nil {
		return nil, id, nil, err
	}
	b, err := findBatch(ctx, r, text)
	return r, id, b.Actions, term.Cannot("show batch "+text, err)
}

func (a *Batcher) batchShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "List the actions of a batch", Args: term.Exactly(1),
		Example: "  hostler batch show 0199f3c2-1b7e-7c11-9a33-4d2f0a1b2c3d -o wide",
	}
	v := show.ListFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, _, _, err := a.openBatch(cmd.Context(), args[0]); err != nil {
			return err
		}
		return show.Items(cmd.Context(), a.UI, v, dispatch.ActionNoun(), func(ctx context.Context) ([]api.Action, error) {
			_, _, all, err := a.openBatch(ctx, args[0])
			return all, err
		})
	}
	return cmd
}

func (a *Batcher) batchCancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "Cancel everything in a batch that has not ended", Args: term.Exactly(1),
		Long:    "Cancels every action of a batch that has not ended: actions that have not started never do, commands are terminated.",
		Example: "  hostler batch cancel 0199f3c2-1b7e-7c11-9a33-4d2f0a1b2c3d",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, id, _, err := a.openBatch(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var b api.Batch
		if err := r.Post(cmd.Context(), "/v1/batches/"+url.PathEscape(id.String())+"/cancel", nil, nil, &b); err != nil {
			return term.Cannot("cancel batch "+id.String(), err)
		}
		fmt.Fprintf(a.Out, "%d actions were open: %s\n", len(b.Actions), cmp.Or(countsText(b.States), "none"))
		return nil
	}
	return cmd
}
