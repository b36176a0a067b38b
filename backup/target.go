package backup

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Targets are the directories beside the host's own in which backups are kept, by their
// names.
type Targets map[string]string

// ParseTargets reads targets, each NAME=DIRECTORY.
func ParseTargets(all []string) (Targets, error) {
	t := make(Targets)
	for _, text := range all {
		name, dir, ok := strings.Cut(text, "=")
		switch {
		case !ok || container.CheckSnapshot(name) != nil:
			return nil, fmt.Errorf("the target %q is not of the form NAME=DIRECTORY, with letters, digits and any of ._- in its name", text)
		case !filepath.IsAbs(dir):
			return nil, fmt.Errorf("the directory of target %s, %q, is not absolute", name, dir)
		case t[name] != "":
			return nil, fmt.Errorf("the target %s is there twice", name)
		}
		t[name] = filepath.Clean(dir)
	}
	return t, nil
}

// Names are those of the targets, sorted.
func (t Targets) Names() []string { return slices.Sorted(maps.Keys(t)) }

// At is the store at a target of a host, whose own store s is; s for an empty name. The
// directory of a target has to be there: one that is not mounted is never written to.
func (s Store) At(t Targets, name string) (Store, error) {
	if name == "" {
		return s, nil
	}
	dir, ok := t[name]
	if !ok {
		why := "it has " + strings.Join(t.Names(), ", ")
		if len(t) == 0 {
			why = "it has none; name them in backups.targets of agent.toml"
		}
		return Store{}, fmt.Errorf("%w: this host has no target %s of backups: %s", container.ErrNotFound, name, why)
	}
	i, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !i.IsDir() {
		return Store{}, fmt.Errorf("%w: the target %s has no directory %s; is it mounted?", container.ErrUnavailable, name, dir)
	}
	return Store{Dir: dir, Signer: s.Signer, Key: s.Key, Vouched: s.Vouched, target: name, own: s.Dir}, err
}

// Latest returns the newest backup of a unique container at the targets of a host, and the
// store that it is in: that of the highest epoch, and of these the one made last. The key of
// the store says whose backups count. A target that cannot be reached is an error only if no
// other one has a backup. It reads no archive.
func (s Store) Latest(t Targets, id container.CTID) (at Store, newest Backup, err error) {
	var away error
	for _, name := range t.Names() {
		there, err := s.At(t, name)
		var all []Backup
		if err == nil {
			all, err = there.List()
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
func (s Store) forgetElsewhere(name string) error {
	if s.target == "" {
		return nil
	}
	paths, err := filepath.Glob(filepath.Join(s.own, elsewherePrefix+"*"))
	for _, path := range paths {
		e, bad := readElsewhere(path)
		if bad != nil || e.Name != name || e.Target != s.target {
			continue
		}
		id := container.CTID(strings.TrimPrefix(filepath.Base(path), elsewherePrefix))
		bad = os.Remove(path)
		if bad == nil {
			var left map[container.CTID]Backup
			if left, bad = s.good(); left[id].Name != "" {
				bad = errors.Join(bad, s.noteElsewhere(left[id]))
			}
		}
		err = errors.Join(err, bad)
	}
	return err
}

// good are the newest good backups of this store, by their numbers: the clock may have
// jumped between two.
func (s Store) good() (map[container.CTID]Backup, error) {
	all, err := s.List()
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
func (s Store) Newest() (map[container.CTID]Newest, error) {
	good, err := s.good()
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
