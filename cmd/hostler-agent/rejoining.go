package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/daemon"
)

// joinAgain lets a member be let in once more: the coordinator that knew it lost its
// disk, and the owners let a new one into the fleet. The host keeps its key, its name
// and all that it remembers, and the new coordinator asks it for that. The enrolment
// is kept beside the one in force until it has come to its end; until then the host is
// the member that it was.
func joinAgain(ctx context.Context, c config, old join.Record, code, host string, labels []string, log *slog.Logger, out io.Writer) error {
	s := state(c.StateDir)
	if host != "" && host != string(old.Host) {
		return fmt.Errorf("%w: host %s is a member of a fleet already, and keeps its name\nTo give it another one: hostler-agent leave", errRefused, old.Host)
	}
	r, err := beginAgain(s, old, code, labels)
	if err != nil {
		return err
	}
	held, err := s.lockSoon(ctx, lockRun, leavePatience)
	if err != nil {
		return fmt.Errorf("host %s is a member of a fleet already, and its agent runs: %w\nTo join the fleet again, stop it first", old.Host, err)
	}
	defer held.Close()
	if err := s.keepAgain(r); err != nil {
		return err
	}
	client, r, err := enrolInFront(ctx, s, c, r, log, s.keepAgain, out)
	if err != nil {
		return err
	}
	chain, err := follows(ctx, client, old, r)
	if err != nil {
		return err
	}
	r.Ring, r.Pin, r.Rings = old.Ring, old.Pin, chain.Rings()
	// What was revoked stays so, though a coordinator that lost its disk cannot know it.
	r.RevokedNumber, r.Revoked = old.RevokedNumber, named(chain, old.Revoked)
	if err := s.keep(r); err != nil {
		return err
	}
	if err := os.Remove(s.again()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Fprintf(out, "host %s is a member of fleet %s again, with all that it remembers\n", r.Host, chain.Ring().Name)
	return nil
}

// beginAgain returns the enrolment of a member to go on with.
func beginAgain(s state, old join.Record, code string, labels []string) (join.Record, error) {
	if code == "" {
		r, err := readRecord(s.again())
		if errors.Is(err, fs.ErrNotExist) || err == nil && !r.Member() && r.Code == "" {
			return r, fmt.Errorf("%w: host %s is a member of a fleet already\nTo be let in by a new coordinator of it: hostler-agent join CODE\nTo leave it: hostler-agent leave", errRefused, old.Host)
		}
		return r, err
	}
	r, err := join.Begin(strings.TrimSpace(code), old.Host, labels)
	if err != nil {
		return r, fmt.Errorf("%w: %w", daemon.ErrUsage, err)
	}
	return r, nil
}

// follows returns the chain of rings that a member holds, with those that lead to the
// ring of its new enrolment: a code alone moves a host to no other fleet, and to no
// other owners.
func follows(ctx context.Context, client *join.Client, old, r join.Record) (*certs.Chain, error) {
	chain, err := old.Chain()
	if err != nil {
		return nil, err
	}
	next, err := r.Chain()
	if err != nil {
		return nil, err
	}
	held, given := chain.Ring(), next.Ring()
	switch {
	case held.Fleet != given.Fleet:
		return nil, fmt.Errorf("%w: the code is of fleet %s (%s), and host %s is a member of fleet %s (%s) still\nTo go there: hostler-agent leave, and then join", errRefused, given.Name, given.Fleet, r.Host, held.Name, held.Fleet)
	case given.Number < held.Number:
		return nil, fmt.Errorf("%w: the coordinator serves ring %d of the fleet, and this host holds ring %d: the coordinator's ring is older", errRefused, given.Number, held.Number)
	case given.Number > held.Number:
		b, err := client.Rings(ctx, r.Addresses, held.Number+1)
		if err == nil {
			chain, err = chain.Advance(b)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: ring %d of the coordinator is not shown to follow from ring %d, which this host holds: %w", errRefused, given.Number, held.Number, err)
		}
	}
	mine, ok := chain.Digest(given.Number)
	if theirs, _ := next.Digest(given.Number); !ok || mine != theirs {
		return nil, fmt.Errorf("%w: ring %d of the coordinator does not follow from ring %d, which this host holds", errRefused, given.Number, held.Number)
	}
	return chain, nil
}
