package backup_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"time"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

var ids = container.IDRange{First: 1_390_000_000, Count: 1 << 16}

func identity(t testing.TB) *certs.Identity {
	t.Helper()
	id, err := certs.Generate("hostler host x", time.Now())
	must(t, err)
	return id
}

// root makes a root directory as a container has one.
func root(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("etc/deep"), 0o755), os.WriteFile(at("etc/file"), []byte(strings.Repeat("hello ", 1000)), 0o640), os.Symlink("../../../../canary", at("out")),
		os.Link(at("etc/file"), at("etc/deep/same")), os.WriteFile(at(".wh.etc"), []byte("no whiteout"), 0o600), os.Lchown(at("etc/file"), int(ids.First)+7, int(ids.First)+8),
		os.WriteFile(at("theirs"), nil, 0o600), os.Chown(at("theirs"), 12, 13))
	return dir
}

func store(t testing.TB, id *certs.Identity) backup.Store {
	return backup.Store{Dir: filepath.Join(t.TempDir(), "backups"), Signer: id, Key: id.PublicKey()}
}

// TestRoundTrip: what is backed up comes back with other ids, names that look like
// whiteouts included, and GNU tar reads it.
func TestRoundTrip(t *testing.T) {
	s := store(t, identity(t))
	b, err := s.Create(t.Context(), "b1", root(t), ids, backup.Manifest{Container: "web", Runtime: container.KindLXC, Made: 7, Image: container.Image{Entrypoint: []string{"/bin/x"}}})
	must(t, err)
	_, img, err := s.Image(t.Context(), "b1")
	must(t, err)
	if img.Entrypoint[0] != "/bin/x" || !img.Copy || len(img.Layers) != 1 {
		t.Errorf("the image is %+v", img)
	}
	other := container.IDRange{First: 1_391_000_000, Count: 1 << 16}
	to := t.TempDir()
	tree, err := rootfs.New(to, other, rootfs.DefaultLimits)
	must(t, err)
	must(t, tree.LayFile(img.Layers[0]), tree.Close())
	raw, err := os.ReadFile(filepath.Join(to, "etc/deep/same"))
	hidden, err2 := os.ReadFile(filepath.Join(to, ".wh.etc"))
	link, err3 := os.Readlink(filepath.Join(to, "out"))
	must(t, err, err2, err3)
	if len(raw) != 6000 || string(hidden) != "no whiteout" || link != "../../../../canary" {
		t.Errorf("it came back as %d bytes, %q, %q", len(raw), hidden, link)
	}
	if out, err := exec.Command("stat", "-c", "%u:%g %h", filepath.Join(to, "etc/file"), filepath.Join(to, "theirs")).Output(); string(out) != "1391000007:1391000008 2\n1391065534:1391065534 1\n" {
		t.Errorf("owners and names: %s, %v", out, err)
	}
	if out, err := exec.Command("tar", "--zstd", "-tf", img.Layers[0].Path).CombinedOutput(); err != nil || !strings.Contains(string(out), "etc/file\n") {
		t.Errorf("GNU tar says %s, %v", out, err)
	}
	if all, err := s.List(t.Context()); err != nil || len(all) != 1 || all[0].Name != "b1" || all[0].Container != "web" || all[0].Problem != "" || all[0].Size != b.Size {
		t.Errorf("there are %+v, %v", all, err)
	}
	if _, err := s.Create(t.Context(), "b1", root(t), ids, backup.Manifest{}); !errors.Is(err, container.ErrExists) {
		t.Errorf("made twice: %v", err)
	}
	must(t, s.Remove(t.Context(), "b1"))
	if _, err := s.Verify(t.Context(), "b1"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("it is removed: %v", err)
	}
}

