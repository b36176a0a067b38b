package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
)

// shifted encrypts by adding to each byte, behind a first line, and tells at the end whether
// all has come.
type shifted struct{ by byte }

func (s shifted) Fingerprints() []string { return []string{"aa55"} }

func (s shifted) Encrypt(to io.Writer) (io.WriteCloser, error) {
	_, err := io.WriteString(to, "shifted\n")
	return &shifter{to, s.by}, err
}

func (s shifted) Decrypt(from io.Reader) (io.Reader, error) {
	b, err := io.ReadAll(from)
	b, ours := bytes.CutPrefix(b, []byte("shifted\n"))
	if err != nil || !ours || !bytes.HasSuffix(b, []byte("end")) {
		return nil, errors.Join(errors.New("no key fits"), err)
	}
	b = b[:len(b)-3]
	for i := range b {
		b[i] -= s.by
	}
	return bytes.NewReader(b), nil
}

type shifter struct {
	to io.Writer
	by byte
}

func (s *shifter) Write(p []byte) (int, error) {
	b := bytes.Clone(p)
	for i := range b {
		b[i] += s.by
	}
	return s.to.Write(b)
}

func (s *shifter) Close() error {
	_, err := io.WriteString(s.to, "end")
	return err
}

// TestEncrypted: an archive that is encrypted is verified without the secret key, and makes a
// container with it; what is decrypted lies in the host's own directory, and only as long as
// it is needed.
func TestEncrypted(t *testing.T) { synctest.Test(t, encrypted) }

func encrypted(t *testing.T) {
	id, nas := identity(t), t.TempDir()
	own := store(t, id)
	own.By = shifted{3}
	s, err := own.At(backup.Targets{"nas": {Dir: nas}}, "nas")
	must(t, err)
	made, err := s.Create(t.Context(), "b", root(t), ids, backup.Manifest{Container: "web", Runtime: container.KindLXC}, backup.Tree{Name: "data", Root: root(t), IDs: ids})
	must(t, err)
	if e := made.Encrypted; e == nil || e.To[0] != "aa55" || e.Bytes != made.Bytes-int64(len("shifted\nend")) {
		t.Fatalf("%+v", made.Manifest)
	}
	raw, err := os.ReadFile(filepath.Join(nas, "b.hostler-backup"))
	must(t, err)
	if !bytes.HasPrefix(raw, []byte("shifted\n")) {
		t.Errorf("the file begins with %q", raw[:10])
	}
	_, err = s.Verify(t.Context(), "b")
	must(t, err)
	_, _, err = s.Image(t.Context(), "b")
	if err == nil || !strings.Contains(err.Error(), "backups.secret_key") || !strings.Contains(err.Error(), "aa55") {
		t.Errorf("without the secret key: %v", err)
	}
	s.Secret = wrong{}
	if _, _, err = s.Image(t.Context(), "b"); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "no key fits") {
		t.Errorf("with another secret key: %v", err)
	}
	s.Secret = endless{}
	if _, _, err = s.Image(t.Context(), "b"); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "more is encrypted") {
		t.Errorf("of a message without end: %v", err)
	}
	s.Secret = empty{}
	if _, _, err = s.Image(t.Context(), "b"); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "less is encrypted") {
		t.Errorf("of a message with nothing in it: %v", err)
	}
	if left := names(t, own.Dir); len(left) > 0 {
		t.Errorf("what could not be decrypted has left %v", left)
	}

	s.Secret = shifted{3}
	ctx, done := context.WithCancel(t.Context())
	defer done()
	m, img, err := s.Image(ctx, "b")
	must(t, err)
	if left := names(t, own.Dir); len(left) != 1 || len(names(t, nas)) != 2 { // the backup, and the note that it was verified
		t.Errorf("what is decrypted lies at %v, and at the target is %v", left, names(t, nas))
	}
	debris, err := own.Debris(t.Context(), true)
	must(t, err)
	if len(debris) > 0 {
		t.Errorf("what is used is debris: %v", debris)
	}
	for name, layer := range map[string]container.Layer{"own files": img.Layers[0], "volume": m.VolumesIn(img)["data"]} {
		dir := t.TempDir()
		must(t, rootfs.Unpack(dir, []container.Layer{layer}, ids))
		if len(names(t, dir)) == 0 {
			t.Errorf("%s: nothing is unpacked", name)
		}
	}
	done()
	synctest.Wait()
	if left := names(t, own.Dir); len(left) > 0 {
		t.Errorf("what was decrypted is left: %v", left)
	}
}

// names are those in a directory; none if it is not there.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

type wrong struct{}

func (wrong) Decrypt(io.Reader) (io.Reader, error) { return nil, errors.New("no key fits") }

type endless struct{}

func (endless) Decrypt(io.Reader) (io.Reader, error) { return zeros{}, nil }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type empty struct{}

func (empty) Decrypt(io.Reader) (io.Reader, error) { return bytes.NewReader(nil), nil }
