package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// explanation is why something stands where it stands.
type explanation struct {
	Object string         `json:"object"`
	State  string         `json:"state"`
	Why    show.Sentences `json:"why"` // sentences, the first is the nearest
	Next   show.Sentences `json:"next,omitempty"`
	// Action is the action that is explained, or the open ones of what is.
	Action  *api.Action  `json:"action,omitempty"`
	Actions []api.Action `json:"actions,omitempty"`
}

func explanationNoun() show.Noun[explanation] {
	return show.NounOf[explanation]("object", "object state why next", nil)
}

// Why returns hostler why.
func Why(d *dispatch.Dispatcher) *cobra.Command {
	a := &commands{Dispatcher: d}
	cmd := &cobra.Command{
		Use: "why {ACTION | HOST | [HOST/]NAME}", Short: "Explain the state of an action, a host or a container", Args: term.Exactly(1),
		Long: `Explains what an action waits for, what a host has to do, or the state of a
container. Where only the host can know, it is asked, and has one second to answer.`,
		Example: "  hostler why 0199f3\n  hostler why edge-01\n  hostler why edge-01/web --watch", ValidArgsFunction: a.Completing(conn.AnyOf(conn.HostNames, conn.ContainerNames, conn.OpenIDs)),
	}
	v := show.ShowFlags(cmd)
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		return show.Item(cmd.Context(), a.UI, v, explanationNoun(), func(ctx context.Context) (explanation, error) {
			e, err := a.explain(ctx, r, args[0])
			return e, term.Cannot("explain "+args[0], err)
		})
	})
	return cmd
}

// explain finds out what is meant, and explains it.
func (a *commands) explain(ctx context.Context, r *conn.Remote, object string) (explanation, error) {
	if strings.Contains(object, "/") {
		return a.explainContainer(ctx, r, object)
	}
	if r.Local {
		if _, err := protocol.ParseActionID(object); err != nil {
			if e, err := a.explainContainer(ctx, r, object); !term.IsNotFound(err) {
				return e, err
			}
		}
		return a.explainNamed(ctx, r, object, "container")
	}
	if id, err := protocol.ParseHostID(object); err == nil {
		h, err := r.Host(ctx, id)
		if err == nil {
			return a.explainHost(ctx, r, h)
		}
		if !term.IsNotFound(err) {
			return explanation{}, err
		}
	}
	if e, err := a.explainUnique(ctx, r, object); !term.IsNotFound(err) {
		return e, err
	}
	return a.explainNamed(ctx, r, object, "host")
}

// explainUnique explains where a unique container is, or why it is nowhere.
func (a *commands) explainUnique(ctx context.Context, r *conn.Remote, name string) (explanation, error) {
	var p api.Placement
	if err := r.Get(ctx, "/v1/placement/"+url.PathEscape(name), nil, &p); err != nil {
		return explanation{}, err
	}
	e := explanation{Object: "unique container " + p.Name, State: p.Phase}
	e.addPlacement(&p)
	if p.Phase == "held" {
		e.Next = append(e.Next, "hostler why "+p.Host+"/"+p.Name)
	}
	e.Next = append(e.Next, "hostler placement show "+p.Name)
	return e, nil
}

