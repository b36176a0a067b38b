package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/frame"
)

// Seal signs a manifest: what it returns shows to other hosts that this host has signed it.
type Seal func(manifest []byte) (signature []byte, err error)

// Trust returns the host whose key has signed a manifest. It fails if this host does not
// know the key, or the signature is not one of these bytes.
type Trust func(manifest, signature []byte) (signer string, err error)

// A backup travels as a row of parts: the full backup, behind it each increment on the one before
// it, and the backup that was asked for at the end. Each part is an archive and its manifest, as
// the first host keeps it: the digest of the parent in the next manifest is the digest of those
// bytes. A part that the other host has is only its manifest. The mark at the end of a part tells
// which of the two it is.
const (
	sentMark = "hostlrx1"
	leftMark = "hostlrl1"
)

// lastMade is the end of the year 9999, behind which a time cannot be written in a list of
// backups: none would be listed.
const lastMade = 253402300799999

// opened is a backup that is read, and its manifest as it was signed.
type opened struct {
	file
	text []byte
}

// Export writes a backup, and all that it is an increment of, as another host takes them. Left
// out are the archives of those that the other host has. No byte is written before all
// manifests were verified, and the manifest of a part only if the archive before it was whole.
func (s Store) Export(ctx context.Context, name string, to io.Writer, seal Seal, leftOut ...string) (b Backup, err error) {
	parts, err := chainOf(name, func(name string) (Backup, opened, error) { return openWhole(ctx, s, name) })
	defer func() {
		for _, p := range parts {
			err = errors.Join(err, p.of.Close())
		}
	}()
	if err != nil {
		return b, err
	}
	for _, name := range leftOut {
		if !slices.ContainsFunc(parts, func(p link[opened]) bool { return p.Name == name }) {
			return b, fmt.Errorf("%w: backup %s, which is to be left out, is no part of backup %s", container.ErrNotFound, name, parts[len(parts)-1].Name)
		}
	}
	for _, p := range parts {
		mark := leftMark
		if !slices.Contains(leftOut, p.Name) {
			mark = sentMark
			if err := p.copyTo(ctx, to, p.of); err != nil {
				return b, fmt.Errorf("backup %s: %w", p.Name, err)
			}
		}
		sig, err := seal(p.of.text)
		if err != nil {
			return b, err
		}
		end, err := frame.Append(mark, p.of.text, sig)
		if err == nil {
			_, err = to.Write(end)
		}
		if err != nil {
			return b, err
		}
	}
	return parts[len(parts)-1].Backup, nil
}

// openWhole opens a backup whose manifest is good.
func openWhole(ctx context.Context, s Store, name string) (Backup, opened, error) {
	f, err := s.open(ctx, name)
	if err != nil {
		return Backup{}, opened{}, err
	}
	size := f.stat().size
	m, text, err := read(f, size, s.Key)
	if err != nil {
		return Backup{}, opened{}, errors.Join(err, f.Close())
	}
	return Backup{Name: name, Size: size, Manifest: m}, opened{f, text}, nil
}

// arrival is a part that has come from another host.
type arrival struct {
	Backup
	archive io.ReaderAt // nil: it was left out
}

// Import takes a backup that another host of the fleet, or this one, has exported, and the
// backups below it under their own names. All of them are verified before anything is written,
// those that were left out at this host. They are kept as backups of this host, which signs them
// anew, and has each lie on its own. The backup has come when it has its name, which it gets as
// the last one: what is there of those below it before is whole, and stays for the next attempt.
// The same archive under a name is no error; another one is container.ErrExists.
func (s Store) Import(ctx context.Context, f *os.File, name string, trust Trust) (b Backup, err error) {
	if err := checkName(name); err != nil {
		return b, err
	}
	i, err := f.Stat()
	if err != nil {
		return b, err
	}
	if !i.Mode().IsRegular() {
		return b, fmt.Errorf("%w: it is no regular file", ErrArchive)
	}
	parts, err := arrived(f, i.Size(), name, trust)
	if err != nil {
		return b, err
	}
	for _, p := range parts {
		if p.archive == nil {
			continue
		}
		if err := p.copyTo(ctx, io.Discard, p.archive); err != nil {
			return b, fmt.Errorf("backup %s: %w", p.Name, err)
		}
	}
	c := coming{at: s}
	if err := c.look(ctx, parts); err != nil {
		return b, err
	}
	for _, p := range parts[len(c.here):] {
		if err := c.take(ctx, p); err != nil {
			return b, err
		}
	}
	c.here[0].Chain, c.here[0].ChainBytes = 1, c.here[0].Size
	for i := range c.here[1:] {
		c.here[i+1].stack(&c.here[i])
	}
	b = c.here[len(c.here)-1]
	return b, s.noteElsewhere(b)
}

