package backup_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/backup/bucket"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/s3test"
	"github.com/hostler-io/hostler/protocol"
)

// far is the target "far" of a host.
type far struct {
	id      *certs.Identity
	own, at backup.Store
	targets backup.Targets
	dir     string // where the files lie, also those of the objects of a bucket
}

func (f far) file(name string) string { return filepath.Join(f.dir, name+".hostler-backup") }

// change changes a byte of a backup.
func (f far) change(t *testing.T, name string, at int) {
	t.Helper()
	raw, err := os.ReadFile(f.file(name))
	must(t, err)
	raw[at] ^= 1
	must(t, os.WriteFile(f.file(name), raw, 0o600))
}

func farAway(t *testing.T, target backup.Target, dir string) far {
	t.Helper()
	f := far{id: identity(t), targets: backup.Targets{"far": target}, dir: dir}
	f.own = store(t, f.id)
	var err error
	f.at, err = f.own.At(f.targets, "far")
	must(t, err)
	return f
}

// make makes a backup of a container.
func (f far) make(t *testing.T, name string, m backup.Manifest, volumes ...backup.Tree) backup.Backup {
	t.Helper()
	b, err := f.at.Create(t.Context(), name, root(t), ids, m, volumes...)
	must(t, err)
	return b
}

// TestFiles: backups in directories and in buckets keep the same promises.
func TestFiles(t *testing.T) {
	server := s3test.Start(t)
	kinds := map[string]func(t *testing.T) far{
		"directory": func(t *testing.T) far {
			dir := t.TempDir()
			return farAway(t, backup.Target{Dir: dir}, dir)
		},
		"bucket": func(t *testing.T) far {
			prefix := filepath.Base(t.Name()) + rand.Text()
			return farAway(t, inBucket(server, prefix), filepath.Join(server.Dir, prefix))
		},
	}
	promises := map[string]func(t *testing.T, f far){
		"a whole one": wholeOne, "a container is made of it": madeOf, "encrypted": encryptedFar, "what fails leaves nothing": failedOne,
		"damaged": damagedFar, "on other hosts": travelling, "retention": retained, "the newest of a unique container": latestFar, "one wins": oneWins, "increments": chainedFar, "increments on other hosts": chainTravels,
	}
	for kind, open := range kinds {
		for name, holds := range promises {
			t.Run(kind+"/"+name, func(t *testing.T) { holds(t, open(t)) })
		}
	}
}

func inBucket(s *s3test.Server, prefix string) backup.Target {
	return backup.Target{Bucket: &bucket.Config{URL: s.URL(prefix), Credentials: s.Credentials, PartBytes: 5 << 20}}
}

func wholeOne(t *testing.T, f far) {
	all, err := f.at.List(t.Context())
	_, none := f.at.Verify(t.Context(), "b1")
	if err != nil || len(all) > 0 || !errors.Is(none, container.ErrNotFound) || !errors.Is(f.at.Remove(t.Context(), "b1"), container.ErrNotFound) {
		t.Errorf("before the first there are %+v, %v, %v", all, err, none)
	}
	first := f.make(t, "b1", backup.Manifest{Container: "web", CTID: "ct-1", Made: 7})
	f.make(t, "b2", backup.Manifest{Container: "web", CTID: "ct-1", Made: 9})
	if _, err := f.at.Create(t.Context(), "b1", root(t), ids, backup.Manifest{}); !errors.Is(err, container.ErrExists) {
		t.Errorf("made twice: %v", err)
	}
	verified, err := f.at.Verify(t.Context(), "b1")
	must(t, err)
	all, err = f.at.List(t.Context())
	if must(t, err); len(all) != 2 || all[0].Name != "b1" || all[0].Size != first.Size || all[0].Problem != "" || all[0].Number != 1 || all[1].Number != 2 ||
		all[0].Verified.UnixMilli() != verified.Verified.UnixMilli() || !all[1].Verified.IsZero() {
		t.Errorf("there are %+v", all)
	}
	if newest, err := f.own.Newest(t.Context()); err != nil || newest["ct-1"].Name != "far:b1" {
		t.Errorf("the newest is %+v, %v", newest, err)
	}
	raw, err := os.ReadFile(f.file("b2"))
	must(t, err, f.at.Remove(t.Context(), "b1"), os.WriteFile(f.file("foreign"), raw[:50], 0o600), os.WriteFile(f.file("byte"), []byte("x"), 0o600), os.WriteFile(f.file("no name"), nil, 0o600))
	all, err = f.at.List(t.Context())
	if err != nil || len(all) != 3 || all[0].Problem == "" || all[1].Problem == "" || all[2].Name != "b2" {
		t.Errorf("then there are %+v, %v", all, err)
	}
	if newest, err := f.own.Newest(t.Context()); err != nil || len(newest) > 0 {
		t.Errorf("the newest is %+v, %v", newest, err)
	}
	if own, err := f.own.List(t.Context()); err != nil || len(own) > 0 {
		t.Errorf("the host itself has %+v, %v", own, err)
	}
	theirs := backup.Store{Dir: t.TempDir(), Key: identity(t).PublicKey()}
	theirs, err = theirs.At(f.targets, "far")
	must(t, err)
	if _, err := theirs.Verify(t.Context(), "b2"); !errors.Is(err, backup.ErrArchive) {
		t.Errorf("another host takes it: %v", err)
	}
}

