package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/drill"
	"github.com/hostler-io/hostler/agent/fencing"
	"github.com/hostler-io/hostler/agent/lease"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/agent/upgrade"
	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// Config is what an agent is made from.
type Config struct {
	// Host is the id of this host. Required.
	Host protocol.HostID
	// Fleet and FleetName are those of the fleet it belongs to. Required.
	Fleet     protocol.FleetID
	FleetName protocol.FleetName
	// Queue is its memory, open. The caller closes it after Run. Required.
	Queue *queue.Queue

	// Link is the way to the coordinator. Without one the agent works for its
	// host alone, and Signer, Trust and Bulk are not needed.
	Link uplink.Link
	// Bulk carries output up and input down. Whatever keeps it connected is run
	// by the caller, with [Agent.BulkSession], and ended after Run. Required with
	// Link.
	Bulk relay.Bulk
	// Signer signs as this host. Required with Link.
	Signer protocol.Signer
	// Unseal reads what was sealed to this host's key, with bounds of its own. It may
	// be called from any goroutine. Default: sealed values are refused.
	Unseal func(sealed []byte) ([]byte, error)
	// Trust knows whom to believe. Required with Link.
	Trust uplink.Trust

	// Policies are what says who may do what here. Default: the built-in one, and
	// no other can come into force.
	Policies rights.Policies

	// Runtimes are the container technologies of this host, at most one of each
	// kind. The caller closes them after Run. Default: none.
	Runtimes []container.Runtime
	// Network gives new containers their interface. Default: none but loopback.
	Network containers.Network
	// Commands runs commands, and RunDirs keep what they leave. Without them commands
	// are refused as unsupported; one requires the other.
	Commands commands.Runner
	RunDirs  commands.RunDirs
	// Supervisor is the program, by absolute path with leading arguments, that
	// supervises commands of the host. Required with Commands.
	Supervisor []string

	// Mover is the program, by absolute path with leading arguments, that moves
	// files; see [commands.Move]. Without it such kinds are refused as unsupported.
	Mover []string

	// Printers are the programs, by absolute path with leading arguments, of the kinds
	// that print what the host knows: its audit log as [Agent.ExportAudit] writes it, its
	// samples. A kind without one is refused as unsupported.
	Printers map[protocol.Kind][]string
	// Backups are those of this host; nil if it has none.
	Backups containers.Backups
	// Volumes are those of this host; nil if it has none.
	Volumes containers.Volumes

	// Probe looks at a container once, and returns why it is not well. It ends soon after
	// its context does. Without it checks are refused as unsupported.
	Probe func(context.Context, containers.Probed, contract.Check) error

	// Limiter limits what containers use. Without it that is refused as unsupported.
	Limiter containers.Limiter

	// Leaving reports whether the host is going down, so that nothing is started again;
	// nil: it is not known.
	Leaving func(context.Context) bool
	// Witness begins to watch the first process of a container, and returns what waits
	// for its end, and calls gone before it finds out how. nil: only that there was an end is known.
	Witness func(pid int) (wait func(ctx context.Context, gone func()) (queue.End, error), err error)

	// Payloads keeps what commands read until they have ended. Without it specs
	// with a payload are refused as unsupported.
	Payloads *blob.Store

	// Guard kills unique containers at the ends of their leases. SelfFence is what it has
	// shown to do: none, guard or watchdog; a guard that also restarts the host is in Features. Without it unique containers are not started.
	// Group finds the control group of a container by its first process, see
	// [containers.Config].
	Guard     lease.Guard
	SelfFence string
	Group     func(init int) (string, error)

	// Programs are the agent's own and how they are replaced. Without it upgrades are
	// refused as unsupported.
	Programs *upgrade.Programs

	// Faults are what drills make. Without one, a drill of it is refused as unsupported.
	Faults drill.Faults
	// Fences asks fence devices that this host reaches. Without it that is refused as
	// unsupported.
	Fences fencing.Ask

	// Watch looks after the host beside the agent until ctx ends, and raises and clears
	// alerts: raise returns when the change is durable, or why it is not. Default: none.
	Watch func(ctx context.Context, raise func(protocol.Alert) error) error

	// Rules takes the coordinator's rules of alerts, when they are durable: before
	// Watch begins, and again with each change. It does not wait. Default: none.
	Rules func(texts []string)

	// HostInfo describes the host for a heartbeat. It may take a moment but not
	// wait for anything. QueueDepth, Boot, UptimeMS and ClockMS are filled in by the agent.
	// Default: the little that is known without it.
	HostInfo func() protocol.HostInfo
	// Boot names the present boot: boot id and start time of process 1.
	// Required.
	Boot string
	// Spread takes the reconnect window that the coordinator announces. Default: the Link
	// connects again as it likes.
	Spread func(time.Duration)
	// Features are words for the hello: lxc, podman, cgroup2.
	Features []string

	// BootMS reads CLOCK_BOOTTIME in milliseconds, which counts suspended time
	// too. Default: time since New, for a process that is never suspended.
	BootMS func() int64
	// Now reads the wall clock, which nothing but people relies on. Default
	// time.Now.
	Now func() time.Time
	// Rand is the source of ids, challenges and jitter. Default crypto/rand.
	Rand io.Reader
	// Log hears of what an operator wants to know. Default: none.
	Log *slog.Logger

	// HostRuns is how many commands of the host run at a time. Default 16.
	HostRuns int
	// Sessions is how many interactive sessions there are at a time. Another is
	// refused. Default 16.
	Sessions int
	// RecordSessions records every session, and not only those that ask for it.
	// RecordBytes is how long a recording may become, default 32 MiB; RecordOrEnd
	// hangs up a session whose recording cannot go on, which goes on otherwise.
	RecordSessions bool
	RecordBytes    int64
	RecordOrEnd    bool
	// Lanes is how many actions on containers run at a time; 1 is a strictly
	// sequential queue. Default 32, far above what two cores use and below what
	// memory for helper processes allows.
	Lanes int
	// MaxOpen is how many actions may be here that have not ended: each costs
	// memory, and a client that asks for more has made a mistake in a loop. What comes
	// beyond is refused as queue_full, but for 1000 that stop a container at once.
	// Default 10,000.
	MaxOpen int
	// CheckEvery is the pause between two full looks at all containers, the
	// safety net under the watchers. Default 30 s.
	CheckEvery time.Duration
	// OutputTotal is how many bytes of the disk the runs of all actions may take,
	// and OutputAge for how long those of an ended one are kept: what ended first
	// goes first, and nothing that has not ended. Default 2 GiB and 14 days.
	OutputTotal int64
	OutputAge   time.Duration
	// Drain is how long a shutdown waits for steps of containers' lives that
	// are under way; commands are never waited for. Default 10 s.
	Drain time.Duration
}

