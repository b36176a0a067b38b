// Package archive reads and writes backups of a coordinator: one tar file of a
// narrow form, which ends in a signed manifest.
//
// The manifest names each file before it, in order, with size and SHA-256. It is
// an envelope as messages are, so what was cut off, changed or added shows, and
// the program that made it is known. [Read] takes no other form than [Writer] makes: plain
// files, names from a list, no links, no attributes, nothing behind the end. What
// it passes on is not yet verified when it is passed on; only once Read has
// returned is all of it what the manifest says.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Type is that of manifests: a signature over one is worth nothing for anything
// else.
const Type protocol.Type = "backup/1"

// Bounds of what is read, which the reader has in memory: a line of the
// manifest for each file. Of output there are up to three to an action, and 200,000
// actions are kept unless the configuration says otherwise.
const (
	MaxFiles    = 1_000_000
	maxManifest = 256 << 20 // bytes
	maxFile     = 1 << 40   // bytes
	maxName     = 100       // bytes: what the header of a tar file holds
	manifest    = "manifest"
)

// ErrArchive tells that a file is no backup, or not one as it was made.
var ErrArchive = errors.New("it is not a whole backup")

var errShort = errors.New("it ends too early")

// names are those of files in a backup. What has a name that is new here is refused
// by the versions before, which tell the name.
var names = regexp.MustCompile(`^(store\.db|fleet\.code|identity\.pgp|ca\.pem|token\.shown|rings/[1-9][0-9]{0,15}|output/[0-9a-f][0-9a-f-]{0,63}/[0-9]{1,6}\.(stdout|stderr|recording)|payloads/([a-z0-9-]{1,63}/)?[0-9a-f]{64})$`)

// HasPlace reports whether a file of that name has a place in a backup.
func HasPlace(name string) bool { return len(name) <= maxName && names.MatchString(name) }

// Manifest says what a backup is and what is in it.
type Manifest struct {
	Type    protocol.Type      `json:"hostler"`
	Fleet   protocol.FleetID   `json:"fleet"`
	Name    protocol.FleetName `json:"name"`
	Store   protocol.StoreID   `json:"store"`
	Key     protocol.KeyID     `json:"key"`  // of the coordinator, also if it is left out
	Ring    uint64             `json:"ring"` // in force
	AtMS    int64              `json:"at_ms"`
	Version string             `json:"version"`
	Keys    bool               `json:"keys"`    // identity.pgp and ca.pem are in it
	Outputs bool               `json:"outputs"` // so is the output of commands
	Files   []File             `json:"files"`
}

// File is one file of a backup.
type File struct {
	Name   string          `json:"name"`
	Size   int64           `json:"size"`
	SHA256 protocol.Digest `json:"sha256"`
}

// Writer writes a backup. It belongs to one goroutine.
type Writer struct {
	tar   *tar.Writer
	files []File
}

// NewWriter begins a backup.
func NewWriter(w io.Writer) *Writer { return &Writer{tar: tar.NewWriter(w)} }

// Add adds the first size bytes that r holds. Files come in the order of their
// names.
func (w *Writer) Add(name string, size int64, r io.Reader) error {
	if !names.MatchString(name) || len(w.files) >= MaxFiles || len(w.files) > 0 && w.files[len(w.files)-1].Name >= name {
		return fmt.Errorf("%s has no place in a backup, or is one too many", name)
	}
	sum := sha256.New()
	if err := w.put(name, size, io.TeeReader(r, sum)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.files = append(w.files, File{name, size, protocol.Digest(sum.Sum(nil))})
	return nil
}

func (w *Writer) put(name string, size int64, r io.Reader) error {
	if err := w.tar.WriteHeader(header(name, size)); err != nil {
		return err
	}
	_, err := io.CopyN(w.tar, r, size)
	return err
}

// header is the one form of a header there is.
func header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
}

// Close ends the backup with the manifest, whose list of files it fills in.
func (w *Writer) Close(m *Manifest, signer protocol.Signer) error {
	m.Type, m.Files = Type, w.files
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	sealed, err := protocol.Seal(signer, body, nil)
	if err != nil {
		return fmt.Errorf("sign the manifest: %w", err)
	}
	if err := w.put(manifest, int64(len(sealed)), bytes.NewReader(sealed)); err != nil {
		return err
	}
	return w.tar.Close()
}