// chainedFar: of increments at a target the whole chain is verified, restored and kept, and
// the host has their lists.
func chainedFar(t *testing.T, f far) {
	dir := root(t)
	next(t, f.at, "b0", dir, 7)
	for _, name := range []string{"b1", "b2"} {
		must(t, os.WriteFile(filepath.Join(dir, "etc/more"), []byte(name), 0o600))
		if b, why := next(t, f.at, name, dir, 7); b.Parent == nil {
			t.Fatalf("it is %+v, for %q", b, why)
		}
	}
	if got, want := restored(t, f.at, "b2"), contents(t, dir, ids); got != want {
		t.Errorf("it gives\n%s, want\n%s", got, want)
	}
	if newest, err := f.own.Newest(t.Context()); err != nil || newest[web.CTID].Name != "far:b2" {
		t.Errorf("the newest is %+v, %v", newest, err)
	}
	if err := f.at.Remove(t.Context(), "b1"); !errors.Is(err, container.ErrBusy) {
		t.Errorf("a backup that b2 needs is removed: %v", err)
	}
	f.change(t, "b1", 20)
	if _, err := f.at.Verify(t.Context(), "b2"); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "b1") {
		t.Errorf("over a changed one it is verified: %v", err)
	}
	if newest, err := f.own.Newest(t.Context()); err != nil || newest[web.CTID].Name != "far:b0" {
		t.Errorf("the newest is %+v, %v", newest, err)
	}
	if b, why := next(t, f.at, "b3", dir, 7); b.Parent != nil || why == "" {
		t.Errorf("over a changed one there is %+v", b)
	}
	must(t, f.at.Remove(t.Context(), "b2"), f.at.Remove(t.Context(), "b1"), f.at.Remove(t.Context(), "b0"))
}

func madeOf(t *testing.T, f far) {
	f.make(t, "b1", backup.Manifest{Container: "web"}, backup.Tree{Name: "data", Root: root(t), IDs: ids})
	ctx, done := context.WithCancel(t.Context())
	defer done()
	m, img, err := f.at.Image(ctx, "b1")
	must(t, err)
	own, data := t.TempDir(), t.TempDir()
	must(t, rootfs.Unpack(own, img.Layers, container.IDRange{}), rootfs.Unpack(data, []container.Layer{m.VolumesIn(img)["data"]}, container.IDRange{}))
	for _, dir := range []string{own, data} {
		if raw, err := os.ReadFile(filepath.Join(dir, "etc/file")); err != nil || len(raw) != 6000 {
			t.Errorf("it has %d bytes, %v", len(raw), err)
		}
	}
	done()
	if debris, err := f.own.Debris(t.Context(), true); err != nil || len(debris) > 0 {
		t.Errorf("left are %+v, %v", debris, err)
	}
	if all, err := f.at.List(t.Context()); err != nil || all[0].Verified.IsZero() {
		t.Errorf("it was read: %+v, %v", all, err)
	}
}

func encryptedFar(t *testing.T, f far) {
	f.at.By, f.at.Secret = shifted{3}, shifted{3}
	f.make(t, "b1", backup.Manifest{Container: "web"})
	_, img, err := f.at.Image(t.Context(), "b1")
	must(t, err, rootfs.Unpack(t.TempDir(), img.Layers, container.IDRange{}))
}

