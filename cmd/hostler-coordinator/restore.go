package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/coordinator/archive"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func restoreCommand(configured loader) *cobra.Command {
	var dir, code string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup into an empty state directory",
		Long: `Checks every byte of the backup first, and then writes it to the state directory,
which must be empty or not there. The directory is marked: hosts may have seen
more than the backup knows, so this coordinator does not run before
hostler-coordinator recover has made it a newer one.

A person who can change a backup can make one that is whole. --fleet CODE, which
hostler fleet show prints where an owner is, holds it against the fleet: then
only who had a coordinator's key can have made it.`,
		Example: "  hostler-coordinator restore /var/backups/hostler/lab-20260101T000000Z.backup --fleet hf1_…",
		Args:    oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				c, _, err := configured()
				if err != nil {
					return err
				}
				dir = c.StateDir
			}
			if !filepath.IsAbs(dir) {
				return daemon.Usage(fmt.Errorf("--state: %q is not an absolute path", dir))
			}
			if code != "" {
				if _, err := enrol.ParseFleetCode(code); err != nil {
					return daemon.Usage(fmt.Errorf("--fleet: %w; hostler fleet show prints the code", err))
				}
			}
			if err := state(dir).handingOver(func() error { return restore(cmd.Context(), state(dir), args[0], code, cmd.ErrOrStderr()) }); err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "state: %s\n", dir)
			fmt.Fprintln(cmd.ErrOrStderr(), "Next: hostler-coordinator recover")
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "state", "", "state directory (default: the configured one)")
	cmd.Flags().StringVar(&code, "fleet", "", "code of the fleet that the backup has to be of")
	return cmd
}

// restore writes a backup into a state directory.
func restore(ctx context.Context, s state, file, code string, talk io.Writer) error {
	if err := s.empty(); err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return errors.Unwrap(err) // the name is said already
	}
	fmt.Fprintln(talk, "Checking the backup …")
	m, _, err := inspect(ctx, file, code)
	if err != nil {
		return broken(ctx, err, "Nothing was written.", "Run it again.")
	}
	fmt.Fprintln(talk, summary(m))
	return broken(ctx, s.take(ctx, file, m), fmt.Sprintf("%s may hold a part of it, and no coordinator starts there.", s),
		"Run it again: it begins anew there, or in another directory with --state DIR.")
}

// take writes a backup that was inspected into a state directory. As long as that is
// not done, a note in it says so.
func (s state) take(ctx context.Context, file string, m archive.Manifest) error {
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return err
	}
	held, err := s.lock("restore")
	if err != nil {
		return err
	}
	defer held.Close()
	r := recoveryMark{Stage: restoring, BackupMS: m.AtMS, Former: m.Key}
	failpoint.Before(failpoint.RestoreDeclared)
	if err := s.putRecovery(r); err != nil {
		return err
	}
	failpoint.After(failpoint.RestoreDeclared)
	if err := s.extract(ctx, file, m); err != nil {
		return err
	}
	r.Stage = restored
	failpoint.Before(failpoint.StateRestored)
	if err := s.putRecovery(r); err != nil {
		return err
	}
	failpoint.After(failpoint.StateRestored)
	return nil
}

// empty refuses a directory in which something is that a restore has not put
// there.
func (s state) empty() error {
	r, waits, err := s.recovery()
	if err != nil || waits && r.Stage == restoring {
		return err // one that was interrupted: it was never used
	}
	entries, err := os.ReadDir(string(s))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() != "lost+found" && !strings.HasPrefix(e.Name(), ".") {
			return fmt.Errorf("%s is not empty: it holds %s\nName another directory with --state DIR, or move the contents away", s, e.Name())
		}
	}
	return nil
}

// extract writes the files of a backup that was inspected. It is read once more,
// and every digest is looked at again.
func (s state) extract(ctx context.Context, file string, m archive.Manifest) error {
	root, err := os.OpenRoot(string(s))
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{"store.db", "fleet.code", "identity.pgp", "ca.pem", "token.shown", "rings", "output", "payloads"} {
		if err := root.RemoveAll(name); err != nil { // of a restore that was interrupted
			return err
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	again, _, err := archive.Read(heeding{ctx, f}, func(name string, size int64, r io.Reader) error { return extractFile(root, name, r) })
	if err != nil {
		return err
	}
	if again.AtMS != m.AtMS || !slices.Equal(again.Files, m.Files) {
		return errors.New("the backup was changed while it was read; run it again")
	}
	return filepath.WalkDir(string(s), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return durable.Sync(path)
	})
}

// extractFile writes one file durably. Its name stays within the root whatever
// it is.
func extractFile(root *os.Root, name string, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	w, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Sync(), w.Close())
}