func (c Config) withDefaults() Config {
	started := time.Now()
	if c.BootMS == nil {
		c.BootMS = func() int64 { return time.Since(started).Milliseconds() }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.HostInfo == nil {
		c.HostInfo = func() protocol.HostInfo { return protocol.HostInfo{Hostname: string(c.Host)} }
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Features = append(slices.Clone(c.Features), protocol.FeatureHolders)
	if c.Spread != nil {
		c.Features = append(c.Features, protocol.FeatureSpread)
	}
	c.Features = slices.Compact(slices.Sorted(slices.Values(c.Features)))
	c.SelfFence = cmp.Or(c.SelfFence, "none")
	c.HostRuns = cmp.Or(c.HostRuns, 16)
	c.Sessions = cmp.Or(c.Sessions, 16)
	c.RecordBytes = cmp.Or(c.RecordBytes, 32<<20)
	c.Lanes = cmp.Or(c.Lanes, 32)
	c.MaxOpen = cmp.Or(c.MaxOpen, 10_000)
	c.CheckEvery = cmp.Or(c.CheckEvery, 30*time.Second)
	c.OutputTotal = cmp.Or(c.OutputTotal, 2<<30)
	c.OutputAge = cmp.Or(c.OutputAge, 14*24*time.Hour)
	c.Drain = cmp.Or(c.Drain, 10*time.Second)
	return c
}

func (c Config) validate() error {
	switch {
	case c.Host == "":
		return errors.New("configuration without Host")
	case c.Fleet.IsZero() || c.FleetName == "":
		return errors.New("configuration without Fleet or FleetName")
	case c.Queue == nil:
		return errors.New("configuration without Queue")
	case c.Boot == "":
		return errors.New("configuration without Boot")
	case c.Link != nil && (c.Bulk == nil || c.Signer == nil || c.Trust == nil):
		return errors.New("configuration with Link, but without Bulk, Signer or Trust")
	case c.Link != nil && c.Policies.Keep == nil:
		return errors.New("configuration with Link, but without Policies.Keep")
	case c.Commands != nil && len(c.Supervisor) == 0:
		return errors.New("configuration with Commands, but without Supervisor")
	case (c.Commands == nil) != (c.RunDirs == nil):
		return errors.New("configuration with one of Commands and RunDirs, but without the other")
	case c.HostRuns < 0 || c.Sessions < 0 || c.RecordBytes < 0 || c.Lanes < 0 || c.MaxOpen < 0 || c.CheckEvery < 0 || c.OutputTotal < 0 || c.OutputAge < 0 || c.Drain < 0:
		return errors.New("a limit is negative")
	}
	seen := make(map[container.Kind]bool)
	for _, r := range c.Runtimes {
		if seen[r.Kind()] {
			return fmt.Errorf("two runtimes of kind %s", r.Kind())
		}
		seen[r.Kind()] = true
	}
	return nil
}