func failedOne(t *testing.T, f far) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := f.at.Create(ctx, "b1", root(t), ids, backup.Manifest{}); !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
		t.Errorf("it is made: %v", err)
	}
	if _, err := f.at.Create(t.Context(), "b1", filepath.Join(t.TempDir(), "none"), ids, backup.Manifest{}); err == nil {
		t.Error("of a directory that is not there it is made")
	}
	if all, err := f.at.List(t.Context()); err != nil || len(all) > 0 || len(names(t, f.own.Dir)) > 0 {
		t.Errorf("there are %+v, %v, and on the host %q", all, err, names(t, f.own.Dir))
	}
	for _, name := range []string{"", "../b", "a/b", "-x"} {
		_, err := f.at.Create(t.Context(), name, root(t), ids, backup.Manifest{})
		_, err2 := f.at.Verify(t.Context(), name)
		if err == nil || err2 == nil || f.at.Remove(t.Context(), name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
	f.make(t, "b1", backup.Manifest{})
}

func damagedFar(t *testing.T, f far) {
	for _, name := range []string{"b1", "b2", "b3"} {
		f.make(t, name, backup.Manifest{CTID: "ct-1", Made: 7})
		_, err := f.at.Verify(t.Context(), name)
		must(t, err)
	}
	f.change(t, "b3", 100)
	raw, err := os.ReadFile(f.file("b2"))
	must(t, err, os.WriteFile(f.file("b2"), raw[:len(raw)-1], 0o600))
	for _, name := range []string{"b3", "b2"} {
		_, _, made := f.at.Image(t.Context(), name)
		if _, err := f.at.Verify(t.Context(), name); !errors.Is(err, backup.ErrArchive) || !errors.Is(made, backup.ErrArchive) {
			t.Errorf("%s: %v, %v", name, err, made)
		}
	}
	if newest, err := f.own.Newest(t.Context()); err != nil || newest["ct-1"].Name != "far:b1" {
		t.Errorf("the newest good one is %+v, %v", newest, err)
	}
	if debris, err := f.own.Debris(t.Context(), false); err != nil || len(debris) > 0 {
		t.Errorf("left are %+v, %v", debris, err)
	}
}

func travelling(t *testing.T, f far) {
	f.make(t, "b1", backup.Manifest{Container: "web", CTID: "ct-1"})
	for _, s := range []backup.Store{f.own, f.at} {
		var wire bytes.Buffer
		_, err := f.at.Export(t.Context(), "b1", &wire, f.id.Sign)
		must(t, err)
		b, err := s.Import(t.Context(), file(t, wire.Bytes()), "came", knows(f.id))
		if err != nil || b.From != "edge-01" || b.Verified.IsZero() {
			t.Errorf("to %q it came as %+v, %v", s.Target(), b, err)
		}
	}
}

// failsAt signs so many backups, and no more.
type failsAt struct {
	backup.Signer
	left int
}

func (s *failsAt) Sign(body []byte) ([]byte, error) {
	if s.left--; s.left < 0 {
		return nil, errors.New("enough")
	}
	return s.Signer.Sign(body)
}

// chainTravels: of an increment that comes the whole chain does, or the backup that was asked for
// is not there; the next attempt goes on with what has come.
func chainTravels(t *testing.T, f far) {
	me := identity(t)
	from, dir := store(t, me), root(t)
	chainOf(t, from, dir, 4)
	wire := sent(t, from, me, "b3")
	slow := f.at
	slow.Signer = &failsAt{f.id, 2}
	if _, err := slow.Import(t.Context(), file(t, wire), "b3", knows(me)); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Fatalf("it is cut short: %v", err)
	}
	all, err := f.at.List(t.Context())
	if must(t, err); len(all) != 2 || all[0].Name != "b0" || all[1].Name != "b1" || all[0].Problem+all[1].Problem != "" || all[1].Chain != 2 {
		t.Errorf("cut short there are %+v", all)
	}
	rest := sent(t, from, me, "b3", "b0", "b1")
	if len(rest) >= len(wire) {
		t.Errorf("what is there is sent again: %d bytes of %d", len(rest), len(wire))
	}
	b, err := f.at.Import(t.Context(), file(t, rest), "b3", knows(me))
	if must(t, err); b.Chain != 4 || b.From != "edge-01" || b.Verified.IsZero() || b.Parent.Name != "b2" {
		t.Errorf("it came as %+v", b)
	}
	if got, want := restored(t, f.at, "b3"), contents(t, dir, ids); got != want {
		t.Errorf("it gives\n%s, want\n%s", got, want)
	}
	if newest, err := f.own.Newest(t.Context()); err != nil || newest[web.CTID].Name != "far:b3" {
		t.Errorf("the newest is %+v, %v", newest, err)
	}
	if err := f.at.Remove(t.Context(), "b0"); !errors.Is(err, container.ErrBusy) {
		t.Errorf("a backup that b1 needs is removed: %v", err)
	}
	b, err = f.own.Import(t.Context(), file(t, sent(t, f.at, f.id, "b3")), "b3", knows(f.id)) // and on
	if must(t, err); b.Chain != 4 || restored(t, f.own, "b3") != contents(t, dir, ids) {
		t.Errorf("it went on as %+v", b)
	}
	f.change(t, "b1", 20)
	if _, err := f.at.Import(t.Context(), file(t, wire), "b3", knows(me)); !errors.Is(err, container.ErrExists) || !strings.Contains(err.Error(), "b1") {
		t.Errorf("over a damaged one of that name: %v", err)
	}
	if _, err := f.at.Export(t.Context(), "b3", new(bytes.Buffer), f.id.Sign); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "b1") {
		t.Errorf("over a damaged one it goes: %v", err)
	}
}

