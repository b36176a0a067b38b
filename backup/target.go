package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/backup/bucket"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Targets are the directories and buckets beside the host's own directory in which backups
// are kept, by their names.
type Targets map[string]Target

// Target is a directory, or a bucket.
type Target struct {
	Dir    string
	Bucket *bucket.Config // nil: it is a directory
}

// Access is how this host is let into the buckets among its targets.
type Access struct {
	// Credentials are files, each as TARGET=FILE; see [bucket.Config].
	Credentials []string
	CAFile      string
}

// ParseTargets reads targets, each NAME=DIRECTORY, or NAME=URL of a bucket.
func ParseTargets(all []string, a Access) (Targets, error) {
	t := make(Targets)
	for _, text := range all {
		name, at, ok := strings.Cut(text, "=")
		switch _, twice := t[name]; {
		case !ok || container.CheckSnapshot(name) != nil:
			return nil, fmt.Errorf("the target %q is not of the form NAME=DIRECTORY or NAME=s3://HOST/BUCKET, with letters, digits and any of ._- in its name", text)
		case twice:
			return nil, fmt.Errorf("the target %s is there twice", name)
		case strings.Contains(at, "://"):
			c := &bucket.Config{URL: at, CAFile: a.CAFile}
			if err := c.Check(); err != nil {
				return nil, fmt.Errorf("the target %s: %w", name, err)
			}
			t[name] = Target{Bucket: c}
		case !filepath.IsAbs(at):
			return nil, fmt.Errorf("the directory of target %s, %q, is not absolute", name, at)
		default:
			t[name] = Target{Dir: filepath.Clean(at)}
		}
	}
	return t, t.give(a.Credentials)
}

// give gives each bucket its credentials.
func (t Targets) give(credentials []string) error {
	for _, text := range credentials {
		name, path, ok := strings.Cut(text, "=")
		switch at := t[name]; {
		case !ok || path == "":
			return fmt.Errorf("the credentials %q are not of the form TARGET=FILE", text)
		case at.Bucket == nil:
			return fmt.Errorf("the credentials %q are of no bucket among the targets", text)
		case at.Bucket.Credentials != "":
			return fmt.Errorf("target %s has credentials twice", name)
		default:
			at.Bucket.Credentials = path
		}
	}
	for name, at := range t {
		if at.Bucket != nil && at.Bucket.Credentials == "" {
			return fmt.Errorf("target %s has no credentials; name the file with its key in backups.s3_credentials: %s=FILE", name, name)
		}
	}
	return nil
}

// Names are those of the targets, sorted.
func (t Targets) Names() []string { return slices.Sorted(maps.Keys(t)) }