// addPlacement tells what holds a unique container, and what hosts say to it.
func (e *explanation) addPlacement(p *api.Placement) {
	switch left := (time.Duration(p.LeftMS) * time.Millisecond).Round(time.Second); {
	case p.Phase == "held" && left > 0:
		e.Why = append(e.Why, fmt.Sprintf("host %s may run it under epoch %s; the lease of the host is good for %s", p.Host, p.Epoch, left))
	case p.Phase == "held":
		e.Why = append(e.Why, fmt.Sprintf("it is held by host %s, whose lease has ended or is not known yet%s", p.Host, reasonOf(p.Why)))
	default:
		e.Why = append(e.Why, fmt.Sprintf("no host may run it: %s", p.Why))
	}
	if p.Restored != "" {
		e.Why = append(e.Why, "when its host was lost it was "+p.Restored)
	}
	if m := p.Move; m != nil {
		e.Why = append(e.Why, fmt.Sprintf("%s moves it to host %s%s", m.By, m.To, reasonOf(m.Reason)))
	}
	if m := p.Moved; m != nil && m.Dropped != "" && p.Move == nil {
		e.Why = append(e.Why, fmt.Sprintf("its move to host %s by %s was dropped: %s", m.To, m.By, m.Dropped))
	}
	for _, text := range p.Copies {
		e.Why = append(e.Why, "it runs where it may not: "+text)
	}
	for _, v := range p.Verdicts {
		text := fmt.Sprintf("host %s can take it, score %d", v.Host, v.Score)
		if v.Reason != "" {
			text = fmt.Sprintf("host %s cannot take it: %s", v.Host, v.Reason)
		}
		e.Why = append(e.Why, text)
	}
}

// reasonOf is a reason behind a colon; nothing if none was given.
func reasonOf(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// explainNamed explains an action, when the object is nothing else that has a name.
func (a *commands) explainNamed(ctx context.Context, r *conn.Remote, object, other string) (explanation, error) {
	act, err := r.ActionWhy(ctx, object)
	if p, ok := errors.AsType[*api.Problem](err); ok && (p.Code == api.CodeNotFound || p.Code == api.CodeBadReference) {
		return explanation{}, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("there is no %s and no action %s", other, object), Next: "hostler action ls"}
	}
	if err != nil {
		return explanation{}, err
	}
	return a.explainAction(act), nil
}

func (a *commands) explainAction(act api.Action) explanation {
	e := explanation{Object: "action " + act.ID, State: cmp.Or(act.Shown, act.State), Action: &act}
	add := func(format string, args ...any) { e.Why = append(e.Why, fmt.Sprintf(format, args...)) }
	if w := act.Waits; w != nil {
		add("%s", dispatch.WaitsWord(w))
		if w.Action != "" {
			e.Next = append(e.Next, "hostler why "+w.Action)
		}
	}
	switch final := protocol.State(act.State).Final(); {
	case !final && act.Detail != "":
		add("%s", term.Printable(act.Detail))
	case final:
		add("it has ended: %s", cmp.Or(act.Detail, act.Reason))
		if act.Exit != nil {
			e.Next = append(e.Next, "hostler action logs "+act.ID)
		}
		return e
	}
	if act.HostStartedAt == nil && act.ExpiresAt != nil && protocol.State(act.State) != protocol.StateRunning {
		left := act.ExpiresAt.Sub(a.Now())
		if left > 0 {
			add("it expires in %s", term.Roughly(left))
		} else {
			add("it has expired; its host confirms that when it is connected")
		}
	}
	add("requested by %s %s", act.Requester, term.Ago(act.CreatedAt, a.Now()))
	if protocol.State(act.State) == protocol.StatePendingApprove {
		e.Next = append(e.Next, "hostler action approve "+act.ID)
	}
	e.Next = append(e.Next, "hostler action cancel "+act.ID)
	return e
}

