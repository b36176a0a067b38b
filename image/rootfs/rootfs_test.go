package rootfs_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/image/rootfs"
)

var ids = container.IDRange{First: 1_390_000_000, Count: 1 << 16}

func file(name, content string) imagetest.Entry {
	return imagetest.Entry{Header: tar.Header{Name: name, Mode: 0o644}, Content: content}
}

func dir(name string) imagetest.Entry {
	return imagetest.Entry{Header: tar.Header{Name: name + "/", Mode: 0o755, Typeflag: tar.TypeDir}}
}

func link(kind byte, name, to string) imagetest.Entry {
	return imagetest.Entry{Header: tar.Header{Name: name, Linkname: to, Typeflag: kind}}
}

// lay lays layers into a new directory beside a file that nobody may touch.
func lay(t testing.TB, limits rootfs.Limits, layers ...[]byte) (root string, err error) {
	t.Helper()
	top := t.TempDir()
	root = filepath.Join(top, "a", "root")
	if err := errors.Join(os.MkdirAll(root, 0o755), os.WriteFile(filepath.Join(top, "canary"), []byte("sings"), 0o600)); err != nil {
		t.Fatal(err)
	}
	tree, err := rootfs.New(root, ids, limits)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		if err = tree.Lay(bytes.NewReader(l)); err != nil {
			break
		}
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	outside(t, top)
	return root, err
}

// outside looks whether anything beside the root was made, changed or removed.
func outside(t testing.TB, top string) {
	t.Helper()
	for _, d := range []struct{ dir, only string }{{top, "a canary"}, {filepath.Join(top, "a"), "root"}} {
		all, err := os.ReadDir(d.dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range all {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); got != d.only {
			t.Errorf("%s holds %q", d.dir, got)
		}
	}
	canary := filepath.Join(top, "canary")
	b, err := os.ReadFile(canary)
	i, err2 := os.Stat(canary)
	if err := errors.Join(err, err2); err != nil || string(b) != "sings" || i.Mode() != 0o600 || i.Sys().(*syscall.Stat_t).Uid != 0 || i.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Errorf("the canary is %v, %q: %v", i, b, err)
	}
}

// tree describes what is in a directory, one line each.
func tree(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		st := i.Sys().(*syscall.Stat_t)
		name, _ := filepath.Rel(root, path) // it is below
		fmt.Fprintf(&b, "%s %s %d:%d", name, i.Mode(), int64(st.Uid)-int64(ids.First), int64(st.Gid)-int64(ids.First))
		switch {
		case i.Mode().IsRegular():
			c, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", c)
		case i.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " -> %s", to)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLay lays layers over one another as their makers meant it: what is hidden goes,
// what is there already is replaced, links lead where they would lead in the container.
func TestLay(t *testing.T) {
	base := imagetest.Layer(t,
		dir("bin"), file("bin/tool", "1"), link(tar.TypeSymlink, "run", "/var/run"), dir("var/run"), dir("lib"), file("lib/a", "a"), file("lib/b", "b"),
		dir("gone/deep/er"), file("gone/deep/er/x", "x"), link(tar.TypeLink, "bin/same", "bin/tool"), file("was-file", "x"), dir("was-dir"), file("was-dir/x", "x"),
		imagetest.Entry{Header: tar.Header{Name: "dev/sda", Typeflag: tar.TypeBlock, Mode: 0o666, Devmajor: 8}},
		imagetest.Entry{Header: tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o622}})
	next := imagetest.Layer(t,
		file("lib/.wh..wh..opq", ""), file("lib/c", "c"), file(".wh.gone", ""), file(".wh.nothing", ""), file("none/.wh.nothing", ""),
		imagetest.Entry{Header: tar.Header{Name: "bin/tool", Mode: 0o6755, Uid: 7, Gid: 8}, Content: "2"}, file("run/pid", "9"), file(".wh..wh.plnk", ""),
		dir("was-file"), file("was-dir", "now"), file("made/by/need", ""))
	root, err := lay(t, rootfs.DefaultLimits, base, next)
	if err != nil {
		t.Fatal(err)
	}
	want := `bin drwxr-xr-x 0:0
bin/same -rw-r--r-- 0:0 "1"
bin/tool ugrwxr-xr-x 7:8 "2"
lib drwxr-xr-x 0:0
lib/c -rw-r--r-- 0:0 "c"
made drwxr-xr-x 0:0
made/by drwxr-xr-x 0:0
made/by/need -rw-r--r-- 0:0 ""
pipe prw--w--w- 0:0
run Lrwxrwxrwx 0:0 -> /var/run
var drwxr-xr-x 0:0
var/run drwxr-xr-x 0:0
var/run/pid -rw-r--r-- 0:0 "9"
was-dir -rw-r--r-- 0:0 "now"
was-file drwxr-xr-x 0:0
`
	if got := tree(t, root); got != want {
		t.Errorf("it holds\n%s\nwant\n%s", got, want)
	}
}

