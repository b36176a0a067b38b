// Package upgrade replaces the agent by another release of itself, as far as the agent
// does that while it runs: it verifies and unpacks the release, decides when the new
// agent is tried, and what a trial means for the action.
//
//	staged ──trial answered──▶ proved ──programs in place──▶ the new agent ends the action
//	   │  ▲
//	   │  └─ a trial failed, but the coordinator was away too: once more when it is back
//	   └──── trials failed while the coordinator answered the old agent ──▶ failed
//
// The trial itself needs the agent out of the way, so the program that runs the agent makes it:
// see [Config.Swap]. The new agent is tried beside a copy of the agent's memory. Until
// it is proved, no program and no state of the host has changed.
package upgrade

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/internal/release"
	"github.com/hostler-io/hostler/protocol"
)

// Programs are those of this host, and how they are replaced.
type Programs struct {
	Dir     Dir
	Version string // of this agent
	Arch    string // of packages for this host, as Debian calls it
	// LXC tells that this host has the program for LXC containers. It belongs to the
	// agent's very version, so a release must bring it.
	LXC bool
	// Verify says by which release key a package is signed, and refuses any other.
	// It may be called from any goroutine.
	Verify func(sig []byte, file io.Reader) (signer string, err error)
	// Settle waits until the package manager has ended that puts the programs of an action
	// in place: it restarts the agent before it is done. It may be called from any goroutine.
	Settle func(context.Context, protocol.ActionID) error
	// Swap ends this agent, so that the release in Dir is tried or put in place. It
	// returns at once, and may be called again.
	Swap func()
	// Format is that of the packages that have brought the programs of this host; empty
	// if no package manager owns them. It may be called from any goroutine.
	Format func(context.Context) release.Format
}

// Config is what the room needs. All of it is required, but Programs, without which
// upgrades are refused as unsupported.
type Config struct {
	Programs *Programs
	Loop     *loop.Loop
	Actions  *actions.Actions
	// Payload is the file of an action's payload, and Connected whether the coordinator
	// has answered this process. Both are asked in the loop.
	Payload   func(*protocol.Spec) (string, error)
	Connected func() bool
	Log       *slog.Logger
}

// Upgrade is the handler of [protocol.KindHostUpgrade].
type Upgrade struct{ cfg Config }

// New returns the handler.
func New(cfg Config) *Upgrade { return &Upgrade{cfg} }

// Admit refuses what can never succeed here.
func (u *Upgrade) Admit(s *protocol.Spec) error {
	switch p := u.cfg.Programs; {
	case p == nil:
		return fmt.Errorf("%w: this host is in no fleet, so no ring names the keys that sign packages; join a fleet first", actions.CodeUnsupported)
	case !s.HasPayload():
		return fmt.Errorf("%w: the upgrade comes without a package", protocol.ErrSpec)
	}
	return nil
}

// Prepare has nothing to say: an upgrade touches no container.
func (u *Upgrade) Prepare(*protocol.Spec) (queue.Change, *queue.Step) { return queue.Change{}, nil }

// Recover is Begin: the record says how far an earlier process came.
func (u *Upgrade) Recover(j *actions.Job) { u.Begin(j) }

// Begin carries the upgrade on from where it is.
func (u *Upgrade) Begin(j *actions.Job) {
	if err := u.Admit(j.Spec()); err != nil { // the host may have left its fleet meanwhile
		j.Finish(failed(err))
		return
	}
	id, spec := j.Action().ID, *j.Spec()
	payload, err := u.cfg.Payload(&spec)
	u.cfg.Loop.Beside(func(ctx context.Context) func() {
		step, ended := u.carry(ctx, id, protocol.ArgsOf[protocol.UpgradeArgs](&spec), payload, err)
		if !ended {
			return nil // the next process goes on
		}
		return func() {
			if j := u.cfg.Actions.Job(id); j != nil {
				j.Finish(step)
			}
		}
	})
}

func failed(err error) queue.Step {
	return queue.Step{Event: protocol.EventFail, Detail: err.Error()}
}

