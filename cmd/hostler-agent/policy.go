package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// maxPolicyRecord bounds the file of the policy in force: text and signatures.
const maxPolicyRecord = 1 << 20

// localPolicy reads root's own policy, nil if there is none. One that cannot be
// used lets nobody but root do anything, and says why: workloads go on, and an
// agent that did not start would restore none of them.
func localPolicy(path string, host protocol.HostID, own []string) (*policy.Policy, error) {
	p, err := readPolicy(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = durable.CheckOwner(path)
	}
	if err == nil {
		p = p.Guarding(own...)
		if err = p.Check(host); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return policy.Closed(err), err
	}
	return p, nil
}

// own are the files and directories on which this agent rests, wherever they were
// put: by their names, and by those where links lead, as files are held to those.
func (c *config) own() []string {
	all := []string{c.StateDir, c.Policy, c.Socket, c.Commands.Supervisor, c.LXC.Path, c.LXC.Helper, c.volumes()}
	if c.path != "" {
		all = append(all, c.path)
	}
	all = slices.DeleteFunc(all, func(f string) bool { return f == "" })
	for _, f := range all[:len(all):len(all)] {
		dir, rest := f, ""
		at, err := filepath.EvalSymlinks(dir)
		for err != nil && dir != "/" { // what is not there yet will be where its directory is
			dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
			at, err = filepath.EvalSymlinks(dir)
		}
		if at = filepath.Join(at, rest); err == nil && at != f {
			all = append(all, at)
		}
	}
	return all
}

func readPolicy(path string) (*policy.Policy, error) {
	b, err := durable.ReadFile(path, policy.MaxText)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	return policy.Parse(path, b)
}

// loadPolicies reads what is kept of a fleet's policies. A file that is damaged
// lets nobody do anything until root has decided: to take it for none would do
// away with the policy.
func (s state) loadPolicies(fleet protocol.FleetID, p *rights.Policies) {
	kept, err := s.policyRecord(fleet)
	if err != nil && p.Local == nil {
		p.Local, p.Broken = policy.Closed(err), err
	}
	p.Kept, p.Keep = kept, func(r rights.Record) error { return s.keepPolicy(fleet, r) }
}

func (s state) policyRecord(fleet protocol.FleetID) (rights.Record, error) {
	var r rights.Record
	b, err := durable.ReadFile(s.policy(fleet), maxPolicyRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		b, err = rundir.CheckSum(b)
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return rights.Record{}, fmt.Errorf("%s is damaged: %w\nRestore it, or write a policy into the policy file, or remove it so that the host takes the built-in policy", s.policy(fleet), err)
	}
	return r, nil
}

func (s state) keepPolicy(fleet protocol.FleetID, r rights.Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the policy: %w", err)
	}
	failpoint.Before(failpoint.PolicyKept)
	if err := durable.WriteFile(s.policy(fleet), rundir.AppendSum(b), 0o600, maxPolicyRecord); err != nil {
		return fmt.Errorf("keep the policy: %w", err)
	}
	failpoint.After(failpoint.PolicyKept)
	return nil
}

func policyCommand(configured loader) *cobra.Command {
	cmd := daemon.Group("policy", "Look at what needs whose approval on this host", "policy needs check or show")
	var host string
	check := &cobra.Command{
		Use: "check FILE", Short: "Read a policy and list the ways around it",
		Args: daemon.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkPolicy(cmd.OutOrStdout(), args[0], host)
		},
	}
	check.Flags().StringVar(&host, "host", "", "only as it is on this host (default: on every host that there could be)")
	show := &cobra.Command{Use: "show", Short: "Print the policy in force and where it comes from", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		c, _, err := configured()
		if err != nil {
			return err
		}
		return showPolicy(cmd.OutOrStdout(), c)
	}}
	cmd.AddCommand(check, show)
	return cmd
}

func checkPolicy(w io.Writer, path, host string) error {
	p, err := readPolicy(path)
	if err != nil {
		return err
	}
	var hosts []protocol.HostID
	if host != "" {
		id, err := protocol.ParseHostID(host)
		if err != nil {
			return daemon.Usage(fmt.Errorf("--host: %w", err))
		}
		hosts = append(hosts, id)
	}
	if err := p.Check(hosts...); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(w, "%s can be put into force\n", path)
	if holes := p.Holes(hosts...); len(holes) > 0 {
		fmt.Fprintf(w, "allow_bypass = true accepts that it can be bypassed in %d ways:\n", len(holes))
		for _, h := range holes {
			fmt.Fprintf(w, "  %s\n", h)
		}
	}
	return nil
}

// showPolicy prints the text of the policy in force; a comment before it says
// where it comes from, so that what is printed is a policy again.
func showPolicy(w io.Writer, c config) error {
	s := state(c.StateDir)
	if text, err := durable.ReadFile(c.Policy, policy.MaxText); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return fmt.Errorf("read the policy: %w", err)
		}
		_, wrong := localPolicy(c.Policy, protocol.HostID(c.Host), c.own())
		fmt.Fprintf(w, "# from %s of this host's root, since the agent's last start\n%s", c.Policy, text)
		return wrong
	}
	record, err := s.record()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var kept rights.Record
	if record.Member() {
		chain, err := record.Chain()
		if err != nil {
			return fmt.Errorf("the rings of the fleet: %w", err)
		}
		if kept, err = s.policyRecord(chain.Ring().Fleet); err != nil {
			return err
		}
	}
	if kept.Number == 0 {
		fmt.Fprint(w, "# built in: what operators and admins request needs no approval\nversion = 1\n")
		return nil
	}
	fmt.Fprintf(w, "# policy %d of the fleet, %s, with %d signatures\n%s", kept.Number, protocol.Sum(kept.Text), len(kept.Signed), kept.Text)
	return nil
}

// volumes is the directory of the volumes. It lies beside that of the containers, so that
// their users pass through to it as they do to them.
func (c *config) volumes() string { return c.beside("volumes") }

// names is the directory of the files by which containers find each other, likewise.
func (c *config) names() string { return c.beside("names") }

func (c *config) beside(what string) string {
	return filepath.Join(filepath.Dir(c.LXC.Path), "hostler-"+what)
}
