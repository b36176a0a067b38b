package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// lastCheckpoint is the path of the newest checkpoint that this machine has
// verified of the coordinator's log.
func (f FleetFiles) lastCheckpoint() string { return filepath.Join(f.Dir, "checkpoint") }

// KeptCheckpoint returns that checkpoint; empty before the first.
func (f FleetFiles) KeptCheckpoint() ([]byte, error) {
	b, err := ReadSmall(f.lastCheckpoint())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return bytes.TrimSpace(b), err
}

// KeepCheckpoint keeps a checkpoint as the newest that was verified.
func (f FleetFiles) KeepCheckpoint(envelope []byte) error {
	return durable.WriteFile(f.lastCheckpoint(), append(bytes.Clone(envelope), '\n'), 0o600, MaxFile)
}

// FleetFlag adds the option that names a fleet of this machine.
func (a *Env) FleetFlag(cmd *cobra.Command) *string {
	name := cmd.Flags().String("fleet", "", "the fleet (default: that of the context, or the only one)")
	_ = cmd.RegisterFlagCompletionFunc("fleet", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		known, _ := a.KnownFleets() // completion can tell of no error
		return known, cobra.ShellCompDirectiveNoFileComp
	})
	return name
}

// Owner loads the owner's key of this machine.
func (f FleetFiles) Owner() (*certs.Identity, error) {
	owner, err := certs.LoadIdentity(f.OwnerKey())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &term.Failure{Code: term.ExitRefused, What: "cannot sign a ring", Why: "this machine has no owner's key of fleet " + string(f.Name), Next: "run this on the machine of an owner"}
	}
	return owner, err
}

// FleetFiles is what this machine keeps of one fleet: the chain of rings, and
// of the owner's machine the owner's key.
type FleetFiles struct {
	Name protocol.FleetName
	Dir  string
}

// FleetFiles returns the directory of a fleet on this machine.
func (a *Env) FleetFiles(name string) (FleetFiles, error) {
	home, err := a.Home()
	if err != nil {
		return FleetFiles{}, err
	}
	n, err := protocol.ParseFleetName(name)
	if err != nil {
		return FleetFiles{}, term.Usage("", "%q is not a valid fleet name: use 1 to 63 of a-z, 0-9 and inner hyphens", name)
	}
	return FleetFiles{Name: n, Dir: filepath.Join(home, "fleets", name)}, nil
}

// OwnerKey is the file of the owner's key.
func (f FleetFiles) OwnerKey() string { return filepath.Join(f.Dir, "owner.key") }

// Code is the path of the fleet code on the machine of a user who asked to be
// an owner and has no rings yet.
func (f FleetFiles) Code() string { return filepath.Join(f.Dir, "code") }

// Rings is the path of the chain: the documents as they came, with an empty
// line between the parts that were taken in together.
func (f FleetFiles) Rings() string { return filepath.Join(f.Dir, "rings") }

// Viewer is the directory of the viewer's certificate that this machine keeps.
func (f FleetFiles) Viewer() string { return filepath.Join(f.Dir, "viewer") }

// Save writes the chain.
func (f FleetFiles) Save(c *certs.Chain) error {
	pin, err := firstPin(c)
	if err != nil {
		return err
	}
	b := append([]byte(enrol.FleetCode{Fleet: c.Ring().Fleet, Name: c.Ring().Name, Pin: pin}.Encode()+"\n"), bytes.Join(c.Rings(), []byte("\n\n"))...)
	return ReplaceFile(f.Rings(), b, 0o600)
}

// firstPin pins the first ring of a chain, which vouches for all others.
func firstPin(c *certs.Chain) (enrol.Pin, error) {
	r, err := RingOf(c.Rings()[0])
	if err != nil {
		return enrol.Pin{}, err
	}
	d, _ := c.Digest(r.Number)
	return enrol.PinOf(r.Number, d), nil
}

// RingOf reads a ring that was verified before, as it is stored.
func RingOf(raw []byte) (certs.Ring, error) {
	var r certs.Ring
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	env, err := protocol.Split(line)
	if err == nil {
		err = protocol.DecodeJSON(env.Body, &r, false)
	}
	return r, err
}

// Load reads the chain and verifies all of it again. A fleet that this machine
// does not know is [fs.ErrNotExist].
func (f FleetFiles) Load() (*certs.Chain, error) {
	b, err := ReadSmall(f.Rings())
	if err != nil {
		return nil, err
	}
	head, rest, _ := bytes.Cut(b, []byte("\n"))
	code, err := enrol.ParseFleetCode(string(head))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Rings(), err)
	}
	chain, err := certs.OpenChain(code.Pin, bytes.Split(rest, []byte("\n\n"))...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Rings(), err)
	}
	return chain, nil
}

