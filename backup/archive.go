package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/frame"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/mount"
	"github.com/hostler-io/hostler/protocol/setting"
)

// ErrArchive says that a file is no backup that can be used: it is damaged, cut short,
// or was not signed by the key that is asked for.
var ErrArchive = errors.New("the backup cannot be used")

// form is the first member of each manifest, so that what is signed as one means nothing
// else.
const form = "backup/1"

// Manifest says what an archive holds.
type Manifest struct {
	Form string `json:"hostler"`
	// Container is its name, and Made when it was made, in Unix milliseconds.
	Container string         `json:"container"`
	CTID      container.CTID `json:"ctid"`
	Runtime   container.Kind `json:"runtime"`
	Made      int64          `json:"made_ms"`
	// Number counts the backups of a container on its host, from 1: the clock may have
	// jumped between two, their order never does.
	Number uint64 `json:"number"`
	// Epoch is that under which a unique container ran; zero for others. It orders the
	// backups that different hosts have made of it.
	Epoch protocol.Epoch `json:"epoch,omitzero"`
	// Scheduled tells that a schedule has made it, which may remove it, too.
	Scheduled bool `json:"scheduled,omitzero"`
	// From is the host that it was brought from; empty if this host has made it.
	From string `json:"from,omitzero"`
	// Image is what runs in it, and how; it has no layers.
	Image container.Image `json:"image"`
	// Kept is how the container was kept.
	Kept setting.New `json:"kept,omitzero"`
	// Bytes and SHA256 are those of the archive, DiffID is that of it uncompressed.
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	DiffID  string `json:"diff_id"`
	Entries int    `json:"entries"`
	// Volumes are those whose files are in it too, each behind the one before it. DiffID is
	// that of the container's own files alone.
	Volumes []Packed `json:"volumes,omitempty"`
	// Encrypted tells to which keys, if the archive is an OpenPGP message. Bytes and SHA256
	// are those of the message then, and all else is about what is in it.
	Encrypted *Encrypted `json:"encrypted,omitempty"`
	// Snapshots are those of the container whose files are in it too, each behind the one before
	// it, and all behind the volumes. Versions that know of none refuse a manifest with them.
	Snapshots []Earlier `json:"snapshots,omitempty"`
	// Parent is what it is an increment of; nil: it is a full backup. Versions that know of no
	// increments refuse a manifest with this member.
	Parent *Parent `json:"parent,omitempty"`

	sum string // SHA-256 of its JSON; known of one that was read
}

// Encrypted is what is known of an archive that cannot be read without a secret key.
type Encrypted struct {
	To    []string `json:"to"`    // fingerprints, in hexadecimal
	Bytes int64    `json:"bytes"` // of the archive in the message
}

// inside is how long the archive is, decrypted.
func (m *Manifest) inside() int64 {
	if m.Encrypted != nil {
		return m.Encrypted.Bytes
	}
	return m.Bytes
}

// Packed is a volume in a backup: a tar archive behind that of the container's own files.
type Packed struct {
	Name    string `json:"name"`
	Offset  int64  `json:"offset"`
	Bytes   int64  `json:"bytes"`
	DiffID  string `json:"diff_id"`
	Entries int    `json:"entries"`
}

// Earlier is a snapshot in a backup, with all files that the container had then.
type Earlier struct {
	Snapshot container.Snapshot `json:"snapshot"`
	Files    Packed             `json:"files"`
}

// Tree is a directory whose files are of users that have ids.
type Tree struct {
	Name, Root string
	IDs        container.IDRange
	// Of is the snapshot whose files they are; nil: a volume's, or the container's own.
	Of *container.Snapshot
	// With calls a function with the root directory, which is there meanwhile. Nil: it is Root.
	With func(do func(root string) error) error

	change *change   // what is archived, and listed; nil: all, and not listed
	below  indexHead // of the backup that it is laid over
}

// Visit calls do with the root directory.
func (t Tree) Visit(do func(root string) error) error {
	if t.With == nil {
		return do(t.Root)
	}
	return t.With(do)
}

// MaxBytes is how long an archive may be.
const MaxBytes = 1 << 40

// mark ends the file.
const mark = "hostlrb1"

// Signer signs bytes; see [certs.Identity].
type Signer interface {
	Sign(body []byte) ([]byte, error)
}

// Verifier verifies what a Signer has signed.
type Verifier interface {
	Verify(sig, body []byte) error
}

// Encrypter encrypts archives to keys of people; see [certs.Recipients].
type Encrypter interface {
	Fingerprints() []string
	Encrypt(to io.Writer) (io.WriteCloser, error)
}