// At is the store at a target of a host, whose own store s is; s for an empty name. The
// directory of a target has to be there: one that is not mounted is never written to.
func (s Store) At(t Targets, name string) (Store, error) {
	if name == "" {
		return s, nil
	}
	there, ok := t[name]
	if !ok {
		why := "it has " + strings.Join(t.Names(), ", ")
		if len(t) == 0 {
			why = "it has none; name them in backups.targets of agent.toml"
		}
		return Store{}, fmt.Errorf("%w: this host has no target %s of backups: %s", container.ErrNotFound, name, why)
	}
	at := s
	at.target, at.own = name, s.Dir
	if there.Bucket != nil {
		in, err := bucket.Open(*there.Bucket)
		if err != nil {
			return Store{}, fmt.Errorf("%w: target %s: %w", container.ErrUnavailable, name, err)
		}
		at.bucket = in
		return at, nil
	}
	i, err := os.Stat(there.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !i.IsDir() {
		return Store{}, fmt.Errorf("%w: the target %s has no directory %s; is it mounted?", container.ErrUnavailable, name, there.Dir)
	}
	at.Dir = there.Dir
	return at, err
}

// Latest returns the newest backup of a unique container at the targets of a host, and the
// store that it is in: that of the highest epoch, and of these the one made last. The key of
// the store says whose backups count. A target that cannot be reached is an error only if no
// other one has a backup. It reads no archive.
func (s Store) Latest(ctx context.Context, t Targets, id container.CTID) (at Store, newest Backup, err error) {
	var away error
	for _, name := range t.Names() {
		there, err := s.At(t, name)
		var all []Backup
		if err == nil {
			all, err = there.List(ctx)
		}
		away = errors.Join(away, err)
		for _, b := range all {
			if b.Problem == "" && b.CTID == id && (newest.Name == "" || newest.before(b)) {
				at, newest = there, b
			}
		}
	}
	if newest.Name == "" {
		return at, newest, errors.Join(fmt.Errorf("%w: no target of this host has a backup of it that a host has signed which held it; it has %s", container.ErrNotFound, t), away)
	}
	return at, newest, nil
}

// before reports whether a backup of a container is older than another one: by its epoch,
// which no clock can move, then by its number there, then by its date.
func (b Backup) before(o Backup) bool {
	return cmp.Or(b.Epoch.Compare(o.Epoch), cmp.Compare(b.Number, o.Number), cmp.Compare(b.Made, o.Made)) < 0
}

// String names the targets.
func (t Targets) String() string {
	if len(t) == 0 {
		return "no targets"
	}
	return "the targets " + strings.Join(t.Names(), ", ")
}

// Target is the name of the target that a store is of; empty for that of the host itself.
func (s Store) Target() string { return s.target }

// elsewhere is the newest good backup of a container that lies at a target. The host notes
// it in its own directory, so that nobody waits for a file system of others.
type elsewhere struct {
	Name   string `json:"name"`
	Target string `json:"target"`
	MadeMS int64  `json:"made_ms"`
	Number uint64 `json:"number,omitzero"` // 0: a version that knew of none has noted it
}

const elsewherePrefix = ".elsewhere-"

func (s Store) elsewhere(id container.CTID) string {
	return filepath.Join(s.own, elsewherePrefix+string(id))
}

// noteElsewhere notes a backup of a target that was found good, unless a newer one is noted.
func (s Store) noteElsewhere(b Backup) error {
	if s.target == "" || container.CheckSnapshot(string(b.CTID)) != nil {
		return nil
	}
	if last, err := readElsewhere(s.elsewhere(b.CTID)); err == nil && last.newer(s.target, b) {
		return nil
	}
	raw, err := json.Marshal(elsewhere{Name: b.Name, Target: s.target, MadeMS: b.Made, Number: b.Number})
	if err == nil {
		err = os.MkdirAll(s.own, 0o700)
	}
	if err != nil {
		return err
	}
	return durable.WriteFile(s.elsewhere(b.CTID), raw, 0o600, maxNote)
}

// newer reports whether it is newer than a backup that was just verified. Numbers are those
// of one target; between two of them the date decides, unless it is still to come.
func (e elsewhere) newer(target string, b Backup) bool {
	if e.Target == target && e.Number != 0 {
		return e.Number > b.Number
	}
	return e.MadeMS > b.Made && e.MadeMS <= b.Verified.UnixMilli()
}

func readElsewhere(path string) (e elsewhere, err error) {
	raw, err := rundir.ReadCapped(path, maxNote)
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(raw, &e)
}

// forgetElsewhere forgets a backup that is no good one of a target any more, and notes the
// newest good one that is left there in its place.
func (s Store) forgetElsewhere(ctx context.Context, name string) error {
	if s.target == "" {
		return nil
	}
	paths, err := filepath.Glob(filepath.Join(s.own, elsewherePrefix+"*"))
	for _, path := range paths {
		e, bad := readElsewhere(path)
		if bad != nil || e.Target != s.target || e.Name != name && !s.restsOn(ctx, e.Name, name) {
			continue
		}
		id := container.CTID(strings.TrimPrefix(filepath.Base(path), elsewherePrefix))
		bad = os.Remove(path)
		if bad == nil {
			var left map[container.CTID]Backup
			if left, bad = s.good(ctx); left[id].Name != "" {
				bad = errors.Join(bad, s.noteElsewhere(left[id]))
			}
		}
		err = errors.Join(err, bad)
	}
	return err
}

// good are the newest good backups of this store, by their numbers: the clock may have
// jumped between two.
func (s Store) good(ctx context.Context) (map[container.CTID]Backup, error) {
	all, err := s.List(ctx)
	newest := make(map[container.CTID]Backup)
	for _, b := range all {
		if b.Problem == "" && !b.Verified.IsZero() && b.Number >= newest[b.CTID].Number {
			newest[b.CTID] = b
		}
	}
	return newest, err
}

// Newest returns the newest backup of each container that is known to be good, and when it
// was made, in Unix milliseconds. Of those at targets it knows what this host has noted.
func (s Store) Newest(ctx context.Context) (map[container.CTID]Newest, error) {
	good, err := s.good(ctx)
	newest := make(map[container.CTID]Newest)
	for id, b := range good {
		newest[id] = Newest{b.Name, b.Made, b.Number}
	}
	paths, bad := filepath.Glob(filepath.Join(s.Dir, elsewherePrefix+"*"))
	for _, path := range paths {
		id := container.CTID(strings.TrimPrefix(filepath.Base(path), elsewherePrefix))
		if e, err := readElsewhere(path); err == nil && e.MadeMS > newest[id].MadeMS {
			newest[id] = Newest{e.Target + ":" + e.Name, e.MadeMS, e.Number}
		}
	}
	return newest, errors.Join(err, bad)
}

// Newest is the newest good backup of a container.
type Newest struct {
	Name   string // of one at a target with that before it, as in nas:web-20261124
	MadeMS int64
	// Number is that of its manifest. It orders the backups of one container in one
	// directory; 0 if it is not known.
	Number uint64
}
