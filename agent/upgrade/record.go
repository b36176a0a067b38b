package upgrade

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/release"
	"github.com/hostler-io/hostler/protocol"
)

// Stage is how far an upgrade has come.
type Stage string

// The stages.
const (
	Staged Stage = "staged" // verified and unpacked; the new agent may be tried
	Proved Stage = "proved" // the coordinator has answered the new agent: its programs belong in their places
	Failed Stage = "failed" // it ended, and the old programs stay
)

// Record is what is durable of the newest upgrade.
type Record struct {
	Action      protocol.ActionID `json:"action"`
	From        string            `json:"from"`    // the version before
	Version     string            `json:"version"` // the new one
	Signer      string            `json:"signer"`  // the name of the release key
	Packages    []string          `json:"packages"`
	Format      release.Format    `json:"format,omitempty"` // of the packages; a record of before formats had a name is of debs
	Programs    []string          `json:"programs"`
	ProbationMS int64             `json:"probation_ms"`
	Stage       Stage             `json:"stage"`
	// Why is why the newest trial failed, or the upgrade. Trials in a row have failed
	// though the coordinator answered the old agent right before and right after.
	Why    string `json:"why,omitempty"`
	Trials int    `json:"trials,omitempty"`
	// Installs is how often it was begun to put the programs in place.
	Installs int `json:"installs,omitempty"`
}

// Dir is where an upgrade is kept: the record, and what was unpacked.
type Dir string

func (d Dir) record() string { return filepath.Join(string(d), "record.json") }

// Release is where the release is unpacked; see [release.Unpack].
func (d Dir) Release() string { return filepath.Join(string(d), "release") }

// Program is a program of the release.
func (d Dir) Program(name string) string { return filepath.Join(d.Release(), "programs", name) }

// Package is a package of the release.
func (d Dir) Package(name string, format release.Format) string {
	return filepath.Join(d.Release(), "packages", name+"."+string(format))
}

// Trial is where a new agent finds the copy of the agent's memory that it is tried
// with.
func (d Dir) Trial() string { return filepath.Join(string(d), "trial") }

// maxRecord bounds a record, in bytes.
const maxRecord = 64 << 10

// Load reads the record; zero if there was no upgrade.
func (d Dir) Load() (r Record, err error) {
	b, err := durable.ReadFile(d.record(), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	r.Format = cmp.Or(r.Format, release.Deb)
	if err != nil {
		return r, fmt.Errorf("read the record of the upgrade: %w", err)
	}
	return r, nil
}

// Keep makes a record durable.
func (d Dir) Keep(r Record) error {
	b, err := json.Marshal(r)
	if err == nil {
		step := failpoint.UpgradeTried
		if r.Stage == Staged && r.Why == "" && r.Trials == 0 {
			step = failpoint.UpgradeStaged
		}
		failpoint.Before(step)
		if err = durable.WriteFile(d.record(), b, 0o600, maxRecord); err == nil {
			failpoint.After(step)
		}
	}
	if err != nil {
		return fmt.Errorf("keep the record of the upgrade: %w", err)
	}
	return nil
}

// begin makes room for the release of another action.
func (d Dir) begin() error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	return d.clean()
}

// clean removes what an upgrade has left but its record.
func (d Dir) clean() error { return errors.Join(os.RemoveAll(d.Release()), os.RemoveAll(d.Trial())) }
