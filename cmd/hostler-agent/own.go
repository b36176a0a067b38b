package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/agent/backups"
	"github.com/hostler-io/hostler/agent/hostcmd"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/certs"
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
			if err := needsRoot("check", os.Geteuid()); err != nil {
				return nil, err
			}
			c, _, err := configured()
			if err != nil {
				return nil, err
			}
			return lookOver(ctx, c), nil
		},
		Backups: func(dir, encryptTo string) (backup.Store, string, error) {
			b, err := state(dir).openBackups()
			if err == nil && encryptTo != "" {
				b.By, err = certs.LoadRecipients(encryptTo)
			}
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
		Targets: c.Backups.Targets, Access: c.Backups.access(), EncryptTo: c.Backups.EncryptTo,
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

// secretKey is a file that is read when something is to be decrypted, and not before: what
// is wrong with it keeps nothing else from being done.
type secretKey string

// Decrypt implements [backup.Decrypter].
func (k secretKey) Decrypt(from io.Reader) (io.Reader, error) {
	open, err := certs.LoadOpener(string(k))
	if err != nil {
		return nil, err
	}
	return open.Decrypt(from)
}

// containerBackups are the backups of the host, for its containers.
func (s state) containerBackups(c backupsConfig) backups.Backups {
	return backups.Backups{
		Open: func() (backup.Store, error) {
			b, err := s.openBackups()
			if c.SecretKey != "" {
				b.Secret = secretKey(c.SecretKey)
			}
			return b, err
		},
		Trust: func() (func(body, sig []byte) (string, error), error) {
			by, err := s.signing()
			return by.Trust, err
		},
		Targets: c.Targets, Access: c.access(),
	}
}

// access is how the host is let into its buckets. A name of a credential becomes its path:
// the commands of the agent do not know which unit runs it.
func (c backupsConfig) access() backup.Access {
	a := backup.Access{CAFile: c.S3CAFile}
	for _, text := range c.S3Credentials {
		target, file, _ := strings.Cut(text, "=")
		if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && !strings.Contains(file, "/") {
			file = filepath.Join(dir, file)
		}
		a.Credentials = append(a.Credentials, target+"="+file)
	}
	return a
}
