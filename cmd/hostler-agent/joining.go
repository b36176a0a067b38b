package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/runner"
)

// errRefused marks ends that a person has decided.
var errRefused = errors.New("refused")

// listTimeout bounds how long an offer waits for lists of containers.
const listTimeout = 10 * time.Second

// joinFleet brings the host into the fleet of a code, or goes on with what was
// begun if there is none.
func joinFleet(ctx context.Context, c config, code, host string, labels []string, log *slog.Logger, out io.Writer) error {
	s := state(c.StateDir)
	if err := s.joinable(c, code, host, labels); err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	held, err := s.lock(lockJoin)
	if err != nil {
		return err
	}
	defer held.Close()
	if old, err := s.record(); err == nil && old.Member() {
		return joinAgain(ctx, c, old, code, host, labels, log, out)
	}
	r, err := begin(s, c, code, host, labels)
	if err != nil {
		return err
	}
	if _, r, err = enrolInFront(ctx, s, c, r, log, s.keep, out); err != nil {
		return err
	}
	chain, err := r.Chain()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "host %s is a member of fleet %s\n", r.Host, chain.Ring().Name)
	return nil
}

// errNoEnrolment tells that there is nothing to go on with.
var errNoEnrolment = daemon.Usage(errors.New("no enrolment is under way; give the code that hostler host invite prints"))

// joinable refuses a join that cannot succeed, before the join writes anything.
func (s state) joinable(c config, code, host string, labels []string) error {
	if _, err := s.record(); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if code == "" {
		return errNoEnrolment
	}
	_, err := fresh(c, code, host, labels)
	return err
}

// fresh is an enrolment that nothing was done for yet.
func fresh(c config, code, host string, labels []string) (join.Record, error) {
	if host == "" {
		host = c.Host
	}
	id, err := protocol.ParseHostID(host)
	if err != nil {
		return join.Record{}, daemon.Usage(fmt.Errorf("--host %.70q: %w", host, err))
	}
	r, err := join.Begin(strings.TrimSpace(code), id, labels)
	if err != nil {
		err = daemon.Usage(err)
	}
	return r, err
}

func sayWords(out io.Writer) func(join.Record) {
	return func(r join.Record) {
		fmt.Fprintf(out, "words: %s\nhost %s waits for approval. The operator sees the same four words in: hostler host pending\n", r.Words, r.Host)
	}
}

// begin returns the enrolment to go on with, kept.
func begin(s state, c config, code, host string, labels []string) (join.Record, error) {
	old, err := s.record()
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return old, err
	case code != "":
	case err != nil:
		return old, errNoEnrolment
	case old.State == enrol.Denied || old.State == enrol.Revoked:
		return old, fmt.Errorf("%w: host %s was %s; it needs a new code: hostler host invite", errRefused, old.Host, old.State)
	case old.Code == "" && old.Exchange == (enrol.ExchangeID{}):
		return old, fmt.Errorf("%w: the code of host %s was refused; it needs a new code: hostler host invite", errRefused, old.Host)
	default:
		return old, nil
	}
	r, err := fresh(c, code, host, labels)
	if err != nil {
		return old, err
	}
	return r, s.keep(r)
}

// enrolment is the client for an enrolment of this host.
func enrolment(s state, c config, r join.Record, log *slog.Logger, keep func(join.Record) error, waiting func(join.Record)) (*join.Client, error) {
	id, key, err := s.keys(string(r.Host))
	if err != nil {
		return nil, err
	}
	return join.New(join.Config{
		Identity: id, TLS: key, Keep: keep, Waiting: waiting, Log: log,
		Describe: func(ctx context.Context) (enrol.Offer, error) {
			boot, err := runner.Boot()
			if err != nil {
				return enrol.Offer{}, err
			}
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			runtimes, unsupported, err := openRuntimes(ctx, s, c, log)
			if err != nil {
				return enrol.Offer{}, err
			}
			defer closeRuntimes(runtimes)
			return newMachine(c.StateDir, unsupported).describe(ctx, boot, runtimes), nil
		},
	})
}

// enrolInFront takes an enrolment to its end in front of who is to compare its words,
// and returns it with the client that did.
func enrolInFront(ctx context.Context, s state, c config, r join.Record, log *slog.Logger, keep func(join.Record) error, out io.Writer) (*join.Client, join.Record, error) {
	client, err := enrolment(s, c, r, log, keep, sayWords(out))
	if err != nil {
		return nil, r, err
	}
	if r, err = client.Run(ctx, r); ctx.Err() != nil {
		return nil, r, errors.New("interrupted; to go on: hostler-agent join")
	} else if err != nil {
		return nil, r, explain(r, err)
	}
	return client, r, nil
}

// explain adds to an end of an enrolment what to do next.
func explain(r join.Record, err error) error {
	switch {
	case errors.Is(err, join.ErrDenied):
		return fmt.Errorf("%w: host %s: %w", errRefused, r.Host, err)
	case errors.Is(err, join.ErrRevoked):
		return fmt.Errorf("%w: host %s: %w\nTo join again: hostler-agent leave", errRefused, r.Host, err)
	case errors.Is(err, join.ErrStranger):
		return fmt.Errorf("%w: %w\nIf the code is new and of your own fleet, someone is intercepting the connection to the coordinator", errRefused, err)
	case errors.Is(err, join.ErrRefused):
		next := "Ask for a new code: hostler host invite"
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeExists {
			next = "Give another name: hostler-agent join CODE --host NAME"
		}
		return fmt.Errorf("%w: %w\n%s", errRefused, err, next)
	}
	return err
}

// errNoFleet tells that there is nothing to leave.
var errNoFleet = daemon.Usage(errors.New("this host has joined no fleet"))

// leaveFleet makes the host a member of no fleet. It asks on in unless it is sure.
func leaveFleet(ctx context.Context, c config, sure bool, in io.Reader, out io.Writer) error {
	s := state(c.StateDir)
	if _, err := os.Stat(string(s)); errors.Is(err, fs.ErrNotExist) {
		return errNoFleet
	}
	if err := s.prepare(); err != nil {
		return err
	}
	for _, name := range []string{lockRun, lockJoin} {
		held, err := s.lockSoon(ctx, name, leavePatience)
		if err != nil {
			return fmt.Errorf("%w\nStop it first", err)
		}
		defer held.Close()
	}
	r, err := s.record()
	if errors.Is(err, fs.ErrNotExist) {
		return errNoFleet
	}
	host := string(r.Host)
	if err != nil {
		host = "(whose enrolment cannot be read)"
	}
	if !sure {
		fmt.Fprintf(out, "Host %s deletes its key and its memory of actions and containers. Containers go on, unmanaged.\nType yes: ", host)
		answer, err := bufio.NewReader(in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the answer: %w", err)
		}
		if strings.TrimSpace(answer) != "yes" {
			return fmt.Errorf("%w: nothing was done; to be sure without being asked: --yes", errRefused)
		}
	}
	if err := s.forget(); err != nil {
		return err
	}
	fmt.Fprintf(out, "host %s has left. At the coordinator: hostler host revoke %s\n", host, host)
	return nil
}

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
	r.RevokedNumber, r.Revoked = old.RevokedNumber, revocable(chain, old.Revoked)
	if err := s.keep(r); err != nil {
		return err
	}
	if err := durable.Remove(s.again()); err != nil {
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
		return r, daemon.Usage(err)
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
