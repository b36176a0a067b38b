package files_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/files"
)

// tree is the one below a new directory; what lies beside it must not change.
func tree(t *testing.T) (*files.Tree, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "../secret"), "secret")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	tr := files.NewTree(root, ".temp")
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		if got := read(t, filepath.Join(dir, "../secret")); got != "secret" {
			t.Errorf("what lies beside is %q now", got)
		}
		if all, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(all) != 2 {
			t.Errorf("beside it lie %v, %v", all, err)
		}
	})
	return tr, dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPut(t *testing.T) {
	tr, dir := tree(t)
	put := func(name, text string, size int64) error {
		return tr.Put(t.Context(), name, 0o640|fs.ModeSetgid, files.Owner{}, size, strings.NewReader(text))
	}
	at := filepath.Join(dir, "a")
	for _, text := range []string{"one", "another", ""} {
		if err := put("a", text, int64(len(text))); err != nil {
			t.Fatal(err)
		}
		i, err := os.Stat(at)
		if err != nil || i.Mode() != 0o640|fs.ModeSetgid || read(t, at) != text {
			t.Errorf("%v %q, %v", i.Mode(), read(t, at), err)
		}
	}
	if err := put("a", "short", 6); !errors.Is(err, files.ErrChanged) || read(t, at) != "" {
		t.Errorf("a file that broke off: %v, %q", err, read(t, at))
	}
	// A link is replaced and not followed.
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := put("link", "mine", 4); err != nil || read(t, filepath.Join(dir, "link")) != "mine" {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := put("dir", "x", 1); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("in stead of a directory: %v", err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := put("pipe", "x", 1); !errors.Is(err, files.ErrSpecial) {
		t.Errorf("in stead of a pipe: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.Put(ctx, "b", 0o600, files.Owner{}, -1, strings.NewReader("x")); err == nil {
		t.Error("it was written although nobody waits")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".temp*")); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
}

func TestSparse(t *testing.T) {
	tr, dir := tree(t)
	data := make([]byte, 8<<20)
	copy(data[5<<20+100:], "in the middle")
	if err := tr.Put(t.Context(), "a", 0o600, files.Owner{}, int64(len(data)), bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(dir, "a")); got != string(data) {
		t.Error("it has other bytes")
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(dir, "a"), &st); err != nil || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes of the disk for one block, %v", st.Blocks*512, err)
	}
}

// archive makes one of headers; regular files hold their own name.
func archive(t testing.TB, all ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range all {
		h.Format = tar.FormatPAX
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hostile are archives that want out.
func hostile() map[string][]tar.Header {
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
	}
	dir := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	return map[string][]tar.Header{
		"upwards":                      {file("../secret")},
		"upwards later":                {file("a/../../secret")},
		"absolute":                     {file("/tmp/hostler-escape")},
		"the parent itself":            {file("..")},
		"link upwards":                 {link("a", "../secret"), file("a")},
		"link to an absolute path":     {link("a", "/etc"), file("a/hostler-escape")},
		"link upwards from below":      {{Typeflag: tar.TypeDir, Name: "d", Mode: 0o755}, link("d/a", "../../secret")},
		"hard link":                    {{Typeflag: tar.TypeLink, Name: "a", Linkname: "../secret"}},
		"device":                       {{Typeflag: tar.TypeChar, Name: "a", Devmajor: 1, Devminor: 3}},
		"pipe":                         {{Typeflag: tar.TypeFifo, Name: "a"}},
		"file through a file":          {file("a"), file("a/b")},
		"directory in stead of a link": {link("a", "b"), {Typeflag: tar.TypeDir, Name: "a", Mode: 0o777}},
		"link by way of another":       {dir("top"), link("top/s", "."), link("top/a", "s/s/s/../../../secret")},
		"link that another leads out":  {dir("top"), link("top/a", "s/s/s/../../../secret"), link("top/s", ".")},
		"link in another's directory":  {dir("top"), link("top/s", "."), link("top/s/s/s/a", "../../../secret")},
		"link beside the transfer":     {dir("top"), link("top/a", "../.bashrc")},
	}
}

// TestHostileArchive takes nothing that leads out.
func TestHostileArchive(t *testing.T) {
	for name, headers := range hostile() {
		t.Run(name, func(t *testing.T) {
			tr, dir := tree(t)
			err := tr.Unpack(t.Context(), bytes.NewReader(archive(t, headers...)))
			if err == nil {
				t.Error("it was taken")
			}
			if to, err := os.Readlink(filepath.Join(dir, "top/a")); err == nil {
				t.Errorf("a link to %q is left", to)
			}
		})
	}
}

// TestPlain gives a hostile host no set-user-id program on the operator's
// machine, and no directory that he cannot remove.
func TestPlain(t *testing.T) {
	tr, dir := tree(t)
	tr.Plain = true
	err := tr.Unpack(t.Context(), bytes.NewReader(archive(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "d", Mode: 0}, tar.Header{Typeflag: tar.TypeReg, Name: "d/sh", Mode: 0o4755})))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"d": fs.ModeDir | 0o700, "d/sh": 0o755} {
		if i, err := os.Lstat(filepath.Join(dir, name)); err != nil || i.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, i.Mode(), err, want)
		}
	}
}

