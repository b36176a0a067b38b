package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

func (a *app) policyCommand() *cobra.Command {
	return group("policy", "What needs whose approval on hosts", a.policyCheckCommand(), a.policySignCommand(), a.policySetCommand(), a.policyShowCommand())
}

// signaturesOf is where the signatures of a policy are kept: beside it.
func signaturesOf(file string) string { return file + ".signed" }

// readPolicy reads a policy that could be put into force.
func readPolicy(file string, hosts ...protocol.HostID) (*policy.Policy, []byte, error) {
	text, err := durable.ReadFile(file, policy.MaxText)
	if err != nil {
		return nil, nil, err
	}
	p, err := policy.Parse(file, text)
	if named, ok := strings.CutSuffix(file, signaturesOf("")); ok && err != nil {
		return nil, nil, usage("", "%s holds the signatures of a policy; they are read beside it: name %s", file, named)
	}
	if err != nil {
		return nil, nil, err
	}
	return p, text, p.Check(hosts...)
}

func (a *app) policyCheckCommand() *cobra.Command {
	var host string
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Read a policy and list the ways around it", Args: exactly(1),
		Long: `Reads a policy as a host does. A policy that asks for approvals of one thing, and
for fewer of another by which the first could be had, is refused with the list of
these ways, unless it says allow_bypass = true. Nothing is asked of anybody.`,
		Example: "  hostler policy check policy.toml\n  hostler policy check policy.toml --host db-1",
		RunE: func(_ *cobra.Command, args []string) error {
			var hosts []protocol.HostID
			if host != "" {
				id, err := parseHost(host)
				if err != nil {
					return usage("", "--host: %s", err)
				}
				hosts = append(hosts, id)
			}
			p, _, err := readPolicy(args[0], hosts...)
			if err != nil {
				return cannot("take the policy "+args[0], err)
			}
			a.warnOfHoles(p, hosts...)
			a.say("%s can be put into force.", args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&host, "host", "", "only as it is on this host (default: on every host that there could be)")
	return cmd
}

// warnOfHoles lists what a policy accepts by allow_bypass.
func (a *app) warnOfHoles(p *policy.Policy, hosts ...protocol.HostID) {
	holes := p.Holes(hosts...)
	if len(holes) == 0 {
		return
	}
	a.say("allow_bypass = true: the policy can be bypassed in %d ways:", len(holes))
	for _, h := range holes {
		a.say("  %s", h)
	}
}

// signing is how one signs a policy.
type signing struct {
	number   uint64
	hosts    []string
	key, gpg string
	yes      bool
	fleet    *string
}

func (a *app) policySignCommand() *cobra.Command {
	c := &signing{}
	cmd := &cobra.Command{
		Use: "sign FILE --number N", Short: "Sign a policy, or add a signature to it", Args: exactly(1),
		Long: `Signs the policy in FILE and keeps the signature in FILE.signed, beside those that
are there. Hosts take a policy that as many owners have signed as sign a ring, or
those whom the policy in force demands for policy.set. N is higher than that of
every policy before; without --host it is for all hosts of the fleet.

It signs with the owner's key of this machine, or with the key that --key or
--gpg names.`,
		Example: "  hostler policy sign policy.toml --number 3\n  hostler policy sign policy.toml --key alice    # the second signature",
	}
	c.fleet = a.fleetFlag(cmd)
	f := cmd.Flags()
	f.Uint64Var(&c.number, "number", 0, "number of the policy; the second signer need not say it")
	f.StringSliceVar(&c.hosts, "host", nil, "hosts that it is for (default: all)")
	f.StringVar(&c.key, "key", "", "a key of this machine, or a file with one")
	f.StringVar(&c.gpg, "gpg", "", "a user of your own gpg, which signs")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("key", a.completeKeys)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if c.key != "" && c.gpg != "" {
			return usage("", "there are two keys to sign with: --key and --gpg")
		}
		return cannot("sign the policy "+args[0], a.signPolicy(c, args[0]))
	}
	return cmd
}

