package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
)

func eventNoun() noun[api.Event] {
	return noun[api.Event]{
		name: func(e api.Event) string { return fmt.Sprint(e.ID) },
		columns: []column[api.Event]{
			{"id", inTable, func(e api.Event) any { return e.ID }},
			{"at", inTable, func(e api.Event) any { return e.At }},
			{"type", inTable, func(e api.Event) any { return e.Type }},
			{"host", inTable, func(e api.Event) any { return e.Host }},
			{"object", inTable, func(e api.Event) any { return e.Object }},
			{"data", inTable, func(e api.Event) any {
				if len(e.Data) == 0 {
					return ""
				}
				b, err := encode(e.Data, false)
				if err != nil {
					return err.Error()
				}
				return string(b[:len(b)-1])
			}},
		},
	}
}

// errEnough ends a stream of events that has given what was asked for.
var errEnough = errors.New("enough")

func (a *app) eventsCommand() *cobra.Command {
	var since durationFlag
	var after uint64
	cmd := &cobra.Command{
		Use: "events", Short: "Follow what happens in the fleet", Args: noArgs,
		Long: `Prints each event as it happens, until it is ended by Ctrl-C or --limit. It begins
now, unless --since or --after say otherwise. After a loss of the connection it
goes on where it stopped: no event is left out. A recovery of the coordinator
begins the events anew; it says so, and goes on with the first of them.`,
		Example: "  hostler events\n  hostler events --since 2h\n  hostler events --after 1700 --limit 100 -o json",
	}
	v := formatFlags(cmd)
	v.one, v.watch = false, true
	cmd.Flags().Var(&since, "since", "begin with what happened this long ago")
	cmd.Flags().Uint64Var(&after, "after", 0, "begin behind the event with this number")
	cmd.Flags().Var(countFlag{&v.limit}, "limit", "end after this many (0: never)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if since.d > 0 && cmd.Flags().Changed("after") {
			return usage("hostler events --help", "the events begin at --since or at --after, and not at both")
		}
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		from := uint64(client.FromNow)
		if cmd.Flags().Changed("after") {
			from = after
		}
		var begin time.Time
		if since.d > 0 {
			from, begin = 0, a.now().Add(-since.d)
		}
		return cannot("follow the events", a.followEvents(cmd.Context(), r, v, from, begin))
	}
	return cmd
}

// followEvents prints events until there are enough or the user ends it.
func (a *app) followEvents(ctx context.Context, r *remote, v *view, from uint64, begin time.Time) error {
	limit := v.limit
	one := *v
	one.limit = 0
	t := &table[api.Event]{app: a, noun: eventNoun(), view: &one, widths: []int{6, 20, 20, 12, 36, 0}}
	printed := 0
	followed := false // from is an id that the coordinator gave
	handle := func(e api.Event) error {
		from, followed = e.ID, true
		if e.At.Before(begin) {
			return nil
		}
		if err := t.print(a.out, []api.Event{e}); err != nil {
			return err
		}
		if printed++; printed == limit {
			return errEnough
		}
		return nil
	}
	var again retry
	for try := 1; ; try++ {
		begun := a.now()
		err := r.Events(ctx, from, handle)
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			return errInterrupted
		case err == nil:
			err = fmt.Errorf("%w: the events ended", client.ErrUnreachable)
		}
		if try == 1 && neverAsked(err) {
			return err // there is nobody, rather than a line that breaks
		}
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeGone && followed {
			a.say("hostler: what came behind event %d is not there any more, as after a recovery of the coordinator; going on with the first that is", from)
			from, followed = 0, false
			continue
		}
		if a.now().Sub(begun) > lastRetry {
			again = retry{} // it worked for a while
		}
		if again.since.IsZero() && errors.Is(err, client.ErrUnreachable) && !untrusted(err) {
			a.say("hostler: the events broke off, trying again")
		}
		if err := again.wait(ctx, a.now(), err); err != nil {
			return err
		}
	}
}
