package upgrade

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/release"
)

// Replace puts the programs of a release over those of this host, where no package
// manager does it. places says where each belongs; one without a place is left out.
// What was replaced before a crash is replaced once more.
func Replace(d Dir, r Record, places map[string]string) error {
	for _, name := range []string{release.Run, release.LXC, release.Agent} { // the agent last: it is what the next start judges by
		place := places[name]
		if place == "" || !slices.Contains(r.Programs, name) {
			continue
		}
		if err := replace(d.Program(name), place); err != nil {
			return fmt.Errorf("replace %s: %w", place, err)
		}
	}
	return nil
}

// replace copies a program beside the one that it is to replace, and renames it.
func replace(from, to string) error {
	beside := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".hostler-new")
	if err := copyProgram(from, beside); err != nil {
		return errors.Join(err, durable.Remove(beside))
	}
	failpoint.Before(failpoint.ProgramReplaced)
	if err := os.Rename(beside, to); err != nil {
		return errors.Join(err, durable.Remove(beside))
	}
	err := durable.Sync(filepath.Dir(to))
	failpoint.After(failpoint.ProgramReplaced)
	return err
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close())
}