func retained(t *testing.T, f far) {
	day := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var last backup.Backup
	for i, name := range []string{"a1", "a2", "b1"} {
		f.make(t, name, backup.Manifest{CTID: "ct-1", Made: day.Add(time.Duration(i) * 10 * time.Hour).UnixMilli(), Scheduled: true})
		var err error
		last, err = f.at.Verify(t.Context(), name)
		must(t, err)
	}
	must(t, f.at.Retain(t.Context(), last, 1, 0, day.AddDate(0, 1, 0)))
	if all, err := f.at.List(t.Context()); err != nil || len(all) != 1 || all[0].Name != "b1" {
		t.Errorf("there are %+v, %v", all, err)
	}
}

func latestFar(t *testing.T, f far) {
	for name, counter := range map[string]uint64{"old": 1, "new": 3, "older": 2} {
		f.make(t, name, backup.Manifest{CTID: "ct-1", Made: int64(10 - counter), Epoch: protocol.Epoch{Counter: counter}})
	}
	at, b, err := f.own.Latest(t.Context(), f.targets, "ct-1")
	if err != nil || b.Name != "new" || at.Target() != "far" {
		t.Errorf("it is %q at %q, %v", b.Name, at.Target(), err)
	}
}

// oneWins: of two hosts that make a backup of one name at the same time one does.
func oneWins(t *testing.T, f far) {
	second, err := backup.Store{Dir: t.TempDir(), Signer: f.id, Key: f.id.PublicKey()}.At(f.targets, "far")
	must(t, err)
	from, came := root(t), make(chan error)
	for _, s := range []backup.Store{f.at, second} {
		go func() {
			_, err := s.Create(t.Context(), "b1", from, ids, backup.Manifest{})
			came <- err
		}()
	}
	errs := []error{<-came, <-came}
	if slices.Contains(errs, nil) == (errs[0] == nil && errs[1] == nil) {
		t.Errorf("they end with %v", errs)
	}
	_, err = f.at.Verify(t.Context(), "b1")
	must(t, err)
}