// TestThereAndBack packs a tree and unpacks it elsewhere.
func TestThereAndBack(t *testing.T) {
	from := t.TempDir()
	write(t, filepath.Join(from, "a"), "alpha")
	if err := errors.Join(os.Mkdir(filepath.Join(from, "d"), 0o750), os.Symlink("../a", filepath.Join(from, "d/l")), os.Symlink("/etc/passwd", filepath.Join(from, "out")),
		syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600), os.Chmod(filepath.Join(from, "a"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	p := files.NewPacker(&b)
	var skipped []string
	p.Skipped = func(name string, _ error) { skipped = append(skipped, name) }
	root, err := os.OpenRoot(from)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(p.Dir(t.Context(), "top", root), p.Close()); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(skipped) != "[top/out top/pipe]" {
		t.Errorf("left out are %q", skipped)
	}
	tr, dir := tree(t)
	if err := tr.Unpack(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(dir, "top/d/l")); got != "alpha" {
		t.Errorf("through the link: %q", got)
	}
	for name, want := range map[string]fs.FileMode{"top/a": 0o600, "top/d": fs.ModeDir | 0o750} {
		if i, err := os.Lstat(filepath.Join(dir, name)); err != nil || i.Mode() != want {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
}

// swap replaces directories below dir by links that lead out, and back, until it
// is stopped.
func swap(t *testing.T, dir, out string) (stop func()) {
	t.Helper()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			default:
			}
			at, away := filepath.Join(dir, "d"), filepath.Join(dir, fmt.Sprintf("away-%d", n))
			if os.Rename(at, away) == nil {
				_ = os.Symlink(out, at) // the race is the point
				_ = os.Remove(at)
				_ = os.Rename(away, at)
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// TestNamed: an error names what the user has named, and no other name.
func TestNamed(t *testing.T) {
	tr, dir := tree(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	// A reader's own errors keep their names: this one cannot be read.
	err = tr.Put(t.Context(), "a", 0o600, files.Owner{}, -1, full)
	if err == nil || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("what cannot be read gives %v", err)
	}
	// One that cannot be put in place, as a directory has come there meanwhile.
	err = tr.Put(t.Context(), "b", 0o600, files.Owner{}, -1, readerFunc(func([]byte) (int, error) {
		if err := os.MkdirAll(filepath.Join(dir, "b"), 0o755); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}))
	if err == nil || strings.Contains(err.Error(), ".temp") || !strings.Contains(err.Error(), " b: ") {
		t.Errorf("what cannot be put in place gives %v", err)
	}
}

// What grows as on a full disk is named likewise, and what has no name that anybody
// knows has none.
func TestFullDisk(t *testing.T) {
	tr, dir := tree(t)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s, err := files.OpenStage(root, "k")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("x"), 8192)
	put := tr.Put(t.Context(), "sub", 0o600, files.Owner{}, -1, bytes.NewReader(large))
	_, staged := s.Write(large)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(put, syscall.EFBIG) || put.Error() != "write sub: file too large" {
		t.Errorf("a file gives %v", put)
	}
	if !errors.Is(staged, syscall.EFBIG) || staged.Error() != "file too large" {
		t.Errorf("a stage gives %v", staged)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// What the kernel makes up as it is read says another size than it has.
func TestMadeUp(t *testing.T) {
	for _, at := range []string{"/proc/version", "/sys/class/net/lo/mtu"} {
		want, err := os.ReadFile(at)
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(at, "/sys/") {
			continue // no container needs it
		}
		if err != nil || len(want) == 0 {
			t.Fatalf("%s: %q, %v", at, want, err)
		}
		got, sizes, skipped := packed(t, at)
		if got != string(want) || skipped != nil || len(sizes) != 1 || sizes[0] != int64(len(want)) {
			t.Errorf("%s became %q, told as %d bytes, skipped %v; want %q", at, got, sizes, skipped, want)
		}
	}
	// This one is without an end that anybody would wait for.
	if got, sizes, skipped := packed(t, "/proc/self/pagemap"); got != "" || len(sizes) > 0 || skipped == nil {
		t.Errorf("a file without an end became %d bytes, told as %d, skipped %v", len(got), sizes, skipped)
	}
}

// packed packs one file, and returns what the archive holds of it, and what was told.
func packed(t *testing.T, at string) (text string, sizes []int64, skipped error) {
	t.Helper()
	f, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	p := files.NewPacker(&b)
	p.Skipped = func(_ string, why error) { skipped = why }
	p.Packed = func(_ string, size int64, _ [32]byte) { sizes = append(sizes, size) }
	if err := errors.Join(p.File(t.Context(), "f", f), p.Close()); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	r := tar.NewReader(&b)
	if _, err := r.Next(); errors.Is(err, io.EOF) {
		return "", sizes, skipped
	}
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(all), sizes, skipped
}

// TestRace unpacks into a tree whose owner swaps its directories for links that
// lead out: whatever becomes of it, nothing is written there.
func TestRace(t *testing.T) {
	tr, dir := tree(t)
	out := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	stop := swap(t, dir, out)
	taken := 0
	// On a busy machine the other one may win for a long time.
	for begun, i := time.Now(), 0; i < 3000 || taken == 0 && time.Since(begun) < 2*time.Minute; i++ {
		if tr.Put(t.Context(), "d/a", 0o644, files.Owner{}, 1, strings.NewReader("x")) == nil {
			taken++
		}
		if tr.Mkdir("d/b", 0o755, files.Owner{}) == nil {
			taken++
		}
	}
	stop()
	if all, err := os.ReadDir(out); err != nil || len(all) != 0 {
		t.Errorf("outside lie %v, %v", all, err)
	}
	if taken == 0 {
		t.Error("nothing was written at all: the race was never won by us")
	}
}

func FuzzUnpack(f *testing.F) {
	for _, h := range hostile() {
		f.Add(archive(f, h...))
	}
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeDir, Name: "a", Mode: 0o755}, tar.Header{Typeflag: tar.TypeReg, Name: "a/b", Mode: 0o644}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		// An archive may promise more than any disk has; that is ended by who waits.
		in := tar.NewReader(bytes.NewReader(b))
		for h, err := in.Next(); err == nil; h, err = in.Next() {
			if h.Size > 1<<20 {
				return
			}
		}
		tr, _ := tree(t)
		_ = tr.Unpack(t.Context(), bytes.NewReader(b)) // what it takes lies inside, see tree
	})
}
