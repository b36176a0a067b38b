package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

// defaultValid is how long an approval holds if nobody says otherwise: the rest
// of a working day.
const defaultValid = 8 * time.Hour

// approving is how one approves.
type approving struct {
	key, gpg string
	valid    durationFlag
	yes      bool
}

func (a *app) approveCommand() *cobra.Command {
	c := &approving{}
	var view *view
	cmd := &cobra.Command{
		Use: "approve ID…", Short: "Sign that actions may be done", Args: atLeast(1),
		Long: `Shows exactly what the actions do, and signs it with your key: this program reads
the bytes that the host will read, and the signature is over their digest. The
host verifies it; the coordinator only carries it. Actions that do the same are
signed for together, up to 500 of them by one signature.

The key is the one of this machine that the ring has as an approver's, or the one
that --key or --gpg names. Every approval names its actions, holds for the time
of --valid (at most 7d), and is good once.`,
		Example: `  hostler action approve 0199f3
  hostler action approve 0199f3 019a02 --key work --valid 2h
  hostler action approve $(hostler action ls --pending -o name) --gpg alice`,
		ValidArgsFunction: a.completingAll(pendingIDs),
	}
	f := cmd.Flags()
	f.StringVar(&c.key, "key", "", "a key of this machine, or a file with one")
	f.StringVar(&c.gpg, "gpg", "", "a user of your own gpg, which signs")
	f.Var(&c.valid, "valid", "how long the approval holds (default 8h)")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("key", a.completeKeys)
	view = formatFlags(cmd)
	view.one = false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.key != "" && c.gpg != "" {
			return usage("", "there are two keys to sign with: --key and --gpg")
		}
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		given, err := a.approve(cmd.Context(), r, c, args)
		if err != nil && len(given) == 0 {
			return cannot("approve", err)
		}
		if err := errors.Join(printAll(a, view, approvedNoun(), given), cannot("approve what is not shown here", err)); err != nil {
			return err
		}
		return refusedOf(given)
	}
	return cmd
}