func (a *app) signPolicy(c *signing, file string) error {
	_, chain, err := a.chooseFleet(*c.fleet)
	if err != nil {
		return err
	}
	p, text, err := readPolicy(file)
	if err != nil {
		return err
	}
	if len(text) > protocol.MaxPolicy {
		return fmt.Errorf("it has %d bytes, at most %d travel: put it into /etc/hostler/policy.toml of each host instead", len(text), protocol.MaxPolicy)
	}
	signed, d, err := a.pendingPolicy(c, chain, file, text)
	if err != nil {
		return err
	}
	signer, err := a.policySigner(c, chain)
	if err != nil {
		return err
	}
	a.warnOfHoles(p)
	whom := "all hosts of the fleet"
	if len(d.Hosts) > 0 {
		whom = fmt.Sprint(d.Hosts)
	}
	a.say("Policy %d of fleet %s for %s: %s, digest %s.", d.Number, chain.Ring().Name, whom, file, d.Policy)
	if err := a.confirm(c.yes, fmt.Sprintf("Sign it with key %s?", signer.Key())); err != nil {
		return err
	}
	one, err := d.Seal(signer)
	if err != nil {
		return err
	}
	all, err := certs.JoinSignatures(append(signed, one)...)
	if err != nil {
		return err
	}
	envelopes := bytes.Split(all, []byte("\n"))
	_, who, err := openPolicy(chain, envelopes)
	if err != nil {
		return err
	}
	if err := replaceFile(signaturesOf(file), append(all, '\n'), 0o644); err != nil {
		return err
	}
	owners := 0
	for _, w := range who {
		if w.Can(protocol.RoleOwner) {
			owners++
		}
	}
	a.say("Signed by %s: %d of the %d owners that put any policy into force.", strings.Join(personsOf(who), ", "), owners, chain.Ring().Threshold)
	a.say("Next: hostler policy set %s HOST…, or hostler policy sign %s by another", file, file)
	return nil
}

// pendingPolicy is what is to be signed: what others have signed already, else a
// new document.
func (a *app) pendingPolicy(c *signing, chain *certs.Chain, file string, text []byte) ([][]byte, protocol.PolicyDocument, error) {
	signed, err := readSignatures(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newPolicy(c, chain, text, a.now().UnixMilli())
	}
	if err != nil {
		return nil, protocol.PolicyDocument{}, err
	}
	d, _, err := openPolicy(chain, signed)
	switch {
	case err != nil:
		return nil, d, fmt.Errorf("%s: %w", signaturesOf(file), err)
	case d.Policy != protocol.Sum(text) || c.number > d.Number: // that of an older text
		if c.number <= d.Number {
			return nil, d, usage("", "%s has signatures for another text, of number %d: sign this one with a higher --number", signaturesOf(file), d.Number)
		}
		return newPolicy(c, chain, text, a.now().UnixMilli())
	case c.number != 0 && c.number != d.Number || c.hosts != nil:
		return nil, d, usage("", "others have signed it with number %d for hosts %v: sign without --number and --host", d.Number, d.Hosts)
	}
	return signed, d, nil
}

func newPolicy(c *signing, chain *certs.Chain, text []byte, now int64) ([][]byte, protocol.PolicyDocument, error) {
	d := protocol.PolicyDocument{Type: protocol.TypePolicy, Fleet: chain.Ring().Fleet, Number: c.number, Policy: protocol.Sum(text), IssuedMS: now, Ring: chain.Ring().Number}
	if c.number == 0 {
		return nil, d, usage("", "the number of the policy is missing: --number, higher than that of every policy before")
	}
	for _, h := range c.hosts {
		id, err := parseHost(h)
		if err != nil {
			return nil, d, usage("", "--host: %s", err)
		}
		d.Hosts = append(d.Hosts, id)
	}
	slices.Sort(d.Hosts)
	d.Hosts = slices.Compact(d.Hosts)
	return nil, d, nil
}

// policySigner is the key to sign with: the one that is named, else the owner's.
func (a *app) policySigner(c *signing, chain *certs.Chain) (protocol.Signer, error) {
	switch {
	case c.gpg != "":
		return a.newGPGSigner(c.gpg)
	case c.key != "":
		k, err := a.findKey(c.key)
		if err != nil {
			return nil, err
		}
		return a.signer(k)
	}
	f, err := a.fleetFiles(string(chain.Ring().Name))
	if err != nil {
		return nil, err
	}
	return f.owner()
}

func readSignatures(file string) ([][]byte, error) {
	b, err := readSmall(signaturesOf(file))
	if err != nil {
		return nil, err
	}
	return bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n")), nil
}

func openPolicy(chain *certs.Chain, signed [][]byte) (protocol.PolicyDocument, []protocol.Principal, error) {
	r := chain.Ring()
	return protocol.OpenPolicy(signed, protocol.Expect{Fleet: r.Fleet, FleetName: r.Name, Keys: certs.NewKeys(chain)})
}