// TestOpaqueAfterwards: what hides all of a directory hides what other layers have in it,
// and not what its own layer has, wherever in the layer it stands.
func TestOpaqueAfterwards(t *testing.T) {
	root, err := lay(t, rootfs.DefaultLimits, imagetest.Layer(t, dir("d/old"), file("d/x", "old")), imagetest.Layer(t, file("d/new/x", "new"), file("d/.wh..wh..opq", "")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tree(t, root), "d drwxr-xr-x 0:0\nd/new drwxr-xr-x 0:0\nd/new/x -rw-r--r-- 0:0 \"new\"\n"; got != want {
		t.Errorf("it holds\n%s\nwant\n%s", got, want)
	}
}

// TestPlantedLinks: links of a layer lead nowhere outside of the root, whatever is made,
// hidden, linked or opened through them.
func TestPlantedLinks(t *testing.T) {
	up := strings.Repeat("../", 20)
	for name, entries := range map[string][]imagetest.Entry{
		"file through a link":    {link(tar.TypeSymlink, "out", up+"etc"), file("out/x", "x")},
		"absolute":               {link(tar.TypeSymlink, "out", "/"), file("out/canary", "x"), dir("out/b")},
		"hide through a link":    {link(tar.TypeSymlink, "out", "../.."), file("out/.wh.canary", "")},
		"hide all":               {link(tar.TypeSymlink, "out", "../.."), file("out/.wh..wh..opq", "")},
		"hard link to outside":   {link(tar.TypeSymlink, "out", "../.."), link(tar.TypeLink, "c", "out/canary")},
		"hard link to a link":    {link(tar.TypeSymlink, "s", "../../canary"), link(tar.TypeLink, "h", "s"), file("h", "x")},
		"write over a link":      {link(tar.TypeSymlink, "s", "../../canary"), file("s", "x")},
		"directory over a link":  {link(tar.TypeSymlink, "s", "../.."), dir("s"), file("s/canary", "x")},
		"magic link":             {link(tar.TypeSymlink, "m", "/proc/self/root"), dir("proc/self"), link(tar.TypeSymlink, "proc/self/root", "/"), file("m/canary", "x")},
		"link in place of a dir": {dir("d/e"), link(tar.TypeSymlink, "d/e", "../../.."), file("d/e/canary", "x")},
		"cached parent":          {dir("d"), file("d/1", ""), file(".wh.d", ""), link(tar.TypeSymlink, "d", "../.."), file("d/canary", "x")},
		"hide the root":          {file(".wh..", ""), file("x", "")},
		"hide above":             {file(".wh...", ""), file("x", "")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lay(t, rootfs.DefaultLimits, imagetest.Layer(t, entries...), imagetest.Layer(t, entries...))
			if err != nil && !errors.Is(err, rootfs.ErrLayer) {
				t.Errorf("it is refused with %v, want ErrLayer", err)
			}
		})
	}
}

// TestRefusedLayers are refused, with nothing outside touched.
func TestRefusedLayers(t *testing.T) {
	small := rootfs.Limits{Entries: 10, Bytes: 1 << 20}
	var many []imagetest.Entry
	for i := range 11 {
		many = append(many, file(fmt.Sprint(i), ""))
	}
	for name, tc := range map[string]struct {
		layer []byte
		says  string
	}{
		"upwards":             {imagetest.Layer(t, file("../canary", "x")), "leads upwards"},
		"upwards within":      {imagetest.Layer(t, file("a/../../canary", "x")), "leads upwards"},
		"link upwards":        {imagetest.Layer(t, link(tar.TypeLink, "x", "../../canary")), "leads upwards"},
		"foreign owner":       {imagetest.Layer(t, imagetest.Entry{Header: tar.Header{Name: "x", Uid: 65536}}), "65536:0"},
		"negative owner":      {imagetest.Layer(t, imagetest.Entry{Header: tar.Header{Name: "x", Gid: -1}}), "0:-1"},
		"too many":            {imagetest.Layer(t, many...), "more than 10 files"},
		"deep":                {imagetest.Layer(t, file(strings.Repeat("a/", 20)+"x", "")), "more than 10 files"},
		"bomb":                {imagetest.Layer(t, file("x", strings.Repeat("\x00", 1<<20+1))), "larger than"},
		"cut short":           {imagetest.Layer(t, file("x", strings.Repeat("x", 4096)))[:2048], "unexpected EOF"},
		"no archive":          {[]byte(strings.Repeat("x", 4096)), "invalid tar header"},
		"link to nothing":     {imagetest.Layer(t, link(tar.TypeLink, "x", "y")), "a link to"},
		"link to a directory": {imagetest.Layer(t, dir("d"), link(tar.TypeLink, "x", "d")), "hard link to the directory"},
		"through a loop":      {imagetest.Layer(t, link(tar.TypeSymlink, "l", "l"), file("l/x", "")), "too many levels"},
		"below a file":        {imagetest.Layer(t, file("f", ""), file("f/x", "")), "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := lay(t, small, tc.layer); !errors.Is(err, rootfs.ErrLayer) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v, want ErrLayer that says %q", err, tc.says)
			}
		})
	}
}