// KnownFleets lists the fleets that this machine keeps rings of.
func (a *Env) KnownFleets() ([]string, error) {
	home, err := a.Home()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(home, "fleets"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, term.Cannot("look for fleets", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// ChooseFleet returns the fleet that is meant: the one named, that of the
// context, or the only one.
func (a *Env) ChooseFleet(name string) (FleetFiles, *certs.Chain, error) {
	if name == "" {
		t, err := a.target()
		if err != nil {
			return FleetFiles{}, nil, err
		}
		name = t.Fleet
	}
	if name == "" {
		known, err := a.KnownFleets()
		if err != nil {
			return FleetFiles{}, nil, err
		}
		switch len(known) {
		case 0:
			return FleetFiles{}, nil, &term.Failure{Code: term.ExitNotFound, What: "this machine knows no fleet", Next: "hostler fleet init NAME, or hostler login ADDRESS"}
		case 1:
			name = known[0]
		default:
			return FleetFiles{}, nil, term.Usage("add --fleet NAME", "this machine knows several fleets: %q", known)
		}
	}
	f, err := a.FleetFiles(name)
	if err != nil {
		return f, nil, err
	}
	chain, err := f.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("this machine keeps no rings of fleet %q", name), Next: "hostler fleet init NAME, or hostler login ADDRESS"}
	}
	return f, chain, term.Cannot("read the rings of fleet "+name, err)
}

// RingAuthorities returns the authorities of the coordinators of a fleet's
// ring, or if no fleet is named of the only fleet that this machine knows.
func (a *Env) RingAuthorities(name string) ([][]byte, error) {
	if name == "" {
		known, err := a.KnownFleets()
		if err != nil || len(known) != 1 {
			return nil, err
		}
		name = known[0]
	}
	f, err := a.FleetFiles(name)
	if err != nil {
		return nil, err
	}
	chain, err := f.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, term.Cannot("read the rings of fleet "+name, err)
	}
	return Authorities(chain), nil
}

// Authorities returns the authorities of the coordinators that the newest ring of a
// chain names, DER.
func Authorities(chain *certs.Chain) (all [][]byte) {
	for _, c := range chain.Ring().Coordinators {
		all = append(all, c.TLSCA)
	}
	return all
}

// FetchRings brings the chain of a fleet up to what the coordinator serves. A
// fleet that this machine does not know yet is taken as the coordinator shows
// it: the authority that the user named vouches for that.
func (a *Env) FetchRings(ctx context.Context, r *Remote, name string) (FleetFiles, *certs.Chain, error) {
	var served []byte
	if err := r.Get(ctx, "/v1/rings", nil, &served); err != nil {
		return FleetFiles{}, nil, err
	}
	served = bytes.TrimRight(served, "\n")
	first, err := RingOf(served)
	if err != nil {
		return FleetFiles{}, nil, fmt.Errorf("rings of the coordinator: %w", err)
	}
	if name != "" && name != string(first.Name) {
		return FleetFiles{}, nil, fmt.Errorf("the coordinator serves fleet %q, not %q", first.Name, name)
	}
	f, err := a.FleetFiles(string(first.Name))
	if err != nil {
		return f, nil, err
	}
	chain, err := f.Load()
	if errors.Is(err, fs.ErrNotExist) {
		line, _, _ := bytes.Cut(served, []byte("\n"))
		env, e := protocol.Split(line)
		if e != nil {
			return f, nil, e
		}
		chain, err = certs.OpenChain(enrol.PinOf(first.Number, protocol.Sum(env.Body)), served)
	} else if err == nil {
		chain, err = chain.Advance(served)
	}
	if err != nil {
		return f, nil, fmt.Errorf("rings of the coordinator: %w", err)
	}
	return f, chain, f.Save(chain)
}

// VerifyKeys is the book of keys: the rings, brought up to date if there is a
// coordinator to ask, and the hosts. Whatever comes from the network is signed
// itself, so that a key cannot be lent to another on the way.
func (a *Env) VerifyKeys(ctx context.Context, fleet, rosterFile string) (*certs.Keys, error) {
	f, chain, err := a.ChooseFleet(fleet)
	if err != nil {
		return nil, err
	}
	var roster []byte
	if rosterFile != "" {
		roster, err = ReadSmall(rosterFile)
	} else {
		roster, chain, err = a.askRoster(ctx, f, chain)
	}
	if err != nil {
		return nil, err
	}
	keys := certs.NewKeys(chain)
	for line := range bytes.SplitSeq(roster, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		part, err := keys.OpenRoster(line)
		if err != nil {
			return nil, fmt.Errorf("roster: %w", err)
		}
		for _, h := range part.Hosts {
			key, err := certs.ParsePublicKey(h.Key)
			if err == nil {
				err = keys.SetHost(h.Host, key)
			}
			if err != nil {
				return nil, fmt.Errorf("roster: host %s: %w", h.Host, err)
			}
		}
	}
	return keys, nil
}

// askRoster gets the newest rings and the list of hosts. Without a coordinator
// what this machine keeps has to do, which verifies no host.
func (a *Env) askRoster(ctx context.Context, f FleetFiles, chain *certs.Chain) ([]byte, *certs.Chain, error) {
	t, err := a.target()
	if err != nil {
		return nil, nil, err
	}
	if t.Address == "" || t.Fleet != string(f.Name) || a.local {
		a.Say("hostler: no coordinator of fleet %s is configured: messages of hosts cannot be verified", f.Name)
		return nil, chain, nil
	}
	r, err := a.Connect()
	if err != nil {
		return nil, nil, err
	}
	_, newest, err := a.FetchRings(ctx, r, string(f.Name))
	if err != nil {
		return nil, nil, err
	}
	var roster []byte
	err = r.Get(ctx, "/v1/roster", nil, &roster)
	return roster, newest, err
}