// TestRefused: what is cut short, changed, foreign or no file is refused.
func TestRefused(t *testing.T) {
	me, other := identity(t), identity(t)
	s := store(t, me)
	_, err := s.Create(t.Context(), "good", root(t), ids, backup.Manifest{Container: "web"})
	must(t, err)
	path := func(name string) string { return filepath.Join(s.Dir, name+".hostler-backup") }
	raw, err := os.ReadFile(path("good"))
	must(t, err)
	theirs := backup.Store{Dir: s.Dir, Signer: other, Key: other.PublicKey()}
	_, err = theirs.Create(t.Context(), "theirs", root(t), ids, backup.Manifest{Container: "web"})
	must(t, err)
	change := func(at int) []byte {
		b := bytes.Clone(raw)
		b[at] ^= 1
		return b
	}
	for name, b := range map[string][]byte{
		"empty": {}, "cut": raw[:len(raw)-1], "half": raw[:len(raw)/2], "more": append(bytes.Clone(raw), 0), "front": append([]byte{0}, raw...),
		"archive": change(100), "manifest": change(bytes.Index(raw, []byte(`"web"`)) + 1), "signature": change(len(raw) - 40), "lengths": change(len(raw) - 16), "mark": change(len(raw) - 1),
	} {
		must(t, os.WriteFile(path(name), b, 0o600))
	}
	must(t, os.Symlink(path("good"), path("link")), os.Mkdir(path("dir"), 0o700))
	for _, name := range []string{"theirs", "empty", "cut", "half", "more", "front", "archive", "manifest", "signature", "lengths", "mark", "link", "dir", "../good", "", "-x"} {
		if _, _, err := s.Image(t.Context(), name); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	all, err := s.List(t.Context())
	must(t, err)
	for _, b := range all {
		if good := b.Name == "good" || b.Name == "archive"; good != (b.Problem == "") { // a list reads manifests alone
			t.Errorf("%s: %q", b.Name, b.Problem)
		}
	}
}

// FuzzRead reads whatever comes; nothing that was not signed is a backup.
func FuzzRead(f *testing.F) {
	id := identity(f)
	var b bytes.Buffer
	_, err := backup.Write(f.Context(), &b, root(f), ids, backup.Manifest{Container: "web"}, id, nil)
	must(f, err)
	good := b.Bytes()
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte("hostlrb1"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := backup.Read(bytes.NewReader(raw), int64(len(raw)), id.PublicKey())
		if err == nil && m.Container != "web" {
			t.Errorf("%+v is taken", m)
		}
	})
}

// TestNoDevices: an archive holds neither devices nor sockets, and ends as a tar does.
func TestNoDevices(t *testing.T) {
	var b bytes.Buffer
	entries, err := rootfs.Archive(t.Context(), "/dev", container.IDRange{}, &b)
	must(t, err)
	for r, n := tar.NewReader(&b), 0; ; n++ {
		h, err := r.Next()
		if err == io.EOF {
			if n != entries {
				t.Errorf("it has %d entries, and was said to have %d", n, entries)
			}
			break
		}
		must(t, err)
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			t.Errorf("it holds the device %s", h.Name)
		}
	}
}

// TestDebris: what a backup that was cut short has left is found, and goes when that is
// asked for and before the next one; what is being written stays, and so does all else.
func TestDebris(t *testing.T) {
	s := store(t, identity(t))
	must(t, os.MkdirAll(s.Dir, 0o700))
	at := func(name string) string { return filepath.Join(s.Dir, name) }
	for _, name := range []string{".new-cut", ".new-busy", "notes"} {
		must(t, os.WriteFile(at(name), []byte("x"), 0o600))
	}
	must(t, os.Symlink("/etc/passwd", at(".new-link")))
	busy, err := os.Open(at(".new-busy"))
	must(t, err)
	defer busy.Close()
	must(t, unix.Flock(int(busy.Fd()), unix.LOCK_EX))
	all, err := s.Debris(t.Context(), false)
	if err != nil || len(all) != 1 || all[0].Object != at(".new-cut") || all[0].Repaired {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := s.Create(t.Context(), "busy", root(t), container.IDRange{}, backup.Manifest{}); !errors.Is(err, container.ErrBusy) {
		t.Errorf("a second one of that name: %v", err)
	}
	if _, err := os.Stat(at(".new-cut")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the next backup: %v", err)
	}
	for _, name := range []string{".new-busy", ".new-link", "notes"} {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Error(err)
		}
	}
}