// TestParseBuckets: each bucket has credentials, and all credentials are of a bucket.
func TestParseBuckets(t *testing.T) {
	const at = "offsite=s3://s3.example/backups/edge-07"
	for name, tc := range map[string]struct {
		targets, credentials []string
		says                 string
	}{
		"a bucket and a directory": {[]string{at, "nas=/mnt/nas"}, []string{"offsite=/etc/hostler/key"}, ""},
		"no credentials":           {[]string{at}, nil, "offsite=FILE"},
		"of another target":        {[]string{at, "nas=/mnt/nas"}, []string{"offsite=/k", "nas=/k"}, "of no bucket"},
		"twice":                    {[]string{at}, []string{"offsite=/k", "offsite=/l"}, "twice"},
		"of no form":               {[]string{at}, []string{"/k"}, "TARGET=FILE"},
		"two of a name":            {[]string{at, "offsite=/mnt/nas"}, []string{"offsite=/k"}, "twice"},
		"no URL of a bucket":       {[]string{"offsite=https://s3.example/b"}, nil, "s3://"},
	} {
		targets, err := backup.ParseTargets(tc.targets, backup.Access{Credentials: tc.credentials, CAFile: "/ca"})
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
		if c := targets["offsite"].Bucket; err == nil && (c.Credentials != "/etc/hostler/key" || c.CAFile != "/ca") {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestBucketAway: what a store that is away or refuses is asked for fails soon, and says what
// to do; what is noted of backups stays noted, and all else goes on.
func TestBucketAway(t *testing.T) {
	server := s3test.Start(t)
	f := farAway(t, inBucket(server, "edge-07"), filepath.Join(server.Dir, "edge-07"))
	f.make(t, "b1", backup.Manifest{CTID: "ct-1", Made: 7})
	_, err := f.at.Verify(t.Context(), "b1")
	must(t, err)
	all := func(why string, target backup.Target) {
		t.Helper()
		at, err := f.own.At(backup.Targets{"far": target}, "far")
		for what, do := range map[string]func() error{
			"create": func() error {
				_, err := at.Create(t.Context(), "b2", root(t), ids, backup.Manifest{})
				return err
			},
			"ls":     func() error { _, err := at.List(t.Context()); return err },
			"verify": func() error { _, err := at.Verify(t.Context(), "b1"); return err },
			"restore": func() error {
				_, _, err := at.Image(t.Context(), "b1")
				return err
			},
			"rm": func() error { return at.Remove(t.Context(), "b1") },
		} {
			bad := err
			if bad == nil {
				bad = do()
			}
			if !errors.Is(bad, container.ErrUnavailable) || !strings.Contains(bad.Error(), why) || !strings.Contains(bad.Error(), "target far") {
				t.Errorf("%s: %v, want %q", what, bad, why)
			}
		}
		if newest, err := f.own.Newest(t.Context()); err != nil || newest["ct-1"].Name != "far:b1" {
			t.Errorf("the newest good one is %+v, %v", newest, err)
		}
	}
	key := func(text string) *bucket.Config {
		path := filepath.Join(t.TempDir(), "key")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return &bucket.Config{URL: server.URL("edge-07"), Credentials: path}
	}
	all("SignatureDoesNotMatch", backup.Target{Bucket: key(s3test.Key + ":wrong")})
	all("XAdminUserNotFound", backup.Target{Bucket: key("nobody:" + s3test.Secret)})
	all("ACCESS_KEY:SECRET_KEY", backup.Target{Bucket: key("no colon")})
	must(t, os.Chmod(server.Credentials, 0o644))
	all("chmod 600", f.targets["far"])
	must(t, os.Chmod(server.Credentials, 0o600))
	server.Down()
	all("is it on", f.targets["far"])
	if b, err := f.own.Create(t.Context(), "own", root(t), ids, backup.Manifest{}); err != nil {
		t.Errorf("the host itself: %+v, %v", b, err)
	}
	server.Up(t)
	must(t, f.at.Remove(t.Context(), "b1"))
}

// TestRemovedInTheBucket: of a backup that others remove nothing is left on the host after the
// next one.
func TestRemovedInTheBucket(t *testing.T) {
	server := s3test.Start(t)
	f := farAway(t, inBucket(server, "edge-07"), filepath.Join(server.Dir, "edge-07"))
	for _, name := range []string{"b1", "b2"} {
		f.make(t, name, backup.Manifest{})
		_, err := f.at.Verify(t.Context(), name)
		must(t, err)
	}
	must(t, os.Remove(f.file("b1")))
	f.make(t, "b3", backup.Manifest{})
	if left := names(t, f.own.Dir); !slices.Equal(left, []string{".verified-far:b2"}) {
		t.Errorf("on the host there are %q", left)
	}
}

// TestUploadCutShort: the parts of an upload whose process is gone are freed before the next
// backup; those of one that goes on are not.
func TestUploadCutShort(t *testing.T) {
	server := s3test.Start(t)
	f := farAway(t, inBucket(server, "edge-07"), "")
	in, err := bucket.Open(*f.targets["far"].Bucket)
	must(t, err, os.MkdirAll(f.own.Dir, 0o700))
	parts := func() (n int) {
		found, err := filepath.Glob(filepath.Join(server.Dir, ".sgwtmp/multipart/*/*"))
		must(t, err)
		return len(found)
	}
	killed := errors.New("killed")
	note := filepath.Join(f.own.Dir, ".upload-far:cut")
	err = in.Put(t.Context(), "cut.hostler-backup", bytes.NewReader(make([]byte, 6<<20)), 6<<20, func(id string) error {
		must(t, os.WriteFile(note, []byte(`{"id":"`+id+`"}`), 0o600))
		return killed
	})
	if !errors.Is(err, killed) || parts() != 1 {
		t.Fatalf("%v, and %d uploads are begun", err, parts())
	}
	if all, err := f.at.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("it is listed: %+v, %v", all, err)
	}
	if debris, err := f.at.Debris(t.Context(), false); err != nil || len(debris) != 1 || debris[0].Object != "far:cut" {
		t.Errorf("%+v, %v", debris, err)
	}
	large := make([]byte, 6<<20)
	_, err = rand.Read(large)
	from := t.TempDir()
	must(t, err, os.WriteFile(filepath.Join(from, "large"), large, 0o600))
	_, err = f.at.Create(t.Context(), "next", from, ids, backup.Manifest{})
	must(t, err)
	if left := names(t, f.own.Dir); parts() != 0 || len(left) > 0 {
		t.Errorf("%d uploads are left, and on the host %q", parts(), left)
	}
	_, err = f.at.Verify(t.Context(), "next")
	must(t, err)
}
