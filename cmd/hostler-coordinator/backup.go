package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/archive"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func backupCommand(configured loader) *cobra.Command {
	var b backup
	cmd := &cobra.Command{
		Use:   "backup FILE | DIR | -",
		Short: "Back this coordinator up, while it runs",
		Long: `Writes the database as it is at one moment, the rings and, unless --without-keys
is given, the keys of the coordinator into one file of mode 0600, and reads it
back. A directory gets a file named after the fleet and the time; - is the
standard output, which is not read back.

With its keys the file is as secret as the state directory: a person who has it can
speak as this coordinator until the owners take it out. Without them it still
holds what was asked of hosts, and codes that let hosts ask to be let in; it is
restored all the same, since a recovered coordinator has a new key in any case.

Output of commands, recordings of sessions, and files on their way to hosts, are
left out unless --with-outputs is given; hosts that keep output send it again.`,
		Example: "  hostler-coordinator backup /var/backups/hostler\n  hostler-coordinator backup --without-keys - | ssh vault 'cat > lab.backup'",
		Args:    oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			b.state, b.out, b.talk = state(c.StateDir), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return b.state.handingOver(func() error { return b.run(cmd.Context(), args[0]) })
		},
	}
	cmd.Flags().BoolVar(&b.withoutKeys, "without-keys", false, "leave the coordinator's keys out")
	cmd.Flags().BoolVar(&b.withOutputs, "with-outputs", false, "keep the output of commands, recordings and the files on their way, too")
	return cmd
}

// backup is one run of the command.
type backup struct {
	state       state
	withoutKeys bool
	withOutputs bool
	out, talk   io.Writer
}

func (b *backup) run(ctx context.Context, to string) error {
	if err := b.state.usable(); err != nil {
		return err
	}
	id, err := certs.LoadIdentity(b.state.identity())
	if errors.Is(err, fs.ErrNotExist) {
		return b.state.missing()
	}
	if err != nil {
		return err
	}
	held, err := b.state.lock("backup")
	if err != nil {
		return err
	}
	defer held.Close()
	if to == "-" {
		m, err := b.write(ctx, b.out, id)
		if err == nil {
			fmt.Fprintf(b.talk, "%s\n", summary(m))
		}
		return broken(ctx, err, "What was written to the standard output is no backup.", "Run it again.")
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		chain, err := b.state.chain()
		if err != nil {
			return err
		}
		to = filepath.Join(to, fmt.Sprintf("%s-%s.backup", chain.Ring().Name, clock.Now().UTC().Format("20060102T150405Z")))
	}
	if err := sweep(filepath.Dir(to), id); err != nil {
		return err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w; name another file", to, errors.Join(fs.ErrExist, err))
	}
	m, err := b.place(ctx, to, id)
	if err != nil {
		return fmt.Errorf("back up to %s: %w", to, broken(ctx, err, "Nothing is left of it, and the coordinator is as it was.",
			fmt.Sprintf("Run it again; it needs room for the database here and in %s meanwhile.", b.state)))
	}
	fmt.Fprintf(b.out, "backup: %s\n", to)
	fmt.Fprintf(b.talk, "%s\n", summary(m))
	if m.Keys {
		fmt.Fprintf(b.talk, "It holds the coordinator's keys: keep it as secret as %s.\n", b.state)
	}
	fmt.Fprintf(b.talk, "To use it: hostler-coordinator restore %s\n", to)
	return nil
}

// partial begins the names of a coordinator's backups that are not whole yet.
func partial(id *certs.Identity) string { return ".hostler-backup-" + id.Key().String() + "-" }

// sweep removes what backups left that were killed. Under the lock no other process
// of this coordinator is at work on one.
func sweep(dir string, id *certs.Identity) error {
	left, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), partial(id)) && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove the remains of an interrupted backup: %w", err)
			}
		}
	}
	return nil
}

// place writes the backup beside its place, reads it back, and puts it there.
func (b *backup) place(ctx context.Context, to string, id *certs.Identity) (m archive.Manifest, err error) {
	f, err := os.CreateTemp(filepath.Dir(to), partial(id)) // of mode 0600
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, durable.Remove(f.Name())) }()
	m, err = b.write(ctx, f, id)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return m, err
	}
	fmt.Fprintln(b.talk, "Reading it back …")
	read, _, err := inspect(ctx, f.Name(), "")
	if err == nil && read.Store != m.Store {
		err = errors.New("the file that was read back is another backup")
	}
	if err != nil {
		return m, fmt.Errorf("reading it back: %w", err)
	}
	failpoint.Before(failpoint.BackupPlaced)
	if err := os.Link(f.Name(), to); err != nil { // never over another file
		return m, err
	}
	if err := durable.Sync(filepath.Dir(to)); err != nil {
		return m, err
	}
	failpoint.After(failpoint.BackupPlaced)
	return m, nil
}

// write writes a backup. The database comes first, as it is at one moment: what
// is in files is never behind it.
func (b *backup) write(ctx context.Context, w io.Writer, id *certs.Identity) (m archive.Manifest, err error) {
	dir := b.state.path(".backup") // of one that was killed, or none
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	copied := filepath.Join(dir, "store.db")
	fmt.Fprintln(b.talk, "Copying the database …")
	m = archive.Manifest{Key: id.Key(), AtMS: clock.Now().UnixMilli(), Version: buildinfo.String(), Keys: !b.withoutKeys, Outputs: b.withOutputs}
	if m.Store, err = sqlstore.Copy(ctx, sqlstore.Config{Path: b.state.store()}, copied); err != nil {
		return m, err
	}
	chain, err := b.state.chain()
	if err != nil {
		return m, err
	}
	m.Fleet, m.Name, m.Ring = chain.Ring().Fleet, chain.Ring().Name, chain.Ring().Number
	files, err := b.files()
	if err != nil {
		return m, err
	}
	a := archive.NewWriter(w)
	told := clock.Now()
	for n, name := range files {
		path := b.state.path(name)
		if name == "store.db" {
			path = copied
		}
		if err := addFile(ctx, a, name, path); err != nil {
			return m, err
		}
		if now := clock.Now(); now.Sub(told) > progressEvery || now.Before(told) {
			fmt.Fprintf(b.talk, "%d of %d files …\n", n+1, len(files))
			told = now
		}
	}
	err = a.Close(&m, id)
	return m, err
}

