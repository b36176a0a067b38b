package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

const (
	// lookEvery is how often it is looked at what the coordinator sees.
	lookEvery = time.Second
	// cutAfter is how long after its beginning a drill has cut the host off for certain:
	// what was on its way has arrived.
	cutAfter = 2 * time.Second
	// calm is how long alerts of a host that is back, and what it tells of its containers,
	// are waited for.
	calm = time.Minute
)

// follow watches the drill to its end, and then until the host has told how it is. A ping
// that is sent when the host is cut off shows when it answers again.
func (d *drill) follow(ctx context.Context) error {
	d.sight.moved = map[string]move{}
	shown, ping := "online", ""
	for d.sight.back.IsZero() && d.Now().Before(d.sight.ends.Add(comeBack)) {
		h, leases, alerts, err := d.look(ctx)
		if err != nil {
			return err
		}
		now := d.Now()
		if h.Connectivity != shown {
			shown = h.Connectivity
			d.Say("%s: %s", d.host, term.Printable(presence(shown, h.Presence)))
		}
		if d.sight.away.IsZero() && h.Connectivity != "online" && now.After(d.sight.begins) {
			d.sight.away = now
		}
		switch {
		case now.Before(d.sight.begins.Add(cutAfter)):
		case ping == "":
			d.cutOff(leases)
			if ping, err = d.ping(ctx); err != nil {
				return err
			}
		default:
			answered, err := d.answered(ctx, ping)
			if err != nil {
				return err
			}
			if answered {
				d.sight.back = d.Now()
			}
		}
		d.noteMoves(leases, now)
		d.noteAlerts(alerts)
		if err := term.Pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	if d.sight.back.IsZero() {
		d.sight.unseen = "not known: the host is not back"
		return nil
	}
	d.Say("%s: it answers again", d.host)
	return d.lookAfter(ctx)
}

// ping orders a ping, and returns its id.
func (d *drill) ping(ctx context.Context) (string, error) {
	spec, err := dispatch.EncodeSpec(protocol.Spec{Kind: protocol.KindPing, Args: new(protocol.NoArgs)})
	if err != nil {
		return "", err
	}
	act, err := d.Submit(ctx, d.r, d.host, spec)
	if err == nil && act.State == string(protocol.StatePendingApprove) {
		err = errors.Join(
			&term.Failure{Code: term.ExitRefused, What: "a ping of " + string(d.host) + " needs approvals", Why: "a drill sees by pings whether the host answers", Next: "hostler policy show " + string(d.host)},
			d.Abandon(ctx, d.r, act.ID))
	}
	return act.ID, err
}

// answered reports whether the host has carried a ping out, as far as that is known.
func (d *drill) answered(ctx context.Context, ping string) (bool, error) {
	act, err := d.r.Action(ctx, ping, 0)
	if errors.Is(err, client.ErrUnreachable) {
		return false, nil // look waits for the coordinator
	}
	if err != nil || !protocol.State(act.State).Final() {
		return false, err
	}
	return true, dispatch.Ended("ping "+string(d.host), act)
}

// look asks the coordinator, over restarts of it.
func (d *drill) look(ctx context.Context) (h conn.HostView, leases map[string]api.Lease, alerts []string, err error) {
	var again conn.Retry
	for {
		if h, err = d.r.Member(ctx, d.host); err == nil {
			leases, err = d.held(ctx)
		}
		if err == nil {
			alerts, err = d.alerts(ctx)
		}
		if err == nil {
			return h, leases, alerts, nil
		}
		if err := again.Wait(ctx, d.Now(), err); err != nil {
			return h, nil, nil, err
		}
	}
}

// cutOff notes for how long leases are good, now that the host renews none: counted from
// the beginning of the drill.
func (d *drill) cutOff(leases map[string]api.Lease) {
	since := d.Now().Sub(d.sight.begins)
	for _, c := range d.plan.containers {
		if l, ok := leases[c.ctid]; ok && l.Host == string(d.host) && c.lease != nil {
			d.sight.leases[c.ctid] = since + time.Duration(l.LeftMS)*time.Millisecond
		}
	}
}

// noteMoves notes which unique containers another host holds.
func (d *drill) noteMoves(leases map[string]api.Lease, now time.Time) {
	for _, c := range d.plan.containers {
		l, ok := leases[c.ctid]
		if _, known := d.sight.moved[c.ctid]; known || !ok || c.lease == nil || l.Phase != "held" || l.Host == string(d.host) {
			continue
		}
		d.sight.moved[c.ctid] = move{term.Printable(l.Host), now}
		d.Say("%s: %s holds it now", term.Printable(c.name), term.Printable(l.Host))
	}
}

// noteAlerts notes which alerts were raised since the beginning, and which are there now.
func (d *drill) noteAlerts(now []string) {
	d.sight.left = nil
	for _, id := range now {
		if slices.Contains(d.before, id) {
			continue
		}
		d.sight.left = append(d.sight.left, id)
		if !slices.Contains(d.sight.raised, id) {
			d.sight.raised = append(d.sight.raised, id)
		}
	}
}

// lookAfter looks at what the host is when it is back: when its alerts are cleared, or
// that takes too long.
func (d *drill) lookAfter(ctx context.Context) error {
	for {
		_, _, alerts, err := d.look(ctx)
		if err != nil {
			return err
		}
		d.noteAlerts(alerts)
		told, err := d.told(ctx)
		switch {
		case err != nil:
			return err
		case told && len(d.sight.left) == 0, d.Now().After(d.sight.back.Add(calm)):
			return d.compare(ctx)
		}
		if err := term.Pause(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// told reports whether the containers that are still held here run again, as far as they
// are meant to.
func (d *drill) told(ctx context.Context) (bool, error) {
	all, err := d.r.Containers(ctx, d.host)
	if err != nil {
		return false, err
	}
	for _, c := range d.plan.containers {
		i := slices.IndexFunc(all, func(o api.Container) bool { return o.CTID == c.ctid })
		if _, moved := d.sight.moved[c.ctid]; !moved && i >= 0 && all[i].Intended == "running" && all[i].State != "running" && c.run.pid != 0 {
			return false, nil
		}
	}
	return true, nil
}

// compare notes which containers run as before, and how those ended that do not.
func (d *drill) compare(ctx context.Context) error {
	all, err := d.r.Containers(ctx, d.host)
	if err != nil {
		return err
	}
	d.sight.containers = map[string]found{}
	for _, c := range d.plan.containers {
		if !slices.ContainsFunc(all, func(o api.Container) bool { return o.CTID == c.ctid }) {
			continue
		}
		now, ends, err := d.runOf(ctx, c)
		if err != nil {
			return err
		}
		f := found{run: now}
		for _, e := range ends {
			if e.At.After(c.run.ended) {
				f.causes = append(f.causes, e.Cause)
			}
		}
		d.sight.containers[c.name] = f
	}
	return nil
}

// presence is a line about how a host stands, with the reason if one is told.
func presence(state, why string) string {
	if why == "" {
		return state
	}
	return fmt.Sprintf("%s (%s)", state, why)
}
