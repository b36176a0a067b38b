package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// defaultValid is how long an approval holds unless its signer says otherwise: the rest
// of a working day.
const defaultValid = 8 * time.Hour

// approving is how one approves.
type approving struct {
	key, gpg string
	valid    term.DurationFlag
	yes      bool
}

func (a *commands) approveCommand() *cobra.Command {
	c := &approving{}
	var view *show.View
	cmd := &cobra.Command{
		Use: "approve ID…", Short: "Approve actions with your signature", Args: term.AtLeast(1),
		Long: `Shows exactly what the actions do, and signs it with your key: this program reads
the bytes that the host will read, and signs their digest. The host verifies the
signature; the coordinator only carries it. Actions that do the same are signed
together, up to 500 with one signature.

The key is the one on this machine that the ring lists for an approver, or the one
that --key or --gpg names. Every approval names its actions, is valid for the time
of --valid (at most 7d), and can be used once.`,
		Example: `  hostler action approve 0199f3
  hostler action approve 0199f3 019a02 --key work --valid 2h
  hostler action approve $(hostler action ls --pending -o name) --gpg alice`,
		ValidArgsFunction: a.CompletingAll(pendingIDs),
	}
	f := cmd.Flags()
	f.StringVar(&c.key, "key", "", "a key of this machine, or a file with one")
	f.StringVar(&c.gpg, "gpg", "", "sign with gpg, as this user")
	f.Var(&c.valid, "valid", "how long the approval is valid (default 8h)")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("key", a.keys.CompleteKeys)
	view = show.FormatFlags(cmd)
	view.One = false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.key != "" && c.gpg != "" {
			return term.Usage("", "--key and --gpg cannot be combined")
		}
		r, err := a.Coordinator()
		if err != nil {
			return err
		}
		given, err := a.approve(cmd.Context(), r, c, args)
		if err != nil && len(given) == 0 {
			return term.Cannot("approve", err)
		}
		if err := errors.Join(show.Print(a.UI, view, approvedNoun(), given), term.Cannot("approve what is not shown here", err)); err != nil {
			return err
		}
		return refusedOf(given)
	}
	return cmd
}

func approvedNoun() show.Noun[api.Approved] {
	return show.NounOf("action", "action host state missing~ detail~", show.Cells[api.Approved]{
		"state": func(g api.Approved) any { return show.Words{Machine: g.State, People: cmp.Or(g.Shown, g.State)} },
	})
}

// refusedOf tells that some of the actions could not be approved.
func refusedOf(given []api.Approved) error {
	failed := 0
	why := ""
	for _, g := range given {
		if g.Code != "" {
			failed++
			why = cmp.Or(why, g.Detail)
		}
	}
	if failed == 0 {
		return nil
	}
	return &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("%d of %d actions cannot be approved", failed, len(given)), Why: why, Next: "hostler action ls --pending"}
}

// bundle is what one signature is for: actions that do the same.
type bundle struct {
	spec    []byte
	decoded protocol.Spec
	actions []api.Action
	// called tells what each host calls the container that the actions are about; it
	// is missing where the host has told of none of its id.
	called map[string]string
}

// approve shows actions, asks, signs, and hands the signatures over. With an error it
// returns what was taken before.
func (a *commands) approve(ctx context.Context, r *conn.Remote, c *approving, ids []string) ([]api.Approved, error) {
	life := defaultValid
	if c.valid.Value > 0 {
		life = c.valid.Value
	}
	if life > protocol.MaxApprovalLife {
		return nil, term.Usage("use --valid 7d", "an approval is valid for 7d at most, --valid is %s", life)
	}
	bundles, err := findBundles(ctx, r, ids)
	if err != nil {
		return nil, err
	}
	if err := anyOpen(bundles); err != nil {
		return nil, err
	}
	if err := callContainers(ctx, r, bundles); err != nil {
		return nil, err
	}
	f, chain, err := a.FetchRings(ctx, r, "")
	if err != nil {
		return nil, err
	}
	for _, b := range bundles {
		a.showBundle(b)
	}
	k, person, err := a.keys.Approver(string(f.Name), chain, c.key, c.gpg)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, b := range bundles {
		n += len(b.actions)
	}
	a.Say("You sign as %s of fleet %s, with key %s, for %s from now.", person, f.Name, k.Public.Key(), life)
	if err := a.Confirm(c.yes, fmt.Sprintf("Approve %d action(s)?", n)); err != nil {
		return nil, err
	}
	signer, err := a.keys.Signer(k)
	if err != nil {
		return nil, err
	}
	var given []api.Approved
	for _, b := range bundles {
		some, err := a.approveBundle(ctx, r, chain, signer, b, life)
		if err != nil {
			return given, err
		}
		given = append(given, some...)
	}
	return given, nil
}

