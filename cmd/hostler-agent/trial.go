package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/trial"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/limiter"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// trialCommand is how the agent of before calls a new one. Its name, what it reads and
// what it prints stay as they are: agents of any release before call it.
func trialCommand(configured loader, logger func(*cobra.Command) *slog.Logger) *cobra.Command {
	return &cobra.Command{
		Use: "trial", Short: "Say hello to the coordinator for an upgrade, and end when it has answered", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := rundir.SealFiles(); err != nil {
				return fmt.Errorf("closing inherited files: %w", err)
			}
			c, _, err := configured()
			if err == nil {
				err = speak(cmd.Context(), c, logger(cmd))
			}
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), answered+buildinfo.Version)
			}
			return err
		},
	}
}

// speak says hello with the copy of the agent's memory, as the member that this host
// is. It makes no key and keeps nothing.
func speak(ctx context.Context, c config, log *slog.Logger) (err error) {
	s := state(c.StateDir)
	record, err := s.record()
	if err != nil {
		return err
	}
	if !record.Member() {
		return daemon.Usage(errors.New("this host is in no fleet"))
	}
	q, err := queue.Open(ctx, queue.Config{Path: filepath.Join(s.upgrade().Trial(), filepath.Base(s.queueFile())), Log: log})
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }() // a copy
	id, key, err := s.keys(string(record.Host))
	if err != nil {
		return err
	}
	client, err := join.New(join.Config{Identity: id, TLS: key, Log: log})
	if err != nil {
		return err
	}
	m, err := newMembership(record, key, client, func(join.Record) error { return nil }, log)
	if err != nil {
		return err
	}
	l, _, err := connect(m, record.Host, record.Brokers, log)
	if err != nil {
		return err
	}
	runtimes, _, err := openRuntimes(ctx, s, c, log)
	if err != nil {
		return err
	}
	closeRuntimes(runtimes)
	limits, _ := limiter.New(c.LXC.Path)
	at, err := now()
	if err != nil {
		return err
	}
	ring := m.keys.Chain().Ring()
	cfg := trial.Config{
		Host: &wire.Host{ID: record.Host, Fleet: ring.Fleet, FleetName: ring.Name, Signer: id, Trust: m},
		Link: l, Queue: q, Now: at, Boot: at.Boot, Features: features(runtimes, limits.Supported()), Log: log,
	}
	var inst protocol.Nonce
	if _, err := rand.Read(inst[:]); err != nil {
		return fmt.Errorf("drawing the instance: %w", err)
	}
	cfg.Inst = inst
	return trial.Speak(ctx, cfg)
}