// Decrypter decrypts what an Encrypter has encrypted; see [certs.Opener].
type Decrypter interface {
	Decrypt(from io.Reader) (io.Reader, error)
}

// Write writes the root directory of a container, whose users have ids, what belongs to it
// (volumes, and behind them snapshots in their order), and the signed manifest, which it
// completes. The archive is encrypted if by is not nil.
func Write(ctx context.Context, to io.Writer, root string, ids container.IDRange, m Manifest, key Signer, by Encrypter, more ...Tree) (Manifest, error) {
	return writeTree(ctx, to, Tree{Root: root, IDs: ids}, m, key, by, more...)
}

// writeTree is Write of a tree that may be a part of one.
func writeTree(ctx context.Context, to io.Writer, own Tree, m Manifest, key Signer, by Encrypter, more ...Tree) (Manifest, error) {
	packed := sha256.New()
	out := newAside(io.MultiWriter(to, packed))
	count := &counter{to: out}
	m, err := packBy(ctx, by, count, own, m, more)
	if err = cmp.Or(out.Close(), err); err != nil {
		return m, err
	}
	m.Form, m.Bytes, m.SHA256 = form, count.n, hex.EncodeToString(packed.Sum(nil))
	end, err := seal(m, key)
	if err != nil {
		return m, err
	}
	_, err = to.Write(end)
	return m, err
}

// packBy is packAll, encrypted.
func packBy(ctx context.Context, by Encrypter, to *counter, own Tree, m Manifest, more []Tree) (Manifest, error) {
	if by == nil {
		return packAll(ctx, to, own, m, more)
	}
	message, err := by.Encrypt(to)
	if err != nil {
		return m, fmt.Errorf("encrypting the backup: %w", err)
	}
	plain := &counter{to: message}
	m, err = packAll(ctx, plain, own, m, more)
	if err = cmp.Or(err, message.Close()); err != nil {
		return m, err
	}
	m.Encrypted = &Encrypted{To: by.Fingerprints(), Bytes: plain.n}
	return m, nil
}

// packAll writes the archives, and tells the manifest of them.
func packAll(ctx context.Context, to *counter, own Tree, m Manifest, more []Tree) (Manifest, error) {
	first, err := pack(ctx, to, own)
	if err != nil {
		return m, err
	}
	m.Entries, m.DiffID = first.Entries, first.DiffID
	for _, t := range more {
		var p Packed
		err := t.Visit(func(root string) (err error) {
			t.Root = root
			p, err = pack(ctx, to, t)
			return err
		})
		switch {
		case err != nil && t.Of != nil:
			return m, fmt.Errorf("snapshot %s: %w", t.Of.Name, err)
		case err != nil:
			return m, fmt.Errorf("volume %s: %w", t.Name, err)
		case t.Of != nil:
			p.Name = t.Of.Name
			m.Snapshots = append(m.Snapshots, Earlier{*t.Of, p})
		default:
			m.Volumes = append(m.Volumes, p)
		}
	}
	return m, nil
}

// pack writes a tree as an archive behind what was written before.
func pack(ctx context.Context, to *counter, t Tree) (p Packed, err error) {
	p.Name, p.Offset = t.Name, to.n
	plain := sha256.New()
	z, err := rootfs.Compress(to)
	if err != nil {
		return p, err
	}
	digest := newAside(plain)
	if out := io.MultiWriter(z, digest); t.change != nil {
		p.Entries, err = t.change.archive(ctx, t, out, t.below)
	} else {
		p.Entries, err = rootfs.Archive(ctx, t.Root, t.IDs, out)
	}
	err = errors.Join(err, z.Close(), digest.Close())
	p.Bytes, p.DiffID = to.n-p.Offset, "sha256:"+hex.EncodeToString(plain.Sum(nil))
	return p, err
}

type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// seal makes the frame.
func seal(m Manifest, key Signer) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sig, err := key.Sign(body)
	if err != nil {
		return nil, err
	}
	return frame.Append(mark, body, sig)
}

// Read reads the manifest of a file of that size, which key must have signed. It does not
// read the archive.
func Read(f io.ReaderAt, size int64, key Verifier) (Manifest, error) {
	m, _, err := read(f, size, key)
	return m, err
}