// findBundles fetches actions and puts those together that do the same, as many as
// one signature may name. What they do is read from the bytes that will be signed
// for, and from nothing else.
func findBundles(ctx context.Context, r *conn.Remote, ids []string) ([]bundle, error) {
	var all []bundle
	seen := map[string]bool{}
	for _, id := range ids {
		act, err := r.Action(ctx, id, 0)
		if err != nil {
			return nil, err
		}
		if seen[act.ID] {
			continue
		}
		seen[act.ID] = true
		spec, err := protocol.DecodeSpec(act.Spec)
		if err != nil {
			return nil, &term.Failure{
				Code: term.ExitRefused, What: "cannot show what action " + act.ID + " does", Why: err.Error(),
				Next: "use a newer hostler: sign only what it can show",
			}
		}
		i := slices.IndexFunc(all, func(b bundle) bool {
			return string(b.spec) == string(act.Spec) && len(b.actions) < protocol.MaxTargets
		})
		if i < 0 {
			all = append(all, bundle{spec: act.Spec, decoded: spec})
			i = len(all) - 1
		}
		all[i].actions = append(all[i].actions, act)
	}
	return all, nil
}

// anyOpen refuses, before the signer reads anything, if all of it has ended.
// Among others one that has ended is told of at the end, beside them.
func anyOpen(bundles []bundle) error {
	var last api.Action
	for _, b := range bundles {
		for _, act := range b.actions {
			if !protocol.State(act.State).Final() {
				return nil
			}
			last = act
		}
	}
	return &term.Failure{
		Code: term.ExitFailed, What: "nothing waits for approval", Next: "hostler action ls --pending",
		Why: fmt.Sprintf("action %s has ended: %s", last.ID, cmp.Or(last.Shown, last.State)),
	}
}

// showBundle prints what a signature is for.
func (a *commands) showBundle(b bundle) {
	line := func(name, value string) {
		if value != "" {
			a.Say("  %-10s %s", name+":", term.Printable(value))
		}
	}
	s, p := &b.decoded, b.decoded.Process()
	a.Say("%s", s.Kind)
	line("command", quotedWords(p.Argv))
	if len(p.Argv) > 0 || s.Kind.Interactive() {
		line("user", cmp.Or(p.User, "root"))
		line("directory", cmp.Or(p.Cwd, "/"))
		line("variables", quotedWords(p.Env))
	}
	switch secret := s.Secret(); {
	case secret == nil:
	case secret.Named():
		line("secret", quotedWords(secret.Names)+", whose values only the host can read")
	default:
		line("secret", "variables that only the host can read: they can change the command completely")
	}
	if in := s.Input(); s.HasPayload() {
		line("stdin", fmt.Sprintf("%d bytes, SHA-256 %s, which cannot be shown here", in.StdinBytes, in.StdinSHA256))
	}
	for _, c := range b.containers() {
		line("container", c)
	}
	// Everything else stands in the bytes: nothing that is signed stays unseen.
	line("spec", string(b.spec))
	line("digest", protocol.Sum(b.spec).String())
	var hosts []string
	for _, act := range b.actions {
		hosts = append(hosts, act.Host)
		if len(b.actions) <= 20 {
			line("on", act.Host+", as action "+act.ID+", requested by "+act.Requester)
		}
	}
	if len(b.actions) > 20 {
		line("on", fmt.Sprintf("%d hosts: %s", len(hosts), strings.Join(hosts, " ")))
	}
}

// quotedWords is shellWords for who signs: what would not be seen, as the end of a
// line, is written out.
func quotedWords(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = dispatch.ShellWords([]string{w})
		if strings.ContainsFunc(w, func(r rune) bool { return !strconv.IsPrint(r) }) {
			all[i] = strconv.Quote(w)
		}
	}
	return strings.Join(all, " ")
}

// callContainers finds out what the containers are called that actions are about:
// what their requests call them is the word of who asks.
func callContainers(ctx context.Context, r *conn.Remote, bundles []bundle) error {
	known := map[string][]api.Container{}
	for i := range bundles {
		b := &bundles[i]
		if b.decoded.Target.IsZero() {
			continue
		}
		b.called = map[string]string{}
		for _, act := range b.actions {
			all, asked := known[act.Host]
			if !asked {
				var err error
				if all, err = r.Containers(ctx, protocol.HostID(act.Host)); err != nil && !term.IsNotFound(err) {
					return term.Cannot("list the containers of host "+act.Host, err)
				}
				known[act.Host] = all
			}
			for _, c := range all {
				if c.CTID == b.decoded.Target.String() {
					b.called[act.Host] = c.Name
				}
			}
		}
	}
	return nil
}

