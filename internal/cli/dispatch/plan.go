package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// needsOf asks the coordinator which approvals an action would need.
// and on which host it would be.
func needsOf(ctx context.Context, r *conn.Remote, at Target) (needs, host string, err error) {
	host = cmp.Or(string(at.Host), "this host")
	if r.Local {
		return "as the policy of this host says", host, nil
	}
	var act api.Action
	err = r.Post(ctx, "/v1/actions", url.Values{"dry_run": {"true"}}, api.NewAction{Host: string(at.Host), Place: at.Place, Spec: at.Spec}, &act)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusForbidden {
		return "it is refused: " + p.Detail, host, nil
	}
	if err != nil {
		return "", "", err
	}
	return cmp.Or(approvalsWord(act), "none"), act.Host, nil
}

// Target is somewhere that something is to be done.
type Target struct {
	Label string // HOST, or HOST/NAME
	Host  protocol.HostID
	Spec  []byte
	Place *api.Wishes // see [Change]
}

// OnHosts makes the targets of hosts that do the same.
func OnHosts(spec []byte, hosts ...protocol.HostID) []Target {
	return conn.Each(hosts, func(h protocol.HostID) Target {
		return Target{Label: cmp.Or(string(h), "this host"), Host: h, Spec: spec}
	})
}

// plan is what --dry-run shows of an action.
type plan struct {
	Host      string `json:"host"`
	Kind      string `json:"kind"`
	Spec      any    `json:"spec"`
	Digest    string `json:"digest"`
	Approvals string `json:"approvals"`
	text      string // the spec as it would be signed
}

// DryRun prints what would be asked, and what it would need.
func (a *Dispatcher) DryRun(ctx context.Context, r *conn.Remote, v *show.View, places ...Target) error {
	var plans []plan
	for _, at := range places {
		p := plan{Digest: protocol.Sum(at.Spec).String(), text: string(at.Spec)}
		s, err := protocol.DecodeSpec(at.Spec)
		if err == nil {
			p.Kind = string(s.Kind)
			p.Approvals, p.Host, err = needsOf(ctx, r, at)
		}
		if err == nil {
			err = protocol.DecodeJSON(at.Spec, &p.Spec, true)
		}
		if err != nil {
			return term.Cannot("tell what would be done on "+at.Label, err)
		}
		plans = append(plans, p)
	}
	return show.Print(a.UI, v, show.NounOf("digest", "host kind spec~ digest approvals~", show.Cells[plan]{
		"spec": func(p plan) any { return p.text },
	}), plans)
}

// EncodeSpec writes a spec as it is going to be signed, and refuses what the
// host would refuse.
func EncodeSpec(s protocol.Spec) ([]byte, error) {
	if err := checkUTF8(s); err != nil {
		return nil, err
	}
	b, err := show.Encode(s, false)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	b = b[:len(b)-1] // the line end
	if _, err := protocol.DecodeRequest(b); err != nil {
		// Of what the command line says wrong, the words of the spec are enough.
		what := strings.TrimPrefix(err.Error(), fmt.Sprintf("%s: %s: ", protocol.ErrSpec.Error(), s.Kind))
		return nil, term.Usage("", "%s", what)
	}
	return b, nil
}

// checkUTF8 refuses what JSON cannot carry. Its encoder would put something else
// in the place of such bytes, and another command would run than was asked for.
func checkUTF8(s protocol.Spec) error {
	for _, t := range s.Texts() {
		if !utf8.ValidString(t) {
			return &term.Failure{
				Code: term.ExitUsage, What: fmt.Sprintf("%.60q is not UTF-8", t),
				Why:  "names and arguments travel as text; input and output may hold any bytes",
				Next: "hostler run HOST --stdin SCRIPT -- sh    # a script that has these bytes",
			}
		}
	}
	return nil
}