// Read reads a backup and passes its files on, in order. The manifest holds what
// was passed on, byte for byte; that its signature does, [Verify] tells, which
// needs the rings that are in the backup.
func Read(r io.Reader, take func(name string, size int64, r io.Reader) error) (m Manifest, sealed []byte, err error) {
	// What is read is written once more, to nowhere: it has to be the same bytes,
	// those between the files included.
	got, want := sha256.New(), sha256.New()
	r = io.TeeReader(r, got)
	t, again := tar.NewReader(r), tar.NewWriter(want)
	var files []File
	for {
		h, err := t.Next()
		if err != nil {
			return m, nil, fmt.Errorf("%w: behind file %d: %w", ErrArchive, len(files), whole(err))
		}
		if h.Name == manifest {
			if err := plain(h, maxManifest); err != nil {
				return m, nil, err
			}
			break
		}
		switch err := plain(h, maxFile); {
		case err != nil:
			return m, nil, err
		case !names.MatchString(h.Name) || len(files) > 0 && files[len(files)-1].Name >= h.Name:
			return m, nil, fmt.Errorf("%w: file %.120q does not belong there, unless a newer version made it", ErrArchive, h.Name)
		case len(files) >= MaxFiles:
			return m, nil, fmt.Errorf("%w: it has more than %d files", ErrArchive, MaxFiles)
		}
		if err := again.WriteHeader(header(h.Name, h.Size)); err != nil {
			return m, nil, fmt.Errorf("%w: %s: %w", ErrArchive, h.Name, err)
		}
		body := &summed{r: io.TeeReader(t, again), sum: sha256.New()}
		if err := take(h.Name, h.Size, body); err != nil {
			return m, nil, err
		}
		if body.n != h.Size {
			return m, nil, fmt.Errorf("%w: %s has %d of %d bytes", ErrArchive, h.Name, body.n, h.Size)
		}
		files = append(files, File{h.Name, h.Size, protocol.Digest(body.sum.Sum(nil))})
	}
	if sealed, err = io.ReadAll(t); err != nil {
		return m, nil, fmt.Errorf("%w: the manifest: %w", ErrArchive, whole(err))
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return m, nil, fmt.Errorf("%w: something follows the manifest", ErrArchive)
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return m, nil, fmt.Errorf("%w: something follows its end", ErrArchive)
	}
	err = errors.Join(again.WriteHeader(header(manifest, int64(len(sealed)))), write(again, sealed), again.Close())
	if err != nil || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		return m, nil, fmt.Errorf("%w: its bytes between the files are other ones", ErrArchive)
	}
	if m, err = parse(sealed); err != nil {
		return m, nil, err
	}
	if !slices.Equal(files, m.Files) {
		return m, nil, fmt.Errorf("%w: %s", ErrArchive, difference(m.Files, files))
	}
	return m, sealed, nil
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// whole calls the end of a file by what it means here.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return errShort
	}
	return err
}

// plain holds a header to the one form there is.
func plain(h *tar.Header, most int64) error {
	want := header(h.Name, h.Size)
	if h.Typeflag != want.Typeflag || h.Format != want.Format || h.Mode != want.Mode || len(h.Name) > maxName || h.Size < 0 || h.Size > most ||
		h.Linkname != "" || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Devmajor != 0 || h.Devminor != 0 || !h.ModTime.Equal(want.ModTime) {
		return fmt.Errorf("%w: %.120q is not a plain file of ours", ErrArchive, h.Name)
	}
	return nil
}

// summed counts and digests what is read.
type summed struct {
	r   io.Reader
	sum hash.Hash
	n   int64
}

func (s *summed) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.sum.Write(b[:n])
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return n, err
}

func parse(sealed []byte) (m Manifest, err error) {
	env, err := protocol.Split(sealed)
	if err == nil {
		err = protocol.DecodeJSON(env.Body, &m, false)
	}
	if err == nil && (m.Type != Type || env.Key != m.Key || env.Attachment != nil) {
		err = fmt.Errorf("it is %.40q by key %s", m.Type, env.Key)
	}
	if err != nil {
		return m, fmt.Errorf("%w: the manifest: %w", ErrArchive, err)
	}
	return m, nil
}

// Verify checks that a manifest was signed by key.
func Verify(sealed []byte, key protocol.PublicKey) error {
	env, err := protocol.Split(sealed)
	if err == nil {
		err = key.CheckForm(env.Sig)
	}
	if err == nil {
		err = key.Verify(env.Sig, env.Body)
	}
	if err != nil {
		return fmt.Errorf("%w: the manifest's signature: %w", ErrArchive, err)
	}
	return nil
}

// difference names the first file that is not as the manifest says.
func difference(want, got []File) string {
	for i, f := range want {
		switch {
		case i >= len(got) || got[i].Name != f.Name:
			return f.Name + " is missing"
		case got[i].Size != f.Size:
			return fmt.Sprintf("%s has %d bytes, the manifest says %d", f.Name, got[i].Size, f.Size)
		case got[i].SHA256 != f.SHA256:
			return f.Name + " is not what was backed up: its digest differs"
		}
	}
	return fmt.Sprintf("the manifest does not know %d of its files", len(got)-len(want))
}