// carry takes the upgrade to its end, or to the point at which this process has to end
// for it: then ended is false.
func (u *Upgrade) carry(ctx context.Context, id protocol.ActionID, args protocol.UpgradeArgs, payload string, missing error) (end queue.Step, ended bool) {
	p, begun := u.cfg.Programs, time.Now()
	r, err := p.Dir.Load()
	if err != nil {
		return failed(err), true
	}
	if r.Action != id {
		if p.Version == args.Version {
			return queue.Step{Event: protocol.EventSucceed, Detail: "the host has version " + p.Version + " already"}, true
		}
		if missing != nil {
			return failed(missing), true
		}
		if r, err = u.stage(ctx, id, &args, payload); err != nil {
			return failed(err), true
		}
	}
	switch {
	case p.Version == r.Version:
		if p.Settle(ctx, id) != nil {
			return end, false // the package manager restarts this agent once more
		}
		return u.over(queue.Step{Event: protocol.EventSucceed, Detail: fmt.Sprintf("version %s → %s, signed by %s", r.From, r.Version, r.Signer)})
	case r.Stage == Failed:
		return u.over(queue.Step{Event: protocol.EventFail, Detail: r.Why})
	case r.Stage == Staged:
		if !u.connected(ctx) {
			return end, false
		}
		if r, err = u.judge(r, time.Since(begun)); err != nil {
			return failed(err), true
		}
		if r.Stage == Failed {
			return u.over(queue.Step{Event: protocol.EventFail, Detail: r.Why})
		}
	}
	p.Swap()
	<-ctx.Done()
	return end, false
}

// over removes what the upgrade has left.
func (u *Upgrade) over(s queue.Step) (queue.Step, bool) {
	if err := u.cfg.Programs.Dir.clean(); err != nil {
		u.cfg.Log.Warn("what an upgrade has left stays", "error", err)
	}
	return s, true
}

// stage verifies and unpacks the release, and makes durable that it may be tried.
func (u *Upgrade) stage(ctx context.Context, id protocol.ActionID, args *protocol.UpgradeArgs, payload string) (Record, error) {
	p := u.cfg.Programs
	r := Record{Action: id, From: p.Version, Version: args.Version, ProbationMS: args.Probation().Milliseconds(), Stage: Staged}
	if release.Compare(args.Version, p.Version) < 0 {
		return r, fmt.Errorf("version %s is older than this host's %s, and may not understand its state; only a newer release can replace it", args.Version, p.Version)
	}
	bundle, err := os.Open(payload)
	if err != nil {
		return r, err
	}
	defer bundle.Close()
	if err := p.Dir.begin(); err != nil {
		return r, err
	}
	got, err := release.Unpack(p.Dir.Release(), p.Arch, p.Format(ctx), bundle, p.Verify)
	switch {
	case err != nil:
	case got.Version != args.Version:
		err = fmt.Errorf("the packages are of version %s, and version %s was asked for", got.Version, args.Version)
	case p.LXC && !slices.Contains(got.Programs, release.LXC):
		err = fmt.Errorf("this host has %s %s, which works with that version of the agent alone: add the package %s", release.LXC, p.Version, release.AgentLXC)
	}
	if err != nil {
		_ = p.Dir.clean() // the next upgrade does it otherwise
		return r, err
	}
	r.Signer, r.Packages, r.Format, r.Programs = got.Signer, got.Packages, got.Format, got.Programs
	u.cfg.Log.Info("an upgrade is verified", "version", r.Version, "from", r.From, "signer", r.Signer)
	return r, p.Dir.Keep(r)
}

// Trials that fail in a row end an upgrade. One is not enough: the coordinator may
// have been away for just as long.
const maxTrials = 2

// soon is within which time a coordinator that is there answers an agent that begins.
const soon = 30 * time.Second

// judge decides what the trial before this process means, now that the coordinator has
// answered this process after a while. Only a coordinator that answers the old agent
// right away, as it did before the trial, speaks against the new one.
func (u *Upgrade) judge(r Record, after time.Duration) (Record, error) {
	if r.Why == "" {
		return r, nil
	}
	if after > soon {
		u.cfg.Log.Info("the coordinator was away during the trial of the new agent; it is tried again", "version", r.Version)
		r.Why, r.Trials = "", 0
		return r, nil // an earlier record says less, and does no harm
	}
	if r.Trials++; r.Trials >= maxTrials {
		r.Stage = Failed
		r.Why = fmt.Sprintf("version %s was tried %d times, and the coordinator answered this agent (%s) before and after: %s", r.Version, r.Trials, r.From, r.Why)
	} else {
		r.Why = ""
	}
	return r, u.cfg.Programs.Dir.Keep(r)
}

// connectedEvery is how often it is looked at whether the coordinator has answered.
const connectedEvery = 200 * time.Millisecond

// connected waits until the coordinator has answered this process; false if ctx ended
// before.
func (u *Upgrade) connected(ctx context.Context) bool {
	tick := time.NewTicker(connectedEvery)
	defer tick.Stop()
	for {
		yes, err := loop.Ask(ctx, u.cfg.Loop, func() (bool, error) { return u.cfg.Connected(), nil })
		if err != nil || yes {
			return err == nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}