func approvedNoun() noun[api.Approved] {
	return noun[api.Approved]{
		name: func(g api.Approved) string { return g.Action },
		columns: []column[api.Approved]{
			{"action", inTable, func(g api.Approved) any { return g.Action }},
			{"host", inTable, func(g api.Approved) any { return g.Host }},
			{"state", inTable, func(g api.Approved) any { return words{g.State, cmp.Or(g.Shown, g.State)} }},
			{"missing", inTable, func(g api.Approved) any { return g.Missing }},
			{"detail", inTable, func(g api.Approved) any { return g.Detail }},
		},
	}
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
	return &failure{code: exitFailed, what: fmt.Sprintf("%d of %d actions cannot be approved", failed, len(given)), why: why, next: "hostler action ls --pending"}
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
func (a *app) approve(ctx context.Context, r *remote, c *approving, ids []string) ([]api.Approved, error) {
	life := defaultValid
	if c.valid.d > 0 {
		life = c.valid.d
	}
	if life > protocol.MaxApprovalLife {
		return nil, usage("the same with --valid 7d", "an approval holds for 7d at most, --valid is %s", life)
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
	f, chain, err := a.fetchRings(ctx, r, "")
	if err != nil {
		return nil, err
	}
	for _, b := range bundles {
		a.showBundle(b)
	}
	k, person, err := a.approver(f, chain, c)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, b := range bundles {
		n += len(b.actions)
	}
	a.say("You sign as %s of fleet %s, with key %s, for %s from now.", person, f.name, k.public.Key(), life)
	if err := a.confirm(c.yes, fmt.Sprintf("Approve %d action(s)?", n)); err != nil {
		return nil, err
	}
	signer, err := a.signer(k)
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
func findBundles(ctx context.Context, r *remote, ids []string) ([]bundle, error) {
	var all []bundle
	seen := map[string]bool{}
	for _, id := range ids {
		act, err := r.action(ctx, id, 0)
		if err != nil {
			return nil, err
		}
		if seen[act.ID] {
			continue
		}
		seen[act.ID] = true
		spec, err := protocol.DecodeSpec(act.Spec)
		if err != nil {
			return nil, &failure{
				code: exitRefused, what: "cannot tell what action " + act.ID + " does", why: err.Error(),
				next: "a newer hostler: nobody should sign what they cannot read",
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

// anyOpen refuses before anybody has read what he would sign, if all of it has ended.
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
	return &failure{
		code: exitFailed, what: "there is nothing to approve", next: "hostler action ls --pending",
		why: fmt.Sprintf("action %s has ended: %s", last.ID, cmp.Or(last.Shown, last.State)),
	}
}

// showBundle prints what a signature is for.
func (a *app) showBundle(b bundle) {
	line := func(name, value string) {
		if value != "" {
			a.say("  %-10s %s", name+":", printable(value))
		}
	}
	s := b.decoded
	a.say("%s", s.Kind)
	line("command", quotedWords(s.Argv))
	if len(s.Argv) > 0 || s.TTY != nil {
		line("user", cmp.Or(s.User, "root"))
		line("directory", cmp.Or(s.Cwd, "/"))
		line("variables", quotedWords(s.Env))
	}
	switch {
	case s.SecretEnv == nil:
	case s.SecretEnv.Named():
		line("secret", quotedWords(s.SecretEnv.Names)+", whose values nobody here can read")
	default:
		line("secret", "variables whose names and values nobody here can read: they can make anything of the command")
	}
	if s.HasPayload() {
		line("stdin", fmt.Sprintf("%d bytes, SHA-256 %s, which nobody here can read", s.StdinBytes, s.StdinSHA256))
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
		all[i] = shellWords([]string{w})
		if strings.ContainsFunc(w, func(r rune) bool { return !strconv.IsPrint(r) }) {
			all[i] = strconv.Quote(w)
		}
	}
	return strings.Join(all, " ")
}

// callContainers finds out what the containers are called that actions are about:
// what their requests call them is the word of who asks.
func callContainers(ctx context.Context, r *remote, bundles []bundle) error {
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
				if all, err = r.containers(ctx, protocol.HostID(act.Host)); err != nil && !isNotFound(err) {
					return cannot("list the containers of host "+act.Host, err)
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
	case s.Kind == protocol.KindCreate:
		return []string{"a new one, " + string(s.Name) + " " + s.Target.String()}
	}
	var all []string
	for _, act := range b.actions {
		name, ok := b.called[act.Host]
		text := name + " " + s.Target.String()
		switch {
		case !ok:
			text = s.Target.String() + ", of which host " + act.Host + " has told nothing"
			if s.Name != "" {
				text += fmt.Sprintf("; who asks calls it %q, which nobody has verified", s.Name)
			}
		case s.Name != "" && name != string(s.Name):
			text += fmt.Sprintf(" on host %s; NOT %q, as who asks calls it", act.Host, s.Name)
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// approver returns the key to sign with, and as whom the ring knows it.
func (a *app) approver(f fleetFiles, chain *certs.Chain, c *approving) (personKey, string, error) {
	people := map[protocol.KeyID]string{}
	for _, p := range chain.Ring().People {
		for _, raw := range p.Keys {
			if k, err := certs.ParsePublicKey(raw); err == nil {
				people[k.Key()] = p.Person
			}
		}
	}
	candidates, err := a.candidates(c)
	if err != nil {
		return personKey{}, "", err
	}
	known := slices.DeleteFunc(slices.Clone(candidates), func(k personKey) bool { return people[k.public.Key()] == "" })
	switch {
	case len(known) == 1:
		return known[0], people[known[0].public.Key()], nil
	case len(known) > 1:
		return personKey{}, "", usage("the same with --key "+known[0].name, "several keys of this machine are approvers': %q", names(known, func(k personKey) string { return k.name }))
	case len(candidates) == 0:
		return personKey{}, "", &failure{
			code: exitRefused, what: "this machine has no key to sign with", why: "a token alone approves nothing",
			next: "hostler key generate, or hostler key import --gpg USER",
		}
	}
	return personKey{}, "", &failure{
		code: exitRefused, what: fmt.Sprintf("no approver of ring %d has key %s", chain.Ring().Number, candidates[0].public.Key()),
		why:  "no owner of fleet " + string(f.name) + " has let it in, or it was taken out",
		next: "hostler key export, and on the machine of an owner: hostler fleet ring add-approver PERSON FILE --out RING",
	}
}

// candidates are the keys that may be meant.
func (a *app) candidates(c *approving) ([]personKey, error) {
	switch {
	case c.gpg != "":
		g, err := a.newGPGSigner(c.gpg)
		if err != nil {
			return nil, err
		}
		return []personKey{{name: c.gpg, public: g.public}}, nil
	case c.key != "":
		k, err := a.findKey(c.key)
		return []personKey{k}, err
	}
	return a.keys()
}

// approveBundle signs for one bundle and hands the signature over.
func (a *app) approveBundle(ctx context.Context, r *remote, chain *certs.Chain, signer protocol.Signer, b bundle, life time.Duration) ([]api.Approved, error) {
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
	doc, err := protocol.NewApproval(chain.Ring().Fleet, chain.Ring().Number, b.spec, targets, a.now(), life)
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
		return nil, &failure{
			code: exitRefused, what: "nobody would take the signature", why: err.Error(),
			next: "hostler fleet ring add-approver PERSON FILE    # with the key as it is now", err: err,
		}
	}
	var given []api.Approved
	err = r.Post(ctx, "/v1/approvals", nil, ask, &given)
	return given, err
}

func (a *app) denyCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "deny ID…", Short: "End actions that wait for approval", Args: atLeast(1),
		Long: `Ends actions that wait for approval: one person who says no is enough, whatever
others have signed. What was approved already is ended by hostler action cancel.`,
		Example: "  hostler action deny 0199f3 --reason 'not during the day'", ValidArgsFunction: a.completingAll(pendingIDs),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever asked")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.eachAction(cmd.Context(), args, "deny", api.Reason{Reason: reason}, func(act api.Action) {
			if reason != "" && !strings.HasSuffix(act.Detail, fmt.Sprintf(": %q", reason)) {
				a.say("Action %s was denied before, and that stays: %s", act.ID, printable(act.Detail))
				return
			}
			a.say("Action %s is denied.", act.ID)
		})
	}
	return cmd
}

func (a *app) nudgeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "nudge ID…", Short: "Let the coordinator look at actions again", Args: atLeast(1),
		Long: `Has the coordinator look again at actions that wait: whether they have the
approvals that they need, and whether they can be sent. It does so by itself once
a minute, and as soon as something happens; nudging changes nothing else.`,
		Example: "  hostler action nudge 0199f3", ValidArgsFunction: a.completingAll(openIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachAction(cmd.Context(), args, "nudge", nil, func(act api.Action) {
				fmt.Fprintf(a.out, "%s %s\n", printable(act.ID), printable(cmp.Or(act.Shown, act.State)))
			})
		},
	}
}

// eachAction asks for the same about several actions, and for all of them
// although some fail.
func (a *app) eachAction(ctx context.Context, ids []string, verb string, ask any, tell func(api.Action)) error {
	r, err := a.coordinator()
	if err != nil {
		return err
	}
	var failed error
	for _, id := range ids {
		var act api.Action
		if err := r.Post(ctx, "/v1/actions/"+url.PathEscape(id)+"/"+verb, nil, ask, &act); err != nil {
			err = cannot(verb+" action "+id, err)
			if failed != nil {
				a.say("hostler: %s", printable(failed.Error()))
			}
			failed = err
			continue
		}
		tell(act)
	}
	return failed
}

// pendingIDs are those of actions that wait for approval.
func pendingIDs(ctx context.Context, r *remote) ([]string, error) {
	all, err := r.actionsIn(ctx, actionQuery{states: []string{string(protocol.StatePendingApprove)}, limit: completionLimit})
	return names(all, func(a api.Action) string { return a.ID }), err
}

// approvalsWord tells in a few words what an action waits for, or who has
// approved it.
func approvalsWord(a api.Action) string {
	var parts []string
	for _, n := range a.Needs {
		word := fmt.Sprintf("%d of %d", n.Persons-n.Missing, n.Persons)
		if len(n.From) > 0 {
			word += " by " + strings.Join(n.From, ", ")
		}
		if n.Not != "" {
			word += ", not " + n.Not
		}
		parts = append(parts, word+" ("+n.Why+")")
	}
	return strings.Join(parts, "; ")
}

func approvedWord(g api.Approval) string {
	word := g.Person + " until " + g.ExpiresAt.UTC().Format(time.RFC3339)
	if !g.Counts {
		word += " (does not count now)"
	}
	return word
}

// sayWaits tells whoever asked for an action that people must approve it first.
func (a *app) sayWaits(act api.Action) {
	if act.State != string(protocol.StatePendingApprove) {
		return
	}
	a.say("hostler: action %s waits for approval: %s", act.ID, printable(approvalsWord(act)))
	a.say("hostler: a person of the ring gives it: hostler action approve %s", act.ID)
}

// needsOf asks the coordinator which approvals an action would need.
func needsOf(ctx context.Context, r *remote, host protocol.HostID, spec []byte) (string, error) {
	if r.local {
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
