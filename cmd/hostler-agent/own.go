package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/hostcmd"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/setting"
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
	return backup.Store{Dir: s.backups(), Signer: key, Vouched: vouching{s}, Key: ours{key.PublicKey()}}, nil
}

// vouching signs as archives of images are signed, so that other hosts of the fleet know
// whose signature it is.
type vouching struct{ state }

// Sign implements [backup.Signer].
func (v vouching) Sign(body []byte) ([]byte, error) {
	by, err := v.signing()
	if err != nil {
		return nil, err
	}
	return by.Seal(body)
}

// ours verifies what this host has signed, with a voucher or without.
type ours struct{ key *certs.PublicKey }

// Verify implements [backup.Verifier].
func (o ours) Verify(sig, body []byte) error {
	var by sealed
	if json.Unmarshal(sig, &by) != nil {
		return o.key.Verify(sig, body)
	}
	if !bytes.Equal(by.Key, o.key.Bytes()) {
		return errors.New("another host has signed it")
	}
	return o.key.Verify(by.Sig, body)
}

// theirs verifies what certain hosts of the fleet have signed. It keeps who has signed what
// was verified last.
type theirs struct {
	by    hostcmd.Signing
	hosts []protocol.HostID
	last  protocol.HostID
}

// Verify implements [backup.Verifier].
func (t *theirs) Verify(sig, body []byte) error {
	host, err := t.by.Trust(body, sig)
	if err == nil && !slices.Contains(t.hosts, protocol.HostID(host)) {
		err = fmt.Errorf("host %s has signed it, which has not held the container", host)
	}
	t.last = protocol.HostID(host)
	return err
}

// Latest implements containers.Backups.
func (b backups) Latest(ctx context.Context, id container.CTID, hosts []protocol.HostID) (found containers.Restored, img container.Image, err error) {
	s, err := b.openBackups()
	if err != nil {
		return found, img, err
	}
	by, err := b.signing()
	if err != nil {
		return found, img, err
	}
	signed := &theirs{by: by, hosts: hosts}
	s.Key = signed
	targets, err := backup.ParseTargets(b.targets)
	if err != nil {
		return found, img, err
	}
	at, newest, err := s.Latest(targets, id)
	if err != nil {
		return found, img, err
	}
	m, img, err := at.Image(ctx, newest.Name)
	if err == nil && (m.CTID != id || m.SHA256 != newest.SHA256) {
		err = fmt.Errorf("%w: backup %s was changed while it was read", backup.ErrArchive, newest.Name)
	}
	return containers.Restored{Kind: m.Runtime, Name: at.Target() + ":" + newest.Name, Host: signed.last, MadeMS: m.Made}, img, err
}

// backups are those of a host, for its containers. It implements containers.Backups.
type backups struct {
	state
	targets []string
}

func (b backups) Image(ctx context.Context, target, name string) (container.Kind, container.Image, setting.New, error) {
	s, err := b.openBackups()
	if err != nil {
		return "", container.Image{}, setting.New{}, err
	}
	targets, err := backup.ParseTargets(b.targets)
	if err == nil {
		s, err = s.At(targets, target)
	}
	if err != nil {
		return "", container.Image{}, setting.New{}, err
	}
	m, img, err := s.Image(ctx, name)
	return m.Runtime, img, m.Kept, err
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