func personsOf(who []protocol.Principal) []string {
	var all []string
	for _, w := range who {
		all = append(all, w.Person)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (a *app) policySetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set FILE {HOST… | -l SELECTOR | -A}", Short: "Put a signed policy into force on hosts", Args: atLeast(1),
		Long: `Brings the policy in FILE with the signatures in FILE.signed to hosts. Each verifies
them against its own ring and the policy in force there; a file of root on the
host, /etc/hostler/policy.toml, is in force over every signed policy.

Hosts that are away are waited for, unless --no-wait-offline or --wait says
otherwise, and keep it from no other: they take it when they are back. With
several hosts the exit code is 1 if it did not come into force on any one of them,
5 if the time to wait was over before, 6 if only hosts that are away are left.`,
		Example: "  hostler policy set policy.toml edge-01 edge-02\n  hostler policy set policy.toml -A",
	}
	c := changeFlags(cmd)
	sel := selectionFlags(cmd, "approved hosts")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := policySpec(args[0])
		if err != nil {
			return cannot("read the policy", err)
		}
		r, err := a.connect()
		if err != nil {
			return err
		}
		if err := errors.Join(sel.check(len(args)-1), sel.fits(r.local, false)); err != nil {
			return err
		}
		ctx := cmd.Context()
		hosts, err := a.chooseHosts(ctx, r, args[1:], sel, true)
		if err != nil {
			return err
		}
		if sel.single(len(hosts), c.view) || r.local || len(hosts) == 1 && (c.noWait || c.dryRun) {
			return a.do(ctx, r, c, ref{host: hosts[0]}, "set the policy of "+cmp.Or(string(hosts[0]), "this host"), "under the new policy", s)
		}
		spec, err := encodeSpec(s)
		if err != nil {
			return err
		}
		if c.dryRun {
			return a.dryRun(ctx, r, c.view, hosts, s.Kind, spec)
		}
		var places []place
		for _, h := range hosts {
			places = append(places, place{label: string(h), host: h, spec: spec})
		}
		m := sel.many
		m.view, m.noWait, m.verb = c.view, c.noWait, "set the policy"
		return a.doMany(ctx, r, &m, places)
	}
	return cmd
}

func policySpec(file string) (protocol.Spec, error) {
	_, text, err := readPolicy(file)
	if err != nil {
		return protocol.Spec{}, err
	}
	signed, err := readSignatures(file)
	if errors.Is(err, fs.ErrNotExist) {
		return protocol.Spec{}, &failure{code: exitRefused, what: "nobody has signed " + file, next: "hostler policy sign " + file + " --number N", err: err}
	}
	return protocol.Spec{Kind: protocol.KindPolicySet, Policy: text, Signed: signed}, err
}

// policyView is the policy of a host.
type policyView struct {
	Host string `json:"host"`
	api.Policy
}

func policyNoun() noun[policyView] {
	return noun[policyView]{
		name: func(p policyView) string { return p.Host },
		columns: []column[policyView]{
			{"host", inTable, func(p policyView) any { return p.Host }},
			{"source", inTable, func(p policyView) any { return p.Source }},
			{"number", inTable, func(p policyView) any { return p.Number }},
			{"bypass", inTable, func(p policyView) any { return p.Bypass }},
			{"digest", inTable, func(p policyView) any { return p.Digest }},
			{"broken", inTable, func(p policyView) any { return p.Broken }},
		},
	}
}

func (a *app) policyShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [HOST]", Short: "Show which policy is in force on hosts", Args: atMost(1),
		Long:    "Shows what hosts last told of the policy in force there. Its text is on the host: hostler-agent policy show.",
		Example: "  hostler policy show\n  hostler policy show edge-01 -o json", ValidArgsFunction: a.completing(hostNames),
	}
	v := listFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		one, err := parseOneHost(args, false)
		if err != nil {
			return err
		}
		return show(cmd.Context(), a, v, policyNoun(), func(ctx context.Context) ([]policyView, error) {
			all, err := r.hosts(ctx)
			var views []policyView
			for _, h := range all {
				if h.Policy != nil && (one == "" || string(one) == h.ID) {
					views = append(views, policyView{h.ID, *h.Policy})
				}
			}
			if err == nil && one != "" && len(views) == 0 {
				err = &failure{code: exitNotFound, what: "nothing is known of the policy of host " + string(one), next: "hostler host ls"}
			}
			return views, cannot("list the policies", err)
		})
	}
	return cmd
}