// TestFullDisk: a layer that does not fit is refused before the disk is full.
func TestFullDisk(t *testing.T) {
	_, err := lay(t, rootfs.Limits{Entries: 10, Bytes: 1 << 40, Free: 1 << 60}, imagetest.Layer(t, file("x", "x")))
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the error is %v, want ENOSPC", err)
	}
}

// TestCapabilities: what a program may do, it may do below the container's root alone.
func TestCapabilities(t *testing.T) {
	v2 := "\x01\x00\x00\x02" + strings.Repeat("\x20\x00\x00\x00", 4)
	header := tar.Header{Name: "ping", Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": v2, "SCHILY.xattr.trusted.x": "y"}}
	root, err := lay(t, rootfs.DefaultLimits, imagetest.Layer(t, imagetest.Entry{Header: header, Content: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, err := unix.Getxattr(filepath.Join(root, "ping"), "security.capability", b)
	if err != nil || n != 24 || b[3] != 3 {
		t.Errorf("its capabilities are %x, %v; want 24 bytes of version 3", b[:max(n, 0)], err)
	}
	if n, err := unix.Getxattr(filepath.Join(root, "ping"), "trusted.x", b); err == nil {
		t.Errorf("it has a trusted attribute of %d bytes", n)
	}
}

// xz compresses by the tool that image servers use.
func xz(t *testing.T, raw []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("xz", append(args, "-c")...)
	cmd.Stdin = bytes.NewReader(raw)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestXZRefused: an archive that takes too much memory, one that is cut short, and one
// that is damaged.
func TestXZRefused(t *testing.T) {
	plain := imagetest.Layer(t, file("x", strings.Repeat("hello ", 1000)))
	good := xz(t, plain)
	damaged := bytes.Clone(good)
	damaged[len(damaged)/2] ^= 0xff
	for name, raw := range map[string][]byte{"memory": xz(t, plain, "--lzma2=dict=256MiB"), "short": good[:20], "shorter": good[:len(good)/2], "damaged": damaged} {
		path := filepath.Join(t.TempDir(), "layer")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		tree, err := rootfs.New(t.TempDir(), ids, rootfs.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.LayFile(container.Layer{Path: path}); err == nil || name == "memory" && !strings.Contains(err.Error(), "268435456 bytes of memory") {
			t.Errorf("%s: %v", name, err)
		}
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLayFile reads layers in each compression, and holds them against their digest.
func TestLayFile(t *testing.T) {
	plain := imagetest.Layer(t, file("x", strings.Repeat("hello ", 1000)))
	var zipped, zstded bytes.Buffer
	g := gzip.NewWriter(&zipped)
	z, err := zstd.NewWriter(&zstded)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{g, z} {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	id := fmt.Sprintf("sha256:%x", sha256.Sum256(plain))
	for name, raw := range map[string][]byte{"tar": plain, "gzip": zipped.Bytes(), "zstd": zstded.Bytes(), "xz": xz(t, plain, "-9e"), "xz of threads": xz(t, plain, "-T2", "--block-size=1KiB")} {
		for _, want := range []string{id, "", "sha256:" + strings.Repeat("0", 64)} {
			path := filepath.Join(t.TempDir(), "layer")
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			tree, err := rootfs.New(t.TempDir(), ids, rootfs.DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			err = tree.LayFile(container.Layer{Path: path, DiffID: want})
			if good := want != "sha256:"+strings.Repeat("0", 64); good && err != nil || !good && !errors.Is(err, rootfs.ErrLayer) {
				t.Errorf("%s of the digest %q: %v", name, want, err)
			}
			if err := tree.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// FuzzDelta lays whatever comes over a tree, as what has changed in it.
func FuzzDelta(f *testing.F) {
	gone := func(name string) imagetest.Entry {
		return imagetest.Entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Format: tar.FormatPAX, PAXRecords: map[string]string{"HOSTLER.gone": "1"}}}
	}
	below := imagetest.Layer(f, dir("a"), file("a/b", "c"), link(tar.TypeSymlink, "s", "../.."))
	f.Add(imagetest.Layer(f, gone("a/b"), gone("s"), gone("none/x")))
	f.Add(imagetest.Layer(f, gone("s/canary"), gone("../canary"), gone(".")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		base := t.TempDir()
		canary, root := filepath.Join(base, "canary"), filepath.Join(base, "x", "root")
		if err := errors.Join(os.WriteFile(canary, []byte("alive"), 0o600), os.MkdirAll(root, 0o755)); err != nil {
			t.Fatal(err)
		}
		tree, err := rootfs.New(root, container.IDRange{}, rootfs.Limits{Entries: 1000, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		for i, layer := range [][]byte{below, raw} {
			path := filepath.Join(base, fmt.Sprint("layer", i))
			if err := os.WriteFile(path, layer, 0o600); err != nil {
				t.Fatal(err)
			}
			_ = tree.LayFile(container.Layer{Path: path, Plain: true, Delta: i > 0}) // what it refuses it refuses
		}
		if i, err := os.Stat(root); err != nil || !i.IsDir() {
			t.Errorf("the root is gone: %v", err)
		}
		if b, err := os.ReadFile(canary); err != nil || string(b) != "alive" {
			t.Errorf("what is outside was touched: %q, %v", b, err)
		}
	})
}

// FuzzLay lays whatever comes, and looks whether anything outside was touched.
func FuzzLay(f *testing.F) {
	f.Add(imagetest.Layer(f, dir("a"), file("a/b", "c"), link(tar.TypeSymlink, "s", "../.."), file("s/canary", "x")))
	f.Add(imagetest.Layer(f, file("a/.wh..wh..opq", ""), file(".wh.a", ""), link(tar.TypeLink, "x", "s/canary")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		root, err := lay(t, rootfs.Limits{Entries: 1000, Bytes: 1 << 20}, raw, raw)
		if i, e := os.Stat(root); e != nil || !i.IsDir() {
			t.Errorf("the root is gone: %v, %v", err, e)
		}
	})
}
