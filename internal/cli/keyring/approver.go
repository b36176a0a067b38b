package keyring

import (
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// Approver returns the key to sign with, and as whom the ring knows it: the one that
// is named, or that of this machine which is an approver's.
func (a *Store) Approver(fleet string, chain *certs.Chain, key, gpg string) (PersonKey, string, error) {
	people := map[protocol.KeyID]string{}
	for _, p := range chain.Ring().People {
		for _, raw := range p.Keys {
			if k, err := certs.ParsePublicKey(raw); err == nil {
				people[k.Key()] = p.Person
			}
		}
	}
	candidates, err := a.candidates(key, gpg)
	if err != nil {
		return PersonKey{}, "", err
	}
	known := slices.DeleteFunc(slices.Clone(candidates), func(k PersonKey) bool { return people[k.Public.Key()] == "" })
	switch {
	case len(known) == 1:
		return known[0], people[known[0].Public.Key()], nil
	case len(known) > 1:
		return PersonKey{}, "", term.Usage("use --key "+known[0].Name, "several keys on this machine belong to approvers: %q", conn.Each(known, func(k PersonKey) string { return k.Name }))
	case len(candidates) == 0:
		return PersonKey{}, "", &term.Failure{
			Code: term.ExitRefused, What: "this machine has no key to sign with", Why: "a token alone approves nothing",
			Next: "hostler key generate, or hostler key import --gpg USER",
		}
	}
	return PersonKey{}, "", &term.Failure{
		Code: term.ExitRefused, What: fmt.Sprintf("no approver of ring %d has key %s", chain.Ring().Number, candidates[0].Public.Key()),
		Why:  "no owner of fleet " + fleet + " has added it, or it was removed",
		Next: "hostler key export, and on the machine of an owner: hostler fleet ring add-approver PERSON FILE --out RING",
	}
}

// candidates are the keys that may be meant.
func (a *Store) candidates(key, gpg string) ([]PersonKey, error) {
	switch {
	case gpg != "":
		g, err := a.NewGPGSigner(gpg)
		if err != nil {
			return nil, err
		}
		return []PersonKey{{Name: gpg, Public: g.Public}}, nil
	case key != "":
		k, err := a.FindKey(key)
		return []PersonKey{k}, err
	}
	return a.Keys()
}