// read is Read that also returns the JSON which is signed.
func read(f io.ReaderAt, size int64, key Verifier) (m Manifest, text []byte, err error) {
	text, sig, start, err := frame.Read(f, size, mark)
	if errors.Is(err, container.ErrUnavailable) {
		return m, nil, err // nothing is known against it
	}
	if err != nil {
		return m, nil, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if err := key.Verify(sig, text); err != nil {
		return m, nil, fmt.Errorf("%w: it was not signed by the key of this host, or was changed since: %w", ErrArchive, err)
	}
	if m, err = decode(text); err == nil && m.Bytes != start {
		return Manifest{}, nil, wrongSize(m, start)
	}
	return m, text, err
}

func wrongSize(m Manifest, size int64) error {
	return fmt.Errorf("%w: it has %d bytes, and its manifest tells of %d", ErrArchive, size, m.Bytes)
}

// decode reads a manifest whose signature is verified.
func decode(text []byte) (m Manifest, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil || m.Form != form {
		return Manifest{}, fmt.Errorf("%w: its manifest is in no form that this version knows", ErrArchive)
	}
	if m.Bytes < 0 || m.Bytes > MaxBytes || !strings.HasPrefix(m.DiffID, "sha256:") || len(m.Image.Layers)+len(m.Image.Snapshots) > 0 {
		return Manifest{}, fmt.Errorf("%w: its manifest tells of an archive that cannot be, of %d bytes", ErrArchive, m.Bytes)
	}
	if m.Parent != nil {
		if err := m.Parent.check(); err != nil {
			return Manifest{}, err
		}
		if len(m.Volumes)+len(m.Snapshots) > 0 {
			return Manifest{}, fmt.Errorf("%w: it is an increment with volumes or snapshots, which no increment has", ErrArchive)
		}
	}
	inside := m.inside()
	if inside < 1 || inside > MaxBytes {
		return Manifest{}, fmt.Errorf("%w: its manifest tells of %d bytes that are encrypted", ErrArchive, inside)
	}
	end := int64(1) // of what lies before a part; the container's own files come first
	lies := func(p Packed) bool {
		ok := p.Offset >= end && p.Bytes >= 1 && p.Offset <= inside-p.Bytes && strings.HasPrefix(p.DiffID, "sha256:")
		end = p.Offset + p.Bytes
		return ok
	}
	for _, p := range m.Volumes {
		if !lies(p) || mount.CheckName(p.Name) != nil {
			return Manifest{}, fmt.Errorf("%w: volume %.80q lies where none can be", ErrArchive, p.Name)
		}
	}
	var before uint64
	for _, e := range m.Snapshots {
		if !lies(e.Files) || e.Files.Name != e.Snapshot.Name || container.CheckSnapshot(e.Snapshot.Name) != nil || e.Snapshot.Order <= before || e.Snapshot.Damaged || e.Snapshot.MadeMS < 0 || e.Snapshot.MadeMS > lastMade {
			return Manifest{}, fmt.Errorf("%w: snapshot %.80q is, or lies where, none can be", ErrArchive, e.Snapshot.Name)
		}
		before = e.Snapshot.Order
	}
	sum := sha256.Sum256(text)
	m.sum = hex.EncodeToString(sum[:])
	return m, nil
}

// copyTo copies the archive from a file, and holds it against the manifest.
func (m *Manifest) copyTo(ctx context.Context, to io.Writer, f io.ReaderAt) error {
	sum := sha256.New()
	if err := readAll(ctx, io.MultiWriter(sum, to), f, m.Bytes); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != m.SHA256 {
		return fmt.Errorf("%w: its archive was changed: it has the digest %s, and its manifest says %s", ErrArchive, got, m.SHA256)
	}
	return nil
}

// readAll copies the beginning of a file. Its blocks are small enough to stay in the cache of a
// processor.
func readAll(ctx context.Context, to io.Writer, f io.ReaderAt, size int64) error {
	r, buffer := io.NewSectionReader(f, 0, size), make([]byte, 256<<10)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.Read(buffer)
		if _, bad := to.Write(buffer[:n]); bad != nil {
			return bad
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// written is what was written to a file, by its hash under a key that no one else knows. It takes
// an eighth of the time of a SHA-256, and is enough to tell what went wrong on the way to the
// file and back.
type written struct {
	maphash.Hash
	n int64
}

func (w *written) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return w.Hash.Write(p)
}

// check returns a check that a file is what was written.
func (w *written) check(ctx context.Context) func(*Manifest, file) error {
	return func(_ *Manifest, f file) error {
		var again maphash.Hash
		again.SetSeed(w.Seed())
		if err := readAll(ctx, &again, f, w.n); err != nil {
			return err
		}
		if f.stat().size != w.n || again.Sum64() != w.Sum64() {
			return fmt.Errorf("%w: it is not what was written to it", ErrArchive)
		}
		return nil
	}
}
