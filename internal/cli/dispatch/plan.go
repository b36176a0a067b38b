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
func needsOf(ctx context.Context, r *conn.Remote, host protocol.HostID, spec []byte) (string, error) {
	if r.Local {
		return "as the policy of this host says", nil
	}
	var act api.Action
	err := r.Post(ctx, "/v1/actions", url.Values{"dry_run": {"true"}}, api.NewAction{Host: string(host), Spec: spec}, &act)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusForbidden {
		return "it is refused: " + p.Detail, nil
	}
	if err != nil {
		return "", err
	}
	return cmp.Or(approvalsWord(act), "none"), nil
}

// DryRun prints what would be asked.
func (a *Dispatcher) DryRun(ctx context.Context, r *conn.Remote, v *show.View, hosts []protocol.HostID, kind protocol.Kind, spec []byte) error {
	var plans []Plan
	for _, h := range hosts {
		p, err := PlanOf(ctx, r, h, kind, spec)
		if err != nil {
			return term.Cannot("tell what would be done on "+cmp.Or(string(h), "this host"), err)
		}
		plans = append(plans, p)
	}
	return show.Print(a.UI, v, PlanNoun(), plans)
}

// Plan is what --dry-run shows of an action.
type Plan struct {
	Host      string `json:"host"`
	Kind      string `json:"kind"`
	Spec      any    `json:"spec"`
	Digest    string `json:"digest"`
	Approvals string `json:"approvals"`
	text      string // the spec as it would be signed
}

// PlanNoun prints plans.
func PlanNoun() show.Noun[Plan] {
	return show.NounOf("digest", "host kind spec digest approvals", show.Cells[Plan]{
		"spec": func(p Plan) any { return p.text },
	})
}

// PlanOf tells what would be asked of a host, and what it would need.
func PlanOf(ctx context.Context, r *conn.Remote, host protocol.HostID, kind protocol.Kind, spec []byte) (Plan, error) {
	p := Plan{Host: cmp.Or(string(host), "this host"), Kind: string(kind), Digest: protocol.Sum(spec).String(), text: string(spec)}
	var err error
	if p.Approvals, err = needsOf(ctx, r, host, spec); err != nil {
		return p, err
	}
	return p, protocol.DecodeJSON(spec, &p.Spec, true)
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