// progressEvery is how often long work tells how far it is.
const progressEvery = 2 * time.Second

// addFile adds a file as long as it is now. Output that was forgotten meanwhile
// is left out.
func addFile(ctx context.Context, a *archive.Writer, name, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && (strings.HasPrefix(name, "output/") || strings.HasPrefix(name, "payloads/") || name == "token.shown") {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return a.Add(name, info.Size(), heeding{ctx, f})
}

// files are the names of what is backed up, in order. What a coordinator makes
// anew when it is not there is none of it: certificates of its servers, and the
// keys of TLS sessions, which need not be kept.
func (b *backup) files() ([]string, error) {
	all := []string{"store.db", "fleet.code", "token.shown"}
	if !b.withoutKeys {
		all = append(all, "identity.pgp", "ca.pem")
	}
	trees := []string{"rings"}
	if b.withOutputs {
		trees = append(trees, "output", "payloads")
	}
	for _, tree := range trees {
		err := filepath.WalkDir(b.state.path(tree), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // there is none, or it was forgotten meanwhile
			}
			if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
				return err
			}
			name, err := filepath.Rel(string(b.state), path)
			if name = filepath.ToSlash(name); archive.HasPlace(name) { // no payload that is not whole yet
				all = append(all, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(all) > archive.MaxFiles {
		return nil, fmt.Errorf("there are %d files, and a backup holds at most %d: make it without --with-outputs, or have fewer actions kept (actions.count)", len(all), archive.MaxFiles)
	}
	slices.Sort(all)
	return all, nil
}

// summary says what a backup is.
func summary(m archive.Manifest) string {
	with := "without keys"
	if m.Keys {
		with = "with keys"
	}
	if m.Outputs {
		n, size := 0, int64(0)
		for _, f := range m.Files {
			if strings.HasPrefix(f.Name, "output/") || strings.HasPrefix(f.Name, "payloads/") {
				n, size = n+1, size+f.Size
			}
		}
		with += fmt.Sprintf(", with %d files of outputs and payloads (%d bytes)", n, size)
	}
	return fmt.Sprintf("Fleet %s, ring %d, as of %s, %s", m.Name, m.Ring, time.UnixMilli(m.AtMS).UTC().Format(time.RFC3339), with)
}

// maxHeld bounds the rings of a backup, in bytes: they are held in memory before it is
// known who made them.
const maxHeld = 64 << 20

// inspect reads a backup whole and checks all of it: its digests, the rings that
// lead from the pin of a fleet to its coordinator, and that coordinator's
// signature. Without a fleet code the pin is that in the backup, which then is
// whole, but may be of any maker.
func inspect(ctx context.Context, path, code string) (m archive.Manifest, chain *certs.Chain, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, nil, err
	}
	defer f.Close()
	small, held := make(map[string][]byte), int64(0)
	m, sealed, err := archive.Read(heeding{ctx, f}, func(name string, size int64, r io.Reader) error {
		if name != "fleet.code" && !strings.HasPrefix(name, "rings/") {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		if size > maxFile {
			return fmt.Errorf("%w: %s has %d bytes", archive.ErrArchive, name, size)
		}
		if held += size; held > maxHeld {
			return fmt.Errorf("%w: its rings have more than %d bytes", archive.ErrArchive, maxHeld)
		}
		small[name], err = io.ReadAll(r)
		return err
	})
	if err != nil {
		return m, nil, fmt.Errorf("%s: %w", path, err)
	}
	if code == "" {
		code = string(bytes.TrimSpace(small["fleet.code"]))
	} else if want, err := enrol.ParseFleetCode(code); err == nil && want.Fleet != m.Fleet {
		return m, nil, fmt.Errorf("%s: it is of fleet %s (%s), and --fleet names fleet %s (%s)", path, m.Name, m.Fleet, want.Name, want.Fleet)
	}
	if chain, err = chainOf(code, small); err != nil {
		return m, nil, fmt.Errorf("%s: %w: %w", path, archive.ErrArchive, err)
	}
	ring := chain.Ring()
	key, ok := chain.Coordinator(m.Key)
	if !ok || ring.Fleet != m.Fleet || ring.Name != m.Name || ring.Number != m.Ring {
		return m, nil, fmt.Errorf("%s: %w: key %s is of no coordinator in its ring %d", path, archive.ErrArchive, m.Key, ring.Number)
	}
	if err := archive.Verify(sealed, key); err != nil {
		return m, nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, chain, nil
}

// heeding reads until the user wants an end: files may be as large as a disk, and a
// signal that is taken and not heeded is none.
type heeding struct {
	ctx context.Context
	r   io.Reader
}

func (h heeding) Read(p []byte) (int, error) {
	if err := context.Cause(h.ctx); err != nil {
		return 0, err
	}
	return h.r.Read(p)
}

// broken says of work that came to no end what to do next: a signal ended it, or
// there was no room. Whatever else a signal or a full disk looks like further up is no
// fault of what was read.
func broken(ctx context.Context, err error, left, again string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted (%w): %s\n%s", context.Cause(ctx), left, again)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w\n%s Make room first. %s", err, left, again)
	}
	return err
}
