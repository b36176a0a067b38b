//go:build linux && cgo

package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
)

const (
	recordFile    = "hostler.json"
	recordVersion = 1
	// sharedVersion is that of a record with a tree: an earlier helper would take the
	// container for one without files.
	sharedVersion = 2
	maxRecord     = 256 << 10
)

// record is what makes a container ours.
type record struct {
	Version  int
	CTID     container.CTID
	Template string
	// Digest of the image that it was made from; empty if it was a template.
	Digest string `json:",omitzero"`
	// Tree is what it shares with other containers of its image, see [host.tree]; empty if all
	// of its files are its own.
	Tree string `json:",omitzero"`
	// Argv is the command that runs in it; empty if its configuration says that.
	Argv []string `json:",omitzero"`
	// Hostname that it has whatever it is called; empty if it goes by its name.
	Hostname string `json:",omitzero"`
	State    recordState
	// Renaming tells that the configuration may say another name than that of the
	// directory, which is the one that counts.
	Renaming bool `json:",omitzero"`
	// Adopted tells that somebody else has made it, and Autostart that LXC started it with
	// the host until then.
	Adopted, Autostart bool `json:",omitzero"`
	// Mounts are what it has from outside of its root directory.
	Mounts []container.Mount `json:",omitzero"`
	// Upgrade is the key of the upgrade that has made it of another image; empty if none has.
	Upgrade string `json:",omitzero"`
	// IDs of the host that the container has alone; none of a privileged one.
	IDs container.IDRange `json:",omitzero"`
}

type recordState string

const (
	recordCreating   recordState = "creating"
	recordReady      recordState = "ready"
	recordDestroying recordState = "destroying"
)

// readRecord returns the record in a container's directory. A foreign
// container has none: fs.ErrNotExist.
func readRecord(dir string) (record, error) {
	path := filepath.Join(dir, recordFile)
	raw, err := rundir.ReadCapped(path, maxRecord)
	if err != nil {
		return record{}, err
	}
	var r record
	if raw, err = rundir.CheckSum(raw); err != nil {
		return record{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return record{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if r.Version != recordVersion && r.Version != sharedVersion {
		return record{}, fmt.Errorf("reading %s: version %d, want %d or %d", path, r.Version, recordVersion, sharedVersion)
	}
	if (r.Version == sharedVersion) != treeName.MatchString(r.Tree) {
		return record{}, fmt.Errorf("reading %s: its version is %d, and it shares %.80q", path, r.Version, r.Tree)
	}
	if err := container.CheckCTID(string(r.CTID)); err != nil {
		return record{}, fmt.Errorf("reading %s: %w", path, err)
	}
	switch r.State {
	case recordCreating, recordReady, recordDestroying:
		return r, nil
	}
	return record{}, fmt.Errorf("reading %s: unknown state %.40q", path, r.State)
}

// writeRecord replaces the record in dir; it is durable when writeRecord returns.
func writeRecord(dir string, r record) error {
	r.Version = recordVersion
	if r.Tree != "" {
		r.Version = sharedVersion
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordFile)
	f, err := rundir.WriteCapped(path+".new", append(rundir.AppendSum(raw), '\n'), 0, maxRecord)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return rundir.SyncDir(dir)
}

// ours finds the directory whose record bears the CTID; empty if there is none.
// A record of another container that cannot be read keeps nobody from creating.
func (h *host) ours(id container.CTID) (name string, err error) {
	entries, err := os.ReadDir(h.path)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if container.CheckReference(e.Name()) != nil {
			continue
		}
		if r, err := readRecord(h.dir(e.Name())); err == nil && r.CTID == id {
			return e.Name(), nil
		}
	}
	return "", nil
}
