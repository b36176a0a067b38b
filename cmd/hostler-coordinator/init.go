package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// initialize makes the coordinator's keys and database for the fleet of a code,
// and prints what the owner needs to let it in. Run again with the same code
// it goes on where it was and prints the same request.
func initialize(ctx context.Context, s state, code string, out io.Writer) error {
	fleet, err := enrol.ParseFleetCode(code)
	if err != nil {
		return fmt.Errorf("--fleet: %w", err)
	}
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	old, err := s.code()
	switch {
	case err == nil && old.Fleet != fleet.Fleet:
		return fmt.Errorf("%s belongs to fleet %s (%s) already; name another state_dir for fleet %s", s, old.Name, old.Fleet, fleet.Name)
	case errors.Is(err, fs.ErrNotExist):
		if err := durable.WriteFile(s.fleet(), []byte(fleet.Encode()+"\n"), 0o600, maxFile); err != nil {
			return fmt.Errorf("keep the fleet code: %w", err)
		}
	case err != nil:
		return fmt.Errorf("%s: %w", s.fleet(), err)
	}
	id, err := durable.LoadOr(certs.LoadIdentity, s.identity(), func() (*certs.Identity, error) {
		return certs.CreateIdentity(s.identity(), "hostler coordinator of "+string(fleet.Name))
	})
	if err != nil {
		return fmt.Errorf("make the key: %w", err)
	}
	ca, err := durable.LoadOr(certs.LoadAuthority, s.authority(), func() (*certs.Authority, error) {
		return certs.CreateAuthority(s.authority(), string(fleet.Name))
	})
	if err != nil {
		return fmt.Errorf("make the authority: %w", err)
	}
	request, err := enrol.CoordinatorRequest{Fleet: fleet.Fleet, Key: id.Public(), TLSCA: ca.Certificate()}.Encode()
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	token, err := createStore(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "request: %s\n", request)
	if token == "" {
		return nil
	}
	if _, err := fmt.Fprintf(out, "token: %s\n", token); err != nil {
		return fmt.Errorf("show the first token: %w\nRun the same again", err)
	}
	if err := durable.WriteFile(s.shown(), nil, 0o600, maxFile); err != nil {
		return fmt.Errorf("note that the first token was shown: %w", err)
	}
	return nil
}

// createStore makes the database with its first token. A database without one
// is the trace of a crash between the two, as is a token that was not shown:
// there is another one then.
func createStore(ctx context.Context, s state) (string, error) {
	cfg := sqlstore.Config{Path: s.store()}
	store, err := sqlstore.Create(ctx, cfg)
	if errors.Is(err, fs.ErrExist) {
		store, err = sqlstore.Open(ctx, cfg)
	}
	if err != nil {
		return "", fmt.Errorf("make the database: %w", err)
	}
	defer store.Close()
	_, shown := os.Stat(s.shown())
	token, err := access.FirstToken(ctx, store, rand.Reader, clock.Now(), errors.Is(shown, fs.ErrNotExist))
	if errors.Is(err, core.ErrExists) {
		return "", nil
	}
	return token, err
}

// takeRings keeps the rings of a file, if they lead from the fleet code to a
// ring that lets this coordinator in.
func takeRings(s state, file string) (*certs.Chain, error) {
	code, err := s.code()
	if err != nil {
		return nil, fmt.Errorf("%s holds no coordinator yet: %w\nRun: hostler-coordinator init --fleet CODE", s, err)
	}
	id, err := certs.LoadIdentity(s.identity())
	if err != nil {
		return nil, err
	}
	b, err := durable.ReadFile(file, maxFile)
	if err != nil {
		return nil, err
	}
	parts, err := certs.DecodeFile(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	chain, err := s.chain()
	if err == nil {
		chain, err = chain.AdvanceAll(parts)
	} else {
		chain, err = certs.OpenChain(code.Pin, parts...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if _, ok := chain.Coordinator(id.Key()); !ok {
		return nil, fmt.Errorf("ring %d of %s does not have this coordinator (key %s)\nRun where the owner key is: hostler fleet ring add-coordinator REQUEST", chain.Ring().Number, file, id.Key())
	}
	return chain, s.keep(chain)
}
