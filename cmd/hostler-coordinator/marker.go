package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
)

// recoveryMark is the file that says that a state directory must not be used as it
// is, and how far it is on the way to be. Where there is none, it may be.
type recoveryMark struct {
	Stage    stage          `json:"stage"`
	BackupMS int64          `json:"backup_ms,omitzero"` // when the backup was made
	Former   protocol.KeyID `json:"former"`             // the coordinator's key until now
	// NewFleet is the code of the fleet that a copy becomes part of; empty if it
	// stays in its own, and FormerFleet is the one that it is of.
	NewFleet    string `json:"new_fleet,omitzero"`
	FormerFleet string `json:"former_fleet,omitzero"`
}

// stage is where a state directory stands.
type stage string

// The stages. A recovery ends with the removal of the file.
const (
	restoring  stage = "restoring"  // its files are being written
	restored   stage = "restored"   // it is what a backup holds
	recovering stage = "recovering" // it has a new key, which waits for its ring
)

// errNotUsable tells that a state directory waits for a step of a person.
var errNotUsable = errors.New("this state directory cannot be used yet")

func (s state) recovery() (r recoveryMark, ok bool, err error) {
	b, err := durable.ReadFile(s.marker(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = protocol.DecodeJSON(b, &r, false)
	}
	if err == nil && r.Stage != restoring && r.Stage != restored && r.Stage != recovering {
		err = fmt.Errorf("unknown stage %.40q", r.Stage)
	}
	if err != nil {
		return r, false, fmt.Errorf("%s: %w", s.marker(), err)
	}
	return r, true, nil
}

func (s state) putRecovery(r recoveryMark) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(s.marker(), append(b, '\n'), 0o600, maxFile)
}

// usable refuses a directory that waits for something, and says for what.
func (s state) usable() error {
	r, waits, err := s.recovery()
	switch {
	case err != nil:
		return err
	case !waits:
		return nil
	case r.Stage == restoring:
		return fmt.Errorf("%w: %s: a restore was interrupted\nRun it again: hostler-coordinator restore FILE", errNotUsable, s)
	case r.Stage == restored:
		return fmt.Errorf("%w: %s was restored from a backup of %s, and hosts may have seen more since\nRun: hostler-coordinator recover", errNotUsable, s, date(r.BackupMS))
	}
	return fmt.Errorf("%w: %s waits for the ring that names its new key\nRun hostler-coordinator recover, which says how to get it, then hostler-coordinator recover --ring FILE", errNotUsable, s)
}

func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
