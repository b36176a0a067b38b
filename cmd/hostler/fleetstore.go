package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// fleetFiles is what this machine keeps of one fleet: the chain of rings, and
// of the owner's machine the owner's key.
type fleetFiles struct {
	name protocol.FleetName
	dir  string
}

func (a *app) fleetFiles(name string) (fleetFiles, error) {
	home, err := a.home()
	if err != nil {
		return fleetFiles{}, err
	}
	n, err := protocol.ParseFleetName(name)
	if err != nil {
		return fleetFiles{}, usage("", "%q is no name for a fleet: %s", name, err)
	}
	return fleetFiles{name: n, dir: filepath.Join(home, "fleets", name)}, nil
}

func (f fleetFiles) ownerKey() string { return filepath.Join(f.dir, "owner.key") }

// code is the path of the fleet code on the machine of somebody who asked to be
// an owner and has no rings yet.
func (f fleetFiles) code() string { return filepath.Join(f.dir, "code") }

// rings is the path of the chain: the documents as they came, with an empty
// line between the parts that were taken in together.
func (f fleetFiles) rings() string { return filepath.Join(f.dir, "rings") }

// save writes the chain.
func (f fleetFiles) save(c *certs.Chain) error {
	pin, err := firstPin(c)
	if err != nil {
		return err
	}
	b := append([]byte(enrol.FleetCode{Fleet: c.Ring().Fleet, Name: c.Ring().Name, Pin: pin}.Encode()+"\n"), bytes.Join(c.Rings(), []byte("\n\n"))...)
	return replaceFile(f.rings(), b, 0o600)
}

// firstPin pins the first ring of a chain, which vouches for all others.
func firstPin(c *certs.Chain) (enrol.Pin, error) {
	r, err := ringOf(c.Rings()[0])
	if err != nil {
		return enrol.Pin{}, err
	}
	d, _ := c.Digest(r.Number)
	return enrol.PinOf(r.Number, d), nil
}

// ringOf reads a ring that was verified before, as it is stored.
func ringOf(raw []byte) (certs.Ring, error) {
	var r certs.Ring
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	env, err := protocol.Split(line)
	if err == nil {
		err = protocol.DecodeJSON(env.Body, &r, false)
	}
	return r, err
}

// load reads the chain and verifies all of it again. A fleet that this machine
// does not know is [fs.ErrNotExist].
func (f fleetFiles) load() (*certs.Chain, error) {
	b, err := readSmall(f.rings())
	if err != nil {
		return nil, err
	}
	head, rest, _ := bytes.Cut(b, []byte("\n"))
	code, err := enrol.ParseFleetCode(string(head))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.rings(), err)
	}
	chain, err := certs.OpenChain(code.Pin, bytes.Split(rest, []byte("\n\n"))...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.rings(), err)
	}
	return chain, nil
}

// knownFleets lists the fleets that this machine keeps rings of.
func (a *app) knownFleets() ([]string, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(home, "fleets"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, cannot("look for fleets", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// chooseFleet returns the fleet that is meant: the one named, that of the
// context, or the only one.
func (a *app) chooseFleet(name string) (fleetFiles, *certs.Chain, error) {
	if name == "" {
		t, err := a.target()
		if err != nil {
			return fleetFiles{}, nil, err
		}
		name = t.Fleet
	}
	if name == "" {
		known, err := a.knownFleets()
		if err != nil {
			return fleetFiles{}, nil, err
		}
		switch len(known) {
		case 0:
			return fleetFiles{}, nil, &failure{code: exitNotFound, what: "this machine knows no fleet", next: "hostler fleet init NAME, or hostler login ADDRESS"}
		case 1:
			name = known[0]
		default:
			return fleetFiles{}, nil, usage("the same with --fleet NAME", "this machine knows several fleets: %q", known)
		}
	}
	f, err := a.fleetFiles(name)
	if err != nil {
		return f, nil, err
	}
	chain, err := f.load()
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil, &failure{code: exitNotFound, what: fmt.Sprintf("this machine keeps no rings of fleet %q", name), next: "hostler fleet init NAME, or hostler login ADDRESS"}
	}
	return f, chain, cannot("read the rings of fleet "+name, err)
}

// ringAuthorities returns the authorities of the coordinators of a fleet's
// ring, or if no fleet is named of the only fleet that this machine knows.
func (a *app) ringAuthorities(name string) ([][]byte, error) {
	if name == "" {
		known, err := a.knownFleets()
		if err != nil || len(known) != 1 {
			return nil, err
		}
		name = known[0]
	}
	f, err := a.fleetFiles(name)
	if err != nil {
		return nil, err
	}
	chain, err := f.load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cannot("read the rings of fleet "+name, err)
	}
	var all [][]byte
	for _, c := range chain.Ring().Coordinators {
		all = append(all, c.TLSCA)
	}
	return all, nil
}

// fetchRings brings the chain of a fleet up to what the coordinator serves. A
// fleet that this machine does not know yet is taken as the coordinator shows
// it: the authority that the user named vouches for that.
func (a *app) fetchRings(ctx context.Context, r *remote, name string) (fleetFiles, *certs.Chain, error) {
	var served []byte
	if err := r.Get(ctx, "/v1/rings", nil, &served); err != nil {
		return fleetFiles{}, nil, err
	}
	served = bytes.TrimRight(served, "\n")
	first, err := ringOf(served)
	if err != nil {
		return fleetFiles{}, nil, fmt.Errorf("rings of the coordinator: %w", err)
	}
	if name != "" && name != string(first.Name) {
		return fleetFiles{}, nil, fmt.Errorf("the coordinator serves fleet %q, not %q", first.Name, name)
	}
	f, err := a.fleetFiles(string(first.Name))
	if err != nil {
		return f, nil, err
	}
	chain, err := f.load()
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
	return f, chain, f.save(chain)
}
