package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/frame"
)

// Seal signs a manifest: what it returns shows to other hosts that this host has signed it.
type Seal func(manifest []byte) (signature []byte, err error)

// Trust returns the host whose key has signed a manifest. It fails if this host does not
// know the key, or the signature is not one of these bytes.
type Trust func(manifest, signature []byte) (signer string, err error)

// travelMark ends a backup on its way to another host.
const travelMark = "hostlrx1"

// lastMade is the end of the year 9999, behind which a time cannot be written in a list of
// backups: none would be listed.
const lastMade = 253402300799999

// Export writes a backup as another host takes it. The manifest comes last, and only if the
// archive before it was whole.
func (s Store) Export(ctx context.Context, name string, to io.Writer, seal Seal) (Backup, error) {
	f, err := s.open(ctx, name)
	if err != nil {
		return Backup{}, err
	}
	defer f.Close()
	b := Backup{Name: name, Size: f.stat().size}
	if b.Manifest, err = Read(f, b.Size, s.Key); err != nil {
		return b, err
	}
	if b.Parent != nil {
		return b, fmt.Errorf("%w: backup %s is an increment of backup %s, without which another host cannot restore it; make a full backup, without --incremental, and bring that", container.ErrUnsupported, name, b.Parent.Name)
	}
	if err := b.copyTo(ctx, to, f); err != nil {
		return b, err
	}
	body, err := json.Marshal(b.Manifest)
	if err != nil {
		return b, err
	}
	sig, err := seal(body)
	if err != nil {
		return b, err
	}
	end, err := frame.Append(travelMark, body, sig)
	if err != nil {
		return b, err
	}
	_, err = to.Write(end)
	return b, err
}

// Import takes a backup that another host of the fleet, or this one, has exported. All of it
// is verified before anything is written. It is kept as a backup of this host, which signs
// it anew. The same archive under that name is no error; another one is
// container.ErrExists.
func (s Store) Import(ctx context.Context, f *os.File, name string, trust Trust) (Backup, error) {
	i, err := f.Stat()
	if err != nil {
		return Backup{}, err
	}
	if !i.Mode().IsRegular() {
		return Backup{}, fmt.Errorf("%w: it is no regular file", ErrArchive)
	}
	text, sig, start, err := frame.Read(f, i.Size(), travelMark)
	if err != nil {
		return Backup{}, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	signer, err := trust(text, sig)
	if err != nil {
		return Backup{}, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	m, err := decode(text, start)
	if err != nil {
		return Backup{}, err
	}
	if m.Parent != nil {
		return Backup{}, fmt.Errorf("%w: it is an increment of backup %s, without which it cannot be restored; bring a full backup", ErrArchive, m.Parent.Name)
	}
	if m.Made < 0 || m.Made > lastMade {
		return Backup{}, fmt.Errorf("%w: host %s says that it was made %d ms after 1970, which is no time; make it anew on that host", ErrArchive, signer, m.Made)
	}
	if err := m.copyTo(ctx, io.Discard, f); err != nil {
		return Backup{}, err
	}
	m.From, m.Scheduled = signer, false // no schedule of this host may remove it
	b, err := s.put(ctx, name, m, func(to io.Writer, m Manifest) (Manifest, error) {
		if err := m.copyTo(ctx, to, f); err != nil {
			return m, err
		}
		end, err := seal(m, s.signer(m))
		if err == nil {
			_, err = to.Write(end)
		}
		return m, err
	})
	if errors.Is(err, container.ErrExists) {
		there, bad := s.Verify(ctx, name)
		if bad == nil && there.SHA256 == m.SHA256 && there.CTID == m.CTID {
			return there, nil
		}
	}
	if err != nil {
		return Backup{}, err
	}
	return s.Verify(ctx, b.Name) // what is on the disk is what was written
}