func (a *commands) explainHost(ctx context.Context, r *conn.Remote, h conn.HostView) (explanation, error) {
	e := explanation{Object: "host " + h.ID, State: h.State}
	add := func(format string, args ...any) { e.Why = append(e.Why, fmt.Sprintf(format, args...)) }
	switch {
	case h.State == "revoked":
		add("it was revoked %s", strings.TrimSuffix(whenOf(h.RevokedAt, a.Now())+": "+h.Reason, ": "))
		e.Next = append(e.Next, "hostler host replace "+h.ID)
	case h.State == "replacing":
		add("its machine was revoked %s; it waits for a new machine", strings.TrimSuffix(whenOf(h.RevokedAt, a.Now())+": "+h.Reason, ": "))
		e.Next = append(e.Next, "hostler host replace "+h.ID+", for another join code")
	case h.State == conn.EnrolmentPending:
		add("it waits for approval")
		e.Next = append(e.Next, "hostler host approve "+h.ID, "hostler host deny "+h.ID)
	case h.State == "denied":
		add("%s", strings.TrimSuffix("it was denied: "+h.Reason, ": "))
		e.Next = append(e.Next, "hostler host invite, for another try")
	case h.Quarantined != "":
		add("it is quarantined: %s", h.Quarantined)
		e.Next = append(e.Next, "hostler host readmit "+h.ID)
	case h.Connectivity == "online":
		add("it is online")
	case h.SeenAt != nil:
		add("it is %s: last seen %s", h.Connectivity, term.Ago(*h.SeenAt, a.Now()))
	case h.InventoryAt != nil:
		add("it is %s: it has not connected since the coordinator started; its last report is from %s", h.Connectivity, term.Ago(*h.InventoryAt, a.Now()))
	default:
		add("it is %s", cmp.Or(h.Connectivity, h.State))
	}
	for _, alert := range h.ActiveAlerts {
		add("%s: %s", alert.Severity, alert.Text)
	}
	all, err := r.Actions(ctx, conn.ActionQuery{Host: h.ID, States: conn.OpenStates()})
	if term.IsNotFound(err) {
		err = nil
	}
	a.addOpen(&e, h.ID, all)
	return e, err
}

// whenOf says how long ago something was; nothing if it is unknown.
func whenOf(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return term.Ago(*at, now)
}

// namedActions is how many open actions are named one by one.
const namedActions = 3

func (a *commands) addOpen(e *explanation, host string, all []api.Action) {
	e.Actions = all
	for i, act := range all {
		if i == namedActions {
			ls := "hostler action ls --open"
			if host != "" {
				ls = "hostler action ls " + host + " --open"
			}
			e.Why = append(e.Why, fmt.Sprintf("and %d others: %s", len(all)-i, ls))
			break
		}
		e.Why = append(e.Why, fmt.Sprintf("%s %s: %s", strings.TrimSpace(act.Kind+" "+act.Name), act.ID, cmp.Or(act.Shown, act.State)))
	}
	if len(all) > 0 {
		e.Next = append(e.Next, "hostler why "+all[len(all)-1].ID)
	}
}

func (a *commands) explainContainer(ctx context.Context, r *conn.Remote, object string) (explanation, error) {
	name, err := conn.ParseRef(object, r.Local)
	if err != nil {
		return explanation{}, term.Usage("hostler ct ls", "%s", err)
	}
	c, err := r.Container(ctx, name)
	if err != nil {
		return explanation{}, err
	}
	e := explanation{Object: "container " + name.String(), State: c.State}
	add := func(format string, args ...any) { e.Why = append(e.Why, fmt.Sprintf(format, args...)) }
	switch {
	case c.CTID == "":
		add("it is foreign: it was not made by Hostler, and leaves it alone")
	case c.Broken != "":
		add("it is broken: %s", c.Broken)
		e.Next = append(e.Next, "hostler ct reset "+name.String())
	case c.Intended != "" && c.Intended != c.State:
		add("it should be %s", c.Intended)
		if c.Failures > 0 {
			add("the last %d starts have failed", c.Failures)
		}
	default:
		add("it is as it should be")
	}
	if c.CTID == "" {
		return e, nil
	}
	if c.Class == contract.Unique && !r.Local {
		var p api.Placement
		if err := r.Get(ctx, "/v1/placement/"+url.PathEscape(c.CTID), nil, &p); err == nil {
			e.addPlacement(&p)
		} else if !term.IsNotFound(err) {
			return e, err
		}
	}
	all, err := r.Actions(ctx, conn.ActionQuery{Host: string(name.Host), States: conn.OpenStates()})
	if err != nil {
		return e, err
	}
	var here []api.Action
	for _, act := range all {
		if act.Target == c.CTID {
			here = append(here, act)
		}
	}
	a.addOpen(&e, string(name.Host), here)
	return e, nil
}