// TestDebrisOfTargets: at a target, where other hosts may write and locks may not be seen, an
// unfinished backup is debris when nothing was written to it for a day. A finished one never is.
func TestDebrisOfTargets(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, age := range map[string]time.Duration{".new-cut": 25 * time.Hour, ".new-late": 23 * time.Hour, ".new-busy": 25 * time.Hour, ".new-of another": 25 * time.Hour, "web.hostler-backup": 999 * time.Hour, "notes": 999 * time.Hour} {
		must(t, os.WriteFile(at(name), []byte("x"), 0o600))
		then := time.Now().Add(-age)
		must(t, os.Chtimes(at(name), then, then))
	}
	busy, err := os.Open(at(".new-busy"))
	must(t, err)
	defer busy.Close()
	must(t, unix.Flock(int(busy.Fd()), unix.LOCK_EX))
	own := backup.Store{Dir: t.TempDir()}
	tidier := func(name string) backup.TargetTidier {
		return backup.TargetTidier{Own: own, Targets: backup.Targets{"nas": {Dir: dir}, "away": {Dir: at("none")}}, Name: name}
	}
	for _, repair := range []bool{false, true} {
		all, err := tidier("nas").Debris(t.Context(), repair)
		if err != nil || len(all) != 1 || all[0].Object != at(".new-cut") || all[0].Repaired != repair {
			t.Errorf("with repair %t: %+v, %v", repair, all, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 5 {
		t.Errorf("after the repair there is %v, %v", left, err)
	}
	if all, err := tidier("away").Debris(t.Context(), true); !errors.Is(err, container.ErrUnavailable) || len(all) > 0 {
		t.Errorf("of a target that is not mounted: %+v, %v", all, err)
	}
}

// TestRetain: of what a schedule has made the newest of each day stays, if the newest of
// all is whole; what people have made stays always.
func TestRetain(t *testing.T) {
	s, from := store(t, identity(t)), root(t)
	day := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	names := func() (all []string) {
		list, err := s.List(t.Context())
		must(t, err)
		for _, b := range list {
			all = append(all, b.Name)
		}
		slices.Sort(all) // List has them by their dates, which decide nothing here
		return all
	}
	made := make(map[string]backup.Backup)
	for i, name := range []string{"a1", "a2", "b1", "c1", "mine", "other"} {
		m := backup.Manifest{CTID: "ct-1", Made: day.Add(time.Duration(i) * 10 * time.Hour).UnixMilli(), Scheduled: name != "mine"}
		if name == "other" {
			m.CTID = "ct-2"
		}
		b, err := s.Create(t.Context(), name, from, ids, m)
		must(t, err)
		if want := uint64(i + 1); b.Number != want && name != "other" {
			t.Errorf("%s is number %d, want %d", name, b.Number, want)
		}
		made[name], err = s.Verify(t.Context(), name)
		must(t, err)
	}
	newest := filepath.Join(s.Dir, "c1.hostler-backup")
	whole, err := os.ReadFile(newest)
	must(t, err)
	damaged := bytes.Clone(whole)
	damaged[100] ^= 1
	first, err := os.Stat(newest)
	must(t, err, os.WriteFile(newest, damaged, 0o600), os.Chtimes(newest, time.Time{}, first.ModTime().Add(time.Second)))
	never := made["c1"]
	never.Verified = time.Time{}
	for _, verified := range []backup.Backup{made["mine"], made["c1"], never} { // of c1 it is seen that it was changed since
		if err := s.Retain(t.Context(), verified, 1, 0, day.AddDate(0, 1, 0)); !errors.Is(err, backup.ErrArchive) || len(names()) != 6 {
			t.Errorf("%s was verified, and the newest is damaged: %v, there are %q", verified.Name, err, names())
		}
	}
	must(t, os.WriteFile(newest, whole, 0o600), s.Retain(t.Context(), made["mine"], 2, 0, day.AddDate(0, 1, 0)))
	if got := strings.Join(names(), " "); got != "a2 c1 mine other" {
		t.Errorf("there are %s", got)
	}
	// What was just verified is not read a second time: what nothing but a look at all of
	// its bytes would find is not found.
	fresh, err := s.Verify(t.Context(), "c1")
	i, err2 := os.Stat(newest)
	must(t, err, err2, os.WriteFile(newest, damaged, 0o600), os.Chtimes(newest, time.Time{}, i.ModTime()))
	must(t, s.Retain(t.Context(), fresh, 1, 0, day.AddDate(0, 1, 0)))
	if got := strings.Join(names(), " "); got != "c1 mine other" {
		t.Errorf("then there are %s", got)
	}
}

// TestTargets: a backup at a target is one of the host: it is read and removed by the name
// of the target, known as the newest good one without a look at the target, and nothing is
// written where no directory is.
func TestTargets(t *testing.T) {
	own, nas := store(t, identity(t)), t.TempDir()
	for _, bad := range []string{"nas", "nas=relative", "=/x", "a/b=/x"} {
		if _, err := backup.ParseTargets([]string{bad}, backup.Access{}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	targets, err := backup.ParseTargets([]string{"nas=" + nas, "away=" + filepath.Join(nas, "no", "mount")}, backup.Access{})
	must(t, err)
	for name, want := range map[string]error{"away": container.ErrUnavailable, "other": container.ErrNotFound} {
		if _, err := own.At(targets, name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	at, err := own.At(targets, "nas")
	must(t, err)
	b, err := at.Create(t.Context(), "b1", root(t), ids, backup.Manifest{CTID: "ct-1", Made: 7})
	must(t, err)
	newest := func() string {
		all, err := own.Newest(t.Context())
		must(t, err)
		return all["ct-1"].Name
	}
	if got := newest(); !b.Verified.IsZero() || got != "" {
		t.Errorf("nobody has read it yet, and %q is good", got)
	}
	if b, err = at.Verify(t.Context(), "b1"); err != nil || b.Verified.IsZero() || newest() != "nas:b1" {
		t.Errorf("%v, the newest is %q", err, newest())
	}
	list, err := at.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Verified.IsZero() {
		t.Errorf("there are %+v, %v", list, err)
	}
	must(t, os.Chtimes(filepath.Join(nas, "b1.hostler-backup"), time.Time{}, time.Unix(1, 0)))
	if list, err := at.List(t.Context()); err != nil || !list[0].Verified.IsZero() {
		t.Errorf("it was changed since, and is %+v, %v", list, err)
	}
	must(t, at.Remove(t.Context(), "b1"))
	if left, err := os.ReadDir(nas); err != nil || len(left) > 0 || newest() != "" {
		t.Errorf("left are %v, %v, and the newest is %q", left, err, newest())
	}
}

// TestNewest: of one directory the number tells which is the newest, whatever clocks have
// done; one at a target that is found damaged or gone is not the newest good one any more,
// but the next one is.
func TestNewest(t *testing.T) {
	own, nas := store(t, identity(t)), t.TempDir()
	at, err := own.At(backup.Targets{"nas": {Dir: nas}}, "nas")
	must(t, err)
	from := root(t)
	made := func(s backup.Store, name string, ms int64) {
		t.Helper()
		_, err := s.Create(t.Context(), name, from, ids, backup.Manifest{CTID: "ct-1", Made: ms})
		must(t, err)
		_, err = s.Verify(t.Context(), name)
		must(t, err)
	}
	newest := func(want string) {
		t.Helper()
		all, err := own.Newest(t.Context())
		must(t, err)
		if got := all["ct-1"].Name; got != want {
			t.Errorf("the newest is %q, want %q", got, want)
		}
	}
	file := func(name string) string { return filepath.Join(nas, name+".hostler-backup") }
	made(own, "o1", 20)
	made(own, "o2", 10) // the clock went back
	newest("o2")
	made(at, "n1", 40)
	made(at, "n2", 30)
	newest("nas:n2")
	_, err = at.Verify(t.Context(), "n1") // an older one is looked at again
	must(t, err)
	newest("nas:n2")
	raw, err := os.ReadFile(file("n2"))
	must(t, err)
	raw[100] ^= 1
	must(t, os.WriteFile(file("n2"), raw, 0o600))
	if _, err := at.Verify(t.Context(), "n2"); !errors.Is(err, backup.ErrArchive) {
		t.Errorf("it is damaged: %v", err)
	}
	newest("nas:n1")
	must(t, os.Remove(file("n1")))
	if _, err := at.Verify(t.Context(), "n1"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("it is gone: %v", err)
	}
	newest("o2")
}
