// Package policies checks, signs and sets the policies of hosts: hostler policy.
package policies

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
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/keyring"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

type commands struct {
	*batch.Batcher
	keys *keyring.Store
}

// Command returns hostler policy.
func Command(b *batch.Batcher, keys *keyring.Store) *cobra.Command {
	a := &commands{b, keys}
	return term.Group("policy", "Which actions need approvals on hosts", a.policyCheckCommand(), a.policySignCommand(), a.policySetCommand(), a.policyShowCommand())
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
		return nil, nil, term.Usage("", "%s holds the signatures of a policy: name the policy itself, %s", file, named)
	}
	if err != nil {
		return nil, nil, err
	}
	return p, text, p.Check(hosts...)
}

func (a *commands) policyCheckCommand() *cobra.Command {
	var host string
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Read a policy and list the ways around it", Args: term.Exactly(1),
		Long: `Reads a policy as a host does. A policy is refused if an action that needs
approvals can be replaced by one that needs fewer; the ways around are listed. With
allow_bypass = true they are only warnings. No coordinator is asked.`,
		Example: "  hostler policy check policy.toml\n  hostler policy check policy.toml --host db-1",
		RunE: func(_ *cobra.Command, args []string) error {
			var hosts []protocol.HostID
			if host != "" {
				id, err := conn.ParseHost(host)
				if err != nil {
					return term.Usage("", "--host: %s", err)
				}
				hosts = append(hosts, id)
			}
			p, _, err := readPolicy(args[0], hosts...)
			if err != nil {
				return term.Cannot("take the policy "+args[0], err)
			}
			a.warnOfHoles(p, hosts...)
			a.Say("%s can be put into force.", args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&host, "host", "", "check it for this host (default: for all hosts)")
	return cmd
}

// warnOfHoles lists what a policy accepts by allow_bypass.
func (a *commands) warnOfHoles(p *policy.Policy, hosts ...protocol.HostID) {
	holes := p.Holes(hosts...)
	if len(holes) == 0 {
		return
	}
	a.Say("allow_bypass = true: the policy can be bypassed in %d ways:", len(holes))
	for _, h := range holes {
		a.Say("  %s", h)
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

func (a *commands) policySignCommand() *cobra.Command {
	c := &signing{}
	cmd := &cobra.Command{
		Use: "sign FILE --number N", Short: "Sign a policy, or add a signature", Args: term.Exactly(1),
		Long: `Signs the policy in FILE and adds the signature to FILE.signed. Either set of
signatures is enough for a host: (a) of as many owners as sign a ring, or (b) of
the people that the policy in force names for policy.set. N must be higher than the
number of every policy before; without --host it is for all hosts of the fleet.

It signs with the owner's key of this machine, or with the key that --key or
--gpg names.`,
		Example: "  hostler policy sign policy.toml --number 3\n  hostler policy sign policy.toml --key alice    # the second signature",
	}
	c.fleet = a.FleetFlag(cmd)
	f := cmd.Flags()
	f.Uint64Var(&c.number, "number", 0, "number of the policy; only the first signer gives it")
	f.StringSliceVar(&c.hosts, "host", nil, "hosts of the policy (default: all)")
	f.StringVar(&c.key, "key", "", "a key of this machine, or a file with one")
	f.StringVar(&c.gpg, "gpg", "", "sign with gpg, as this user")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("key", a.keys.CompleteKeys)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if c.key != "" && c.gpg != "" {
			return term.Usage("", "--key and --gpg cannot be combined")
		}
		return term.Cannot("sign the policy "+args[0], a.signPolicy(c, args[0]))
	}
	return cmd
}

func (a *commands) signPolicy(c *signing, file string) error {
	_, chain, err := a.ChooseFleet(*c.fleet)
	if err != nil {
		return err
	}
	p, text, err := readPolicy(file)
	if err != nil {
		return err
	}
	if len(text) > protocol.MaxPolicy {
		return fmt.Errorf("it has %d bytes, at most %d can be sent: put it into /etc/hostler/policy.toml of each host instead", len(text), protocol.MaxPolicy)
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
	a.Say("Policy %d of fleet %s for %s: %s, digest %s.", d.Number, chain.Ring().Name, whom, file, d.Policy)
	if err := a.Confirm(c.yes, fmt.Sprintf("Sign it with key %s?", signer.Key())); err != nil {
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
	if err := conn.ReplaceFile(signaturesOf(file), append(all, '\n'), 0o644); err != nil {
		return err
	}
	owners := 0
	for _, w := range who {
		if w.Can(protocol.RoleOwner) {
			owners++
		}
	}
	a.Say("Signed by %s: %d of the %d owners who can put any policy into force.", strings.Join(personsOf(who), ", "), owners, chain.Ring().Threshold)
	a.Say("Next: hostler policy set %s HOST…, or hostler policy sign %s by another", file, file)
	return nil
}

// pendingPolicy is what is to be signed: what others have signed already, else a
// new document.
func (a *commands) pendingPolicy(c *signing, chain *certs.Chain, file string, text []byte) ([][]byte, protocol.PolicyDocument, error) {
	signed, err := readSignatures(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newPolicy(c, chain, text, a.Now().UnixMilli())
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
			return nil, d, term.Usage("", "%s has signatures of another text, number %d: sign this one with a higher --number", signaturesOf(file), d.Number)
		}
		return newPolicy(c, chain, text, a.Now().UnixMilli())
	case c.number != 0 && c.number != d.Number || c.hosts != nil:
		return nil, d, term.Usage("", "others have signed it with number %d for hosts %v: sign without --number and --host", d.Number, d.Hosts)
	}
	return signed, d, nil
}

func newPolicy(c *signing, chain *certs.Chain, text []byte, now int64) ([][]byte, protocol.PolicyDocument, error) {
	d := protocol.PolicyDocument{Type: protocol.TypePolicy, Fleet: chain.Ring().Fleet, Number: c.number, Policy: protocol.Sum(text), IssuedMS: now, Ring: chain.Ring().Number}
	if c.number == 0 {
		return nil, d, term.Usage("", "the number of the policy is missing: --number, higher than that of every policy before")
	}
	for _, h := range c.hosts {
		id, err := conn.ParseHost(h)
		if err != nil {
			return nil, d, term.Usage("", "--host: %s", err)
		}
		d.Hosts = append(d.Hosts, id)
	}
	slices.Sort(d.Hosts)
	d.Hosts = slices.Compact(d.Hosts)
	return nil, d, nil
}

// policySigner is the key to sign with: the one that is named, else the owner's.
func (a *commands) policySigner(c *signing, chain *certs.Chain) (protocol.Signer, error) {
	switch {
	case c.gpg != "":
		return a.keys.NewGPGSigner(c.gpg)
	case c.key != "":
		k, err := a.keys.FindKey(c.key)
		if err != nil {
			return nil, err
		}
		return a.keys.Signer(k)
	}
	f, err := a.FleetFiles(string(chain.Ring().Name))
	if err != nil {
		return nil, err
	}
	return f.Owner()
}

func readSignatures(file string) ([][]byte, error) {
	b, err := conn.ReadSmall(signaturesOf(file))
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

func (a *commands) policySetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set FILE {HOST… | -l SELECTOR | -A}", Short: "Put a signed policy into force on hosts", Args: term.AtLeast(1),
		Long: `Sends the policy in FILE, with the signatures in FILE.signed, to hosts. Each host
verifies the signatures against its ring and against the policy in force there. The
file /etc/hostler/policy.toml on a host, which only root can write, overrides every
signed policy.

The command waits for hosts that are offline, unless --no-wait-offline or --wait says
otherwise. An offline host delays no other host, and takes the policy when it is back.
With several hosts the exit code is 1 if the policy did not come into force on one of
them, 5 if the time to wait is over, and 6 if only offline hosts are left.`,
		Example: "  hostler policy set policy.toml edge-01 edge-02\n  hostler policy set policy.toml -A",
	}
	c := dispatch.ChangeFlags(cmd)
	sel := batch.SelectionFlags(cmd, "approved hosts")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := policySpec(args[0])
		if err != nil {
			return term.Cannot("read the policy", err)
		}
		if err := sel.Check(len(args) - 1); err != nil {
			return err
		}
		r, err := a.Connect()
		if err != nil {
			return err
		}
		if err := sel.Fits(r.Local, false); err != nil {
			return err
		}
		ctx := cmd.Context()
		hosts, err := a.ChooseHosts(ctx, r, args[1:], sel, true)
		if err != nil {
			return err
		}
		if sel.Single(len(hosts), c.View) || r.Local || len(hosts) == 1 && (c.NoWait || c.DryRun) {
			return a.Do(ctx, r, c, conn.Ref{Host: hosts[0]}, "set the policy of "+cmp.Or(string(hosts[0]), "this host"), "under the new policy", s)
		}
		spec, err := dispatch.EncodeSpec(s)
		if err != nil {
			return err
		}
		if c.DryRun {
			return a.DryRun(ctx, r, c.View, dispatch.OnHosts(spec, hosts...)...)
		}
		m := sel.Many
		m.View, m.NoWait, m.Verb = c.View, c.NoWait, "set the policy"
		return a.DoMany(ctx, r, &m, dispatch.OnHosts(spec, hosts...))
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
		return protocol.Spec{}, &term.Failure{Code: term.ExitRefused, What: "there is no signature of " + file, Next: "hostler policy sign " + file + " --number N", Err: err}
	}
	return protocol.Spec{Kind: protocol.KindPolicySet, Args: &protocol.PolicyArgs{Policy: text, Signed: signed}}, err
}

// policyView is the policy of a host.
type policyView struct {
	Host string `json:"host"`
	api.Policy
}

func policyNoun() show.Noun[policyView] {
	return show.NounOf[policyView]("host", "host source number bypass~ digest broken~", nil)
}

func (a *commands) policyShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [HOST]", Short: "Show which policy is in force on hosts", Args: term.AtMost(1),
		Long:    "Shows the last reports of hosts on their policy in force. For the text, run on the host: hostler-agent policy show.",
		Example: "  hostler policy show\n  hostler policy show edge-01 -o json", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		one, err := conn.ParseOneHost(args, false)
		if err != nil {
			return err
		}
		return show.Items(cmd.Context(), a.UI, v, policyNoun(), func(ctx context.Context) ([]policyView, error) {
			all, err := r.Hosts(ctx)
			var views []policyView
			for _, h := range all {
				if h.Policy != nil && (one == "" || string(one) == h.ID) {
					views = append(views, policyView{h.ID, *h.Policy})
				}
			}
			if err == nil && one != "" && len(views) == 0 {
				err = &term.Failure{Code: term.ExitNotFound, What: "no report on the policy of host " + string(one), Next: "hostler host ls"}
			}
			return views, term.Cannot("list the policies", err)
		})
	})
	return cmd
}
