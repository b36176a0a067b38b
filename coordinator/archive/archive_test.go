package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
)

// contents are those of a small backup.
func contents() map[string]string {
	return map[string]string{
		"ca.pem": "authority", "fleet.code": "hf1_", "identity.pgp": "key", "output/018f/1.recording": "cast\n", "output/018f/1.stdout": "hello\n", "rings/1": "ring", "store.db": strings.Repeat("page", 1000),
	}
}

var key = coordtest.NewKey("coordinator")

func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	var all []string
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	for _, name := range all {
		if err := w.Add(name, int64(len(files[name])), strings.NewReader(files[name]+"what was added since")); err != nil {
			t.Fatal(err)
		}
	}
	m := Manifest{Fleet: protocol.FleetID{1}, Name: "lab", Store: protocol.StoreID{2}, Key: key.Key(), Ring: 2, AtMS: 1780000000000, Version: "test", Keys: true}
	if err := w.Close(&m, key); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read reads all of a backup.
func read(b []byte) (map[string]string, Manifest, error) {
	files := make(map[string]string)
	m, sealed, err := Read(bytes.NewReader(b), func(name string, _ int64, r io.Reader) error {
		text, err := io.ReadAll(r)
		files[name] = string(text)
		return err
	})
	if err == nil {
		err = Verify(sealed, key)
	}
	return files, m, err
}

func TestBackupReadsBack(t *testing.T) {
	got, m, err := read(pack(t, contents()))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(contents()) || m.Name != "lab" || m.Store != (protocol.StoreID{2}) || !m.Keys || m.Outputs {
		t.Errorf("%v\n%+v\n%v", got, m, err)
	}
}

// TestDamagedBackup: a backup that was cut, or of which one bit is another, is
// refused, wherever that is.
func TestDamagedBackup(t *testing.T) {
	whole := pack(t, contents())
	for n := range whole {
		if n%97 != 0 && n < len(whole)-1100 {
			continue // a prime, so that headers, contents and manifest are all met
		}
		if _, _, err := read(whole[:n]); !errors.Is(err, ErrArchive) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(whole), err)
		}
	}
	for n := range whole {
		b := bytes.Clone(whole)
		b[n] ^= 1 << (n % 8)
		if _, _, err := read(b); !errors.Is(err, ErrArchive) {
			t.Errorf("byte %d of %d is changed: %v", n, len(whole), err)
		}
	}
	if _, _, err := read(append(bytes.Clone(whole), 'x')); !errors.Is(err, ErrArchive) {
		t.Errorf("something follows: %v", err)
	}
	if err := Verify(whole[:10], key); !errors.Is(err, ErrArchive) {
		t.Errorf("no manifest: %v", err)
	}
}

// TestForeignArchives: nothing that Writer does not make is taken.
func TestForeignArchives(t *testing.T) {
	for what, change := range map[string]func(*tar.Header){
		"a way out":               func(h *tar.Header) { h.Name = "../identity.pgp" },
		"a way out from within":   func(h *tar.Header) { h.Name = "rings/../../x" },
		"an absolute name":        func(h *tar.Header) { h.Name = "/etc/passwd" },
		"an unknown file":         func(h *tar.Header) { h.Name = "authorized_keys" },
		"a link":                  func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, "/etc/passwd", 0 },
		"a directory":             func(h *tar.Header) { h.Typeflag, h.Name, h.Size = tar.TypeDir, "rings/", 0 },
		"a device":                func(h *tar.Header) { h.Typeflag, h.Size = tar.TypeChar, 0 },
		"a file that all may use": func(h *tar.Header) { h.Mode = 0o4777 },
		"another owner":           func(h *tar.Header) { h.Uid = 1000 },
		"another format":          func(h *tar.Header) { h.Format = tar.FormatPAX; h.PAXRecords = map[string]string{"HOSTLER.x": "y"} },
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h := header("ca.pem", 4)
		change(h)
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(what, err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, "text"); err != nil {
				t.Fatal(what, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(what, err)
		}
		if _, _, err := read(b.Bytes()); !errors.Is(err, ErrArchive) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w := NewWriter(io.Discard)
	for _, name := range []string{"../x", "store.db-wal", "rings/0", "output/x/1.stdout", "manifest"} {
		if err := w.Add(name, 0, strings.NewReader("")); err == nil {
			t.Errorf("%s was added", name)
		}
	}
	if err := w.Add("store.db", 5, strings.NewReader("four")); err == nil {
		t.Error("a file that shrank was added")
	}
}

// TestMostFilesFit: a backup of as many files as there may be has a manifest that is
// read, and all output of as many actions as are kept is no more than that.
func TestMostFilesFit(t *testing.T) {
	longest, err := json.Marshal(File{"output/" + strings.Repeat("f", 36) + "/999999.recording", maxFile, protocol.Digest{1}})
	if err != nil {
		t.Fatal(err)
	}
	if n := MaxFiles * (len(longest) + 1); n > maxManifest-1<<20 {
		t.Errorf("%d files are %d bytes of a manifest", MaxFiles, n)
	}
	const actions = 200_000 // unless the configuration says otherwise
	if MaxFiles < 4*actions {
		t.Errorf("%d actions have more than %d files", actions, MaxFiles)
	}
}

// FuzzRead: whatever a file holds, it is refused or passed on as the manifest
// says, by names that lead nowhere else.
func FuzzRead(f *testing.F) {
	f.Add(pack(f, contents())) // beside the corpus, which are small ones, whole and not
	f.Fuzz(func(t *testing.T, b []byte) {
		files, m, err := read(b)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			if text, ok := files[file.Name]; !ok || int64(len(text)) != file.Size || protocol.Sum([]byte(text)) != file.SHA256 || strings.Contains(file.Name, "..") || strings.HasPrefix(file.Name, "/") {
				t.Errorf("%+v was passed on as %d bytes", file, len(text))
			}
		}
	})
}
