package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// Change is what the verbs that change a container have in common.
type Change struct {
	NoWait, DryRun bool
	View           *show.View
	// Place has the coordinator choose the host of a container that is created, if no host
	// is named, and says on which hosts it may be later; nil says nothing.
	Place *api.Wishes
}

// ChangeFlags adds the options of a command that changes something.
func ChangeFlags(cmd *cobra.Command) *Change {
	c := &Change{View: show.FormatFlags(cmd)}
	cmd.Flags().BoolVar(&c.NoWait, "no-wait", false, "print the action's id and do not wait")
	cmd.Flags().BoolVar(&c.DryRun, "dry-run", false, "print what would be requested, and request nothing")
	return c
}

// Do asks for a change and waits for its end.
func (a *Dispatcher) Do(ctx context.Context, r *conn.Remote, c *Change, name conn.Ref, what, done string, s protocol.Spec) error {
	spec, err := EncodeSpec(s)
	if err != nil {
		return err
	}
	if c.DryRun {
		at := OnHosts(spec, name.Host)
		at[0].Place = c.Place
		return a.DryRun(ctx, r, c.View, at...)
	}
	act, err := a.submit(ctx, r, api.NewAction{ID: a.NewActionID().String(), Host: string(name.Host), Place: c.Place, Spec: spec})
	if err != nil {
		return term.Cannot(what, err)
	}
	if name.Host == "" && c.Place != nil {
		name.Host = protocol.HostID(act.Host)
		a.Say("%s is placed on host %s.", term.Printable(name.Name), term.Printable(act.Host))
	}
	if c.NoWait {
		return a.PrintID(c.View, act)
	}
	a.Say("action %s", term.Printable(act.ID))
	final, err := (&Follower{Dispatcher: a, Remote: r, Label: name.String()}).Await(ctx, act)
	if err != nil {
		a.Leave(act.ID)
		return term.Cannot(what, err)
	}
	if err := Ended(what, final); err != nil {
		return err
	}
	if final.Detail != "" { // such as that nothing had to be done
		a.Say("%s: %s.", name, term.Printable(final.Detail))
	} else {
		a.Say("%s is %s.", name, done)
	}
	if word := c.View.Format.Word; word != "table" && word != "wide" {
		return show.Print(a.UI, c.View, ActionNoun(), []api.Action{final})
	}
	return nil
}

// PrintID prints the id of an action that goes on without us.
func (a *Dispatcher) PrintID(v *show.View, act api.Action) error {
	if v.Format.Word == "table" || v.Format.Word == "wide" {
		fmt.Fprintln(a.Out, term.Printable(act.ID))
		return nil
	}
	return show.Print(a.UI, v, ActionNoun(), []api.Action{act})
}

// FindContainer returns the id of the container that is named. Foreign ones
// have none: Hostler looks at them and leaves them alone.
func (a *Dispatcher) FindContainer(ctx context.Context, where string) (*conn.Remote, conn.Ref, protocol.CTID, error) {
	r, err := a.Connect()
	if err != nil {
		return nil, conn.Ref{}, protocol.CTID{}, err
	}
	name, err := conn.ParseRef(where, r.Local)
	if err != nil {
		return r, name, protocol.CTID{}, term.Usage("hostler ct ls", "%s", err)
	}
	ct, err := r.Container(ctx, name)
	if err != nil {
		return r, name, protocol.CTID{}, err
	}
	if ct.CTID == "" {
		return r, name, protocol.CTID{}, &term.Failure{Code: term.ExitRefused, What: fmt.Sprintf("%s cannot be changed", name), Why: "it is foreign: it was not made by Hostler", Next: "hostler ct adopt " + name.String()}
	}
	id, err := protocol.ParseCTID(ct.CTID)
	if err != nil {
		return r, name, id, fmt.Errorf("id of %s: %w", name, err)
	}
	name.Name = ct.Name
	return r, name, id, nil
}

// Submit asks for an action. The id is made here, so that a request whose
// answer was lost can be made again.
func (a *Dispatcher) Submit(ctx context.Context, r *conn.Remote, host protocol.HostID, spec []byte) (api.Action, error) {
	return a.SubmitAs(ctx, r, a.NewActionID(), host, spec)
}

// NewActionID makes the id of an action.
func (a *Dispatcher) NewActionID() protocol.ActionID {
	var random [10]byte
	a.Random(random[:])
	return protocol.NewActionID(a.Now().UnixMilli(), random)
}

// SubmitAs does it under an id that is given already.
func (a *Dispatcher) SubmitAs(ctx context.Context, r *conn.Remote, id protocol.ActionID, host protocol.HostID, spec []byte) (api.Action, error) {
	return a.submit(ctx, r, api.NewAction{ID: id.String(), Host: string(host), Spec: spec})
}

func (a *Dispatcher) submit(ctx context.Context, r *conn.Remote, ask api.NewAction) (api.Action, error) {
	var again conn.Retry
	asked := false // it may have been heard
	for try := 1; ; try++ {
		var act api.Action
		err := r.Post(ctx, "/v1/actions", nil, ask, &act)
		if err == nil {
			a.sayWaits(act)
			return act, nil
		}
		asked = asked || !term.NeverAsked(err)
		if try < SubmitTries {
			if err = again.Wait(ctx, a.Now(), err); err == nil {
				continue
			}
		}
		switch {
		case !asked:
		case ctx.Err() != nil:
			a.Leave(ask.ID)
		case errors.Is(err, client.ErrUnreachable) && !conn.Untrusted(err):
			a.Say("hostler: whether it was accepted is unknown; to see: hostler action show %s", ask.ID)
		}
		return act, err
	}
}

// abandonTime bounds the request that ends an abandoned action.
const abandonTime = 10 * time.Second

// Abandon ends an action of which nothing but its output was wanted, because its reader
// ends: ctx has.
func (a *Dispatcher) Abandon(ctx context.Context, r *conn.Remote, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()
	return term.Cannot("end action "+id, r.Post(ctx, "/v1/actions/"+url.PathEscape(id)+"/cancel", nil, nil, nil))
}

// Leave tells how to go on after the user has had enough of waiting.
func (a *Dispatcher) Leave(id string) {
	a.Say("\nThe action continues. To follow it: hostler action logs %s --follow\nTo cancel it: hostler action cancel %s", id, id)
}
