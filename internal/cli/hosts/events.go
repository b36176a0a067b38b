package hosts

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

func eventNoun() show.Noun[api.Event] {
	return show.NounOf[api.Event]("id", "id at type host object data~", nil)
}

func hostEventNoun() show.Noun[api.HostEvent] {
	return show.NounOf[api.HostEvent]("at", "at who what object detail~", nil)
}

func (a *commands) hostEventsCommand() *cobra.Command {
	var since term.DurationFlag
	cmd := &cobra.Command{
		Use: "events HOST", Short: "List what happened to a host: who, when, what", Args: term.Exactly(1),
		Long: `Lists what was done with a host and decided about it, from the audit log, and what
happened, from the events: whether it was there, its alerts, and what changed on it:
containers that came and went, their states, names and addresses, interfaces, versions,
boots. WHO is the person who asked for it, or the host. The newest is the last. Events
are kept for a while only; the audit log is kept. The 100 newest are looked at, or as
many as --limit says; --filter chooses among them.`,
		Example: "  hostler host events edge-07\n  hostler host events edge-07 --since 2d -o json\n  hostler host events edge-07 --filter what=container.changed", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	v.Limit = 100
	cmd.Flags().Var(&since, "since", "only what happened no longer ago than this")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := conn.ParseHost(args[0])
		if err != nil {
			return term.Usage("hostler host ls", "%s", err)
		}
		r, err := a.Coordinator()
		if err != nil {
			return err
		}
		return show.Items(cmd.Context(), a.UI, v, hostEventNoun(), func(ctx context.Context) (all []api.HostEvent, err error) {
			q := url.Values{"limit": {"1000"}}
			if v.Limit > 0 {
				q.Set("limit", strconv.Itoa(min(v.Limit, 1000)))
			}
			if since.Value > 0 {
				q.Set("since", a.Now().Add(-since.Value).UTC().Format(time.RFC3339))
			}
			err = r.Get(ctx, "/v1/hosts/"+url.PathEscape(string(id))+"/events", q, &all)
			return all, term.Cannot("list the events of "+args[0], err)
		})
	}
	return cmd
}

// errEnough ends a stream of events that has given what was asked for.
var errEnough = errors.New("enough")

func (a *commands) eventsCommand() *cobra.Command {
	var since term.DurationFlag
	var after uint64
	cmd := &cobra.Command{
		Use: "events", Short: "Follow what happens in the fleet", Args: term.NoArgs,
		Long: `Prints each event as it happens, until Ctrl-C or --limit. It begins now, unless
--since or --after say otherwise. After a lost connection it continues where it
stopped: no event is left out. After a recovery of the coordinator the events are
numbered anew; it says so, and continues with the first of them.`,
		Example: "  hostler events\n  hostler events --since 2h\n  hostler events --after 1700 --limit 100 -o json",
	}
	v := show.FormatFlags(cmd)
	v.One, v.Watch = false, true
	cmd.Flags().Var(&since, "since", "begin with events of this long ago")
	cmd.Flags().Uint64Var(&after, "after", 0, "begin after the event with this number")
	cmd.Flags().Var(term.Count(&v.Limit), "limit", "end after this many (0: never)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if since.Value > 0 && cmd.Flags().Changed("after") {
			return term.Usage("hostler events --help", "--since and --after cannot be combined")
		}
		r, err := a.Coordinator()
		if err != nil {
			return err
		}
		from := uint64(client.FromNow)
		if cmd.Flags().Changed("after") {
			from = after
		}
		var begin time.Time
		if since.Value > 0 {
			from, begin = 0, a.Now().Add(-since.Value)
		}
		return term.Cannot("follow the events", a.followEvents(cmd.Context(), r, v, from, begin))
	}
	return cmd
}

// followEvents prints events until there are enough or the user ends it.
func (a *commands) followEvents(ctx context.Context, r *conn.Remote, v *show.View, from uint64, begin time.Time) error {
	limit := v.Limit
	one := *v
	one.Limit = 0
	t := &show.Table[api.Event]{UI: a.UI, Noun: eventNoun(), View: &one, Widths: []int{6, 20, 20, 12, 36, 0}}
	printed := 0
	followed := false // from is an id that the coordinator gave
	handle := func(e api.Event) error {
		from, followed = e.ID, true
		if e.At.Before(begin) {
			return nil
		}
		if err := t.Print(a.Out, []api.Event{e}); err != nil {
			return err
		}
		if printed++; printed == limit {
			return errEnough
		}
		return nil
	}
	var again conn.Retry
	for try := 1; ; try++ {
		begun := a.Now()
		err := r.Events(ctx, from, handle)
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			return term.ErrInterrupted
		case err == nil:
			err = fmt.Errorf("%w: the events ended", client.ErrUnreachable)
		}
		if try == 1 && term.NeverAsked(err) {
			return err // no server is there, rather than a line that breaks
		}
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeGone && followed {
			a.Say("hostler: the events after %d are no longer stored, perhaps because of a recovery of the coordinator; continuing with the oldest one", from)
			from, followed = 0, false
			continue
		}
		if a.Now().Sub(begun) > conn.LastRetry {
			again = conn.Retry{} // it worked for a while
		}
		if again.Since.IsZero() && errors.Is(err, client.ErrUnreachable) && !conn.Untrusted(err) {
			a.Say("hostler: the connection was lost, trying again")
		}
		if err := again.Wait(ctx, a.Now(), err); err != nil {
			return err
		}
	}
}