// containers says which container the actions are about: by the name that its host
// gives it. Another one is told of as what it is, the word of who asks.
func (b *bundle) containers() []string {
	s := &b.decoded
	switch {
	case s.Target.IsZero():
		return nil
	case s.Kind == protocol.KindAdopt:
		one := "a foreign one, "
		if protocol.ArgsOf[protocol.AdoptArgs](s).Privileged {
			one = "a foreign one, which may be privileged (root in it is root of the host), "
		}
		return []string{one + string(s.Name) + " " + s.Target.String()}
	case s.Kind == protocol.KindCreate:
		one := "a new one, "
		if protocol.ArgsOf[protocol.CreateArgs](s).Privileged {
			one = "a new privileged one (root in it is root of the host), "
		}
		return []string{one + string(s.Name) + " " + s.Target.String()}
	}
	var all []string
	for _, act := range b.actions {
		name, ok := b.called[act.Host]
		text := name + " " + s.Target.String()
		switch {
		case !ok:
			text = s.Target.String() + ", which host " + act.Host + " has not reported"
			if s.Name != "" {
				text += fmt.Sprintf("; the requester calls it %q, which is not verified", s.Name)
			}
		case s.Name != "" && name != string(s.Name):
			text += fmt.Sprintf(" on host %s; NOT %q, as the requester calls it", act.Host, s.Name)
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// approveBundle signs for one bundle and hands the signature over.
func (a *commands) approveBundle(ctx context.Context, r *conn.Remote, chain *certs.Chain, signer protocol.Signer, b bundle, life time.Duration) ([]api.Approved, error) {
	var list []protocol.Target
	ask := api.NewApproval{}
	for _, act := range b.actions {
		host, err := protocol.ParseHostID(act.Host)
		if err != nil {
			return nil, err
		}
		id, err := protocol.ParseActionID(act.ID)
		if err != nil {
			return nil, err
		}
		list = append(list, protocol.Target{Host: host, Action: id})
		ask.Targets = append(ask.Targets, api.Target{Host: act.Host, Action: act.ID})
	}
	targets, err := protocol.NewTargets(list...)
	if err != nil {
		return nil, err
	}
	doc, err := protocol.NewApproval(chain.Ring().Fleet, chain.Ring().Number, b.spec, targets, a.Now(), life)
	if err != nil {
		return nil, err
	}
	if ask.Approval, err = doc.Seal(signer); err != nil {
		return nil, err
	}
	// What was signed is held against the ring before it leaves: a card or an
	// agent may have used a subkey that the ring does not have.
	keys := certs.NewKeys(chain)
	x := protocol.Expect{Fleet: chain.Ring().Fleet, FleetName: chain.Ring().Name, Keys: keys}
	if _, _, err := protocol.OpenApproval(ask.Approval, x); err != nil {
		return nil, &term.Failure{
			Code: term.ExitRefused, What: "the hosts would refuse the signature", Why: err.Error(),
			Next: "hostler fleet ring add-approver PERSON FILE    # with the key as it is now", Err: err,
		}
	}
	var given []api.Approved
	err = r.Post(ctx, "/v1/approvals", nil, ask, &given)
	return given, err
}

func (a *commands) denyCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "deny ID…", Short: "End actions that wait for approval", Args: term.AtLeast(1),
		Long: `Ends actions that wait for approval: one denial is enough, whatever others have
signed. To end an approved action, use hostler action cancel.`,
		Example: "  hostler action deny 0199f3 --reason 'not during the day'", ValidArgsFunction: a.CompletingAll(pendingIDs),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the requester")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.eachAction(cmd.Context(), args, "deny", api.Reason{Reason: reason}, func(act api.Action) {
			a.Say("Action %s is denied (%s).", act.ID, term.Printable(act.Detail))
		})
	}
	return cmd
}

func (a *commands) nudgeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "nudge ID…", Short: "Make the coordinator check waiting actions now", Args: term.AtLeast(1),
		Long: `Makes the coordinator check waiting actions again: whether they have the needed
approvals, and whether they can be sent. It does so by itself once a minute, and
as soon as something happens.`,
		Example: "  hostler action nudge 0199f3", ValidArgsFunction: a.CompletingAll(conn.OpenIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachAction(cmd.Context(), args, "nudge", nil, func(act api.Action) {
				fmt.Fprintf(a.Out, "%s %s\n", term.Printable(act.ID), term.Printable(cmp.Or(act.Shown, act.State)))
			})
		},
	}
}

// eachAction asks for the same about several actions, and for all of them
// although some fail.
func (a *commands) eachAction(ctx context.Context, ids []string, verb string, ask any, tell func(api.Action)) error {
	r, err := a.Coordinator()
	if err != nil {
		return err
	}
	var failed error
	for _, id := range ids {
		var act api.Action
		if err := r.Post(ctx, "/v1/actions/"+url.PathEscape(id)+"/"+verb, nil, ask, &act); err != nil {
			err = term.Cannot(verb+" action "+id, err)
			if failed != nil {
				a.Say("hostler: %s", term.Printable(failed.Error()))
			}
			failed = err
			continue
		}
		tell(act)
	}
	return failed
}

// pendingIDs are those of actions that wait for approval.
func pendingIDs(ctx context.Context, r *conn.Remote) ([]string, error) {
	all, err := r.Actions(ctx, conn.ActionQuery{States: []string{string(protocol.StatePendingApprove)}, Limit: conn.CompletionLimit})
	return conn.Each(all, func(a api.Action) string { return a.ID }), err
}
