package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// decrypt writes the archive of a backup as it was before it was encrypted, and returns the
// path of that. It is in the host's own directory, also for a backup at a target, and is gone
// when ctx has ended; what a killed process leaves is debris.
func (s Store) decrypt(ctx context.Context, name string, m Manifest) (path string, err error) {
	if s.Secret == nil {
		return "", fmt.Errorf("%w: backup %s is encrypted to key %s: put the secret key on this host, and name it in backups.secret_key of agent.toml", container.ErrUnsupported, name, strings.Join(m.Encrypted.To, ", "))
	}
	f, err := s.open(ctx, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	out, err := s.temporary("decrypted-")
	if err != nil {
		return "", err
	}
	if err := m.decryptTo(ctx, out, f, s.Secret); err != nil {
		return "", errors.Join(fmt.Errorf("backup %s: %w", name, err), out.remove())
	}
	return out.until(ctx), nil
}

// temporary is a file in the host's own directory, which leaves room on the disk for others.
// What a killed process leaves is debris.
type temporary struct{ sparing }

func (s Store) temporary(prefix string) (*temporary, error) {
	dir := s.Dir
	if s.target != "" {
		dir = s.own
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, unfinished+prefix)
	if err != nil {
		return nil, err
	}
	t := &temporary{sparing{to: f}}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(&os.PathError{Op: "flock", Path: f.Name(), Err: err}, t.remove())
	}
	return t, nil
}

func (t *temporary) remove() error { return errors.Join(os.Remove(t.to.Name()), t.to.Close()) }

// until removes the file when ctx has ended.
func (t *temporary) until(ctx context.Context) (path string) {
	context.AfterFunc(ctx, func() { _ = t.remove() }) // what is left is debris
	return filepath.Clean(t.to.Name())
}

// decryptTo decrypts an archive that was verified. Its length is bounded by the manifest:
// the maker of the message may have made it without end.
func (m *Manifest) decryptTo(ctx context.Context, to io.Writer, f io.ReaderAt, secret Decrypter) error {
	text, err := secret.Decrypt(io.NewSectionReader(f, 0, m.Bytes))
	if err != nil {
		return fmt.Errorf("%w: it was encrypted to key %s: %w", ErrArchive, strings.Join(m.Encrypted.To, ", "), err)
	}
	buffer := make([]byte, 1<<20)
	left := m.Encrypted.Bytes
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := text.Read(buffer)
		if left -= int64(n); left < 0 {
			return fmt.Errorf("%w: more is encrypted in it than its manifest says", ErrArchive)
		}
		if _, bad := to.Write(buffer[:n]); bad != nil {
			return bad
		}
		switch {
		case err == io.EOF && left > 0:
			return fmt.Errorf("%w: less is encrypted in it than its manifest says", ErrArchive)
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", ErrArchive, err)
		}
	}
}