// arrived reads the manifests of what has come, from its end: each names the backup before it. It
// believes nothing that the host which has sent it has not signed, and reads no archive.
func arrived(f io.ReaderAt, size int64, name string, trust Trust) (all []arrival, err error) {
	from := ""
	for end := size; ; {
		p, signer, begin, err := arrivedOne(f, end, trust)
		p.Name = name
		switch {
		case err != nil && len(all) == 0:
		case err != nil:
			err = fmt.Errorf("it is an increment of backup %s: %w", name, err)
		case len(all) > 0 && signer != from:
			err = fmt.Errorf("%w: it is an increment of backup %s, but host %s has signed the increment, and host %s has signed that backup", ErrArchive, name, from, signer)
		case len(all) > 0:
			err = all[0].on(&p.Backup)
		}
		if err == nil && slices.ContainsFunc(all, func(o arrival) bool { return o.Name == name }) {
			err = fmt.Errorf("%w: it is an increment of another backup %s, and cannot have that name; choose another one", container.ErrExists, name)
		}
		if err == nil && p.Parent == nil && begin > 0 {
			err = wrongSize(p.Manifest, p.Bytes+begin)
		}
		if err == nil && p.Parent != nil && begin == 0 {
			err = fmt.Errorf("%w: it needs backup %s, which has not come with it; bring it again with all backups that it needs", ErrArchive, p.Parent.Name)
		}
		if err != nil {
			return nil, err
		}
		all = slices.Insert(all, 0, p)
		if p.Parent == nil {
			return all, nil
		}
		from, name, end = signer, p.Parent.Name, begin
	}
}

// arrivedOne reads the part that ends at a place, and tells where it begins.
func arrivedOne(f io.ReaderAt, end int64, trust Trust) (p arrival, signer string, begin int64, err error) {
	text, sig, begin, err := frame.Read(f, end, sentMark)
	sent := err == nil
	if errors.Is(err, frame.ErrFrame) {
		text, sig, begin, err = frame.Read(f, end, leftMark)
	}
	if err == nil {
		signer, err = trust(text, sig)
	}
	if err != nil {
		return p, "", 0, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if p.Manifest, err = decode(text); err != nil {
		return p, "", 0, err
	}
	if p.Made < 0 || p.Made > lastMade {
		return p, "", 0, fmt.Errorf("%w: host %s says that it was made %d ms after 1970, which is no time; make it anew on that host", ErrArchive, signer, p.Made)
	}
	if sent && p.Bytes > begin {
		return p, "", 0, wrongSize(p.Manifest, begin)
	}
	if sent {
		begin -= p.Bytes
		p.archive = io.NewSectionReader(f, begin, p.Bytes)
	}
	p.From, p.Scheduled = signer, false // no schedule of this host may remove it
	return p, signer, begin, nil
}

// coming is a chain that becomes one of a store.
type coming struct {
	at   Store
	here []Backup // what the store has of it, from the full one on, verified
}

// look finds what the store has. It fails if a part that it lacks was left out, or if a name is
// that of another backup.
func (c *coming) look(ctx context.Context, parts []arrival) error {
	for i, p := range parts {
		there, err := c.same(ctx, p)
		absent := errors.Is(err, container.ErrNotFound)
		switch {
		case err == nil && len(c.here) < i:
			return another(p.Name, "it is an increment of a backup that is gone")
		case err == nil:
			c.here = append(c.here, there)
		case !absent:
			return err
		case p.archive == nil:
			return fmt.Errorf("%w: backup %s was left out, and this host does not have it any more; bring it again", ErrArchive, p.Name)
		}
	}
	return nil
}

func another(name, why string) error {
	return fmt.Errorf("%w: this host has another backup %s: %s; remove that one first", container.ErrExists, name, why)
}

// same verifies the backup of the store that is a part, which lies on those that are here.
func (c *coming) same(ctx context.Context, p arrival) (Backup, error) {
	b, err := c.at.fetch(ctx, p.Name, whole(ctx))
	if errors.Is(err, ErrArchive) {
		return b, another(p.Name, err.Error())
	}
	if err != nil {
		return b, err
	}
	if b.SHA256 != p.SHA256 || b.CTID != p.CTID || b.Runtime != p.Runtime || b.depth() != p.depth() {
		return b, another(p.Name, "it was made of other files")
	}
	if b.Parent != nil && len(c.here) == b.depth() {
		if parent := &c.here[len(c.here)-1]; b.Parent.Name != parent.Name || b.on(parent) != nil {
			return b, another(p.Name, "it is an increment of another backup "+parent.Name)
		}
	}
	return b, nil
}

// take makes a part a backup of the store, over those that are here.
func (c *coming) take(ctx context.Context, p arrival) error {
	m := p.Manifest
	if m.Parent != nil {
		on := c.here[len(c.here)-1]
		m.Parent = &Parent{Name: on.Name, SHA256: on.sum, Depth: on.depth() + 1}
	}
	_, err := c.at.put(ctx, p.Name, m, func(to io.Writer, m Manifest) (Manifest, error) {
		if err := m.copyTo(ctx, to, p.archive); err != nil {
			return m, err
		}
		if m.Parent != nil {
			if err := c.at.stillThere(ctx, m.Parent); err != nil {
				return m, err
			}
		}
		end, err := seal(m, c.at.signer(m))
		if err == nil {
			_, err = to.Write(end)
		}
		return m, err
	})
	if err != nil && !errors.Is(err, container.ErrExists) { // else another process has made one meanwhile
		return err
	}
	b, err := c.same(ctx, p) // what is on the disk is what was written
	c.here = append(c.here, b)
	return err
}
