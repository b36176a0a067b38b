package main

import (
	"context"
	"os"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/hostcmd"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/runner/rundir"
)

// ownCommands are the commands that the agent runs of its own program.
func ownCommands(configured loader) hostcmd.Config {
	return hostcmd.Config{
		Socket: func() (string, error) {
			c, _, err := configured()
			return c.Socket, err
		},
		Metrics: func() (string, error) {
			c, _, err := configured()
			return state(c.StateDir).metrics(), err
		},
		Note: os.Getenv(rundir.NoteVariable),
		Check: func(ctx context.Context) ([]api.Finding, error) {
			c, _, err := configured()
			if err != nil {
				return nil, err
			}
			return lookOver(ctx, c), nil
		},
		Backups: func(dir string) (backup.Store, string, error) {
			b, err := state(dir).openBackups()
			return b, state(dir).locks(), err
		},
		Signing: func(dir string) (hostcmd.Signing, error) { return state(dir).signing() },
		Podman: func(socket string) (*podman.Runtime, error) {
			self, err := thisProgram()
			if err != nil {
				return nil, err
			}
			return podman.New(podman.Config{Socket: socket, Supervisor: []string{self, supervisePodman}})
		},
	}
}

// told is what the agent tells these commands.
func (c config) told(self string, s state) hostcmd.Host {
	return hostcmd.Host{
		Program: self, Socket: c.Socket, State: string(s), Metrics: s.metrics(),
		Images:  hostcmd.ImageSetup{Dir: s.images(), Registries: c.Images.registries(), MaxBytes: int64(c.Images.MaxGiB) << 30},
		LXCPath: c.LXC.Path, LXCHelper: c.LXC.Helper, Volumes: c.volumes(), Podman: c.Podman.Socket, Bridge: c.Network.Bridge, Mark: s.mark(),
		Targets: c.Backups.Targets,
	}
}

// openBackups returns the backups of a host, which its key signs. A host without a fleet
// makes its key for the first one.
func (s state) openBackups() (backup.Store, error) {
	host, err := os.Hostname()
	if err != nil {
		return backup.Store{}, err
	}
	key, _, err := s.keys(host)
	if err != nil {
		return backup.Store{}, err
	}
	return backup.Store{Dir: s.backups(), Signer: key, Key: key.PublicKey()}, nil
}

// backups are those of a host, for its containers. It implements containers.Backups.
type backups struct {
	state
	targets []string
}

func (b backups) Image(ctx context.Context, target, name string) (containers.StoredBackup, error) {
	s, err := b.openBackups()
	if err != nil {
		return containers.StoredBackup{}, err
	}
	targets, err := backup.ParseTargets(b.targets)
	if err == nil {
		s, err = s.At(targets, target)
	}
	if err != nil {
		return containers.StoredBackup{}, err
	}
	m, img, err := s.Image(ctx, name)
	return containers.StoredBackup{CTID: m.CTID, Kind: m.Runtime, Image: img, Kept: m.Kept, Volumes: m.VolumesIn(img)}, err
}

func (b backups) Newest(context.Context) (map[container.CTID]containers.GoodBackup, error) {
	s, err := b.openBackups()
	if err != nil {
		return nil, err
	}
	all, err := s.Newest()
	newest := make(map[container.CTID]containers.GoodBackup, len(all))
	for id, n := range all {
		newest[id] = containers.GoodBackup(n)
	}
	return newest, err
}
