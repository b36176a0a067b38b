package hostcmd

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/files"
	"github.com/hostler-io/hostler/internal/layers"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// filesCommand is run by the agent itself, under a supervisor.
func (c Config) filesCommand() *cobra.Command {
	cmd := daemon.Group("files", "For the agent alone", "files needs push or pull")
	cmd.Hidden = true
	for verb, do := range map[string]func(context.Context, *cobra.Command, commands.Move) error{commands.MovePush: pushFiles, commands.MovePull: c.pullFiles} {
		cmd.AddCommand(&cobra.Command{
			Use: verb + " JSON", Short: "For the agent alone", Hidden: true,
			Args: daemon.Args(1, 1),
			RunE: func(cmd *cobra.Command, args []string) error {
				var m commands.Move
				if err := json.Unmarshal([]byte(args[0]), &m); err != nil {
					return daemon.Usage(err)
				}
				var open func() (*os.File, error)
				switch {
				case m.Shared != nil:
					open = layers.Of(m.Shared).Open
				case m.Stored != nil:
					open = layers.OfStored(m.Stored).Open
				}
				if open != nil {
					f, err := open()
					if err != nil {
						return err
					}
					defer f.Close()
					m.Root = layers.Path(f)
				}
				return do(cmd.Context(), cmd, m)
			},
		})
	}
	return cmd
}

// pushFiles writes what it reads.
func pushFiles(ctx context.Context, cmd *cobra.Command, m commands.Move) (err error) {
	if err := m.Enter(); err != nil {
		return err
	}
	if m.Files.Archive {
		dir, err := m.Dir(m.Files.Paths[0])
		if err != nil {
			return err
		}
		t := tree(&m, files.NewTree(dir, m.Temp))
		return errors.Join(t.Unpack(ctx, cmd.InOrStdin()), t.Close())
	}
	mode, err := m.Files.FileMode()
	if err != nil {
		return err
	}
	owner, err := m.FindOwner(m.Files.Owner)
	if err != nil {
		return err
	}
	dir, base, err := m.Target(m.Files.Paths[0], m.Files.Name)
	if err != nil {
		return err
	}
	t := tree(&m, files.NewTree(dir, m.Temp))
	return errors.Join(t.Put(ctx, base, files.ModeOf(mode), owner, -1, cmd.InOrStdin()), t.Close())
}

// tree gives what is written its owner.
func tree(m *commands.Move, t *files.Tree) *files.Tree {
	t.Chown = m.Chown
	return t
}

// errSkipped tells that not everything was taken.
var errSkipped = errors.New("not everything was copied")

// ErrChanged means that the part that was copied before belongs to another archive.
var ErrChanged = errors.New("the file differs from the part that was copied before")

// ErrAbsent tells that the path to pull does not exist.
var ErrAbsent = errors.New("no such file")

// pullFiles writes an archive of the files, from the offset that the requester has
// already, and leaves a note of its content.
func (c Config) pullFiles(ctx context.Context, cmd *cobra.Command, m commands.Move) error {
	skipped := false
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
	rest := files.NewRest(out, m.Files.Have, m.Files.HaveSHA256)
	p := files.NewPacker(rest)
	p.OwnerOf = m.OwnerOf
	p.Skipped = func(name string, why error) {
		skipped = true
		fmt.Fprintf(cmd.ErrOrStderr(), "hostler-agent: %q was left out: %v\n", name, why)
	}
	note := newNote()
	p.Packed = note.add
	for _, at := range m.Files.Paths {
		if err := pullOne(ctx, p, &m, at); err != nil {
			return changed(&m, rest, err)
		}
	}
	err := errors.Join(p.Close(), out.Flush())
	if err == nil {
		note.SHA256, err = rest.End()
	}
	if err == nil {
		err = note.write(c.Note)
	}
	switch {
	case err != nil:
		return changed(&m, rest, err)
	case skipped:
		return errSkipped
	}
	return nil
}

// changed tells an archive that begins otherwise than it did from a file that
// changed under the hands of the packer.
func changed(m *commands.Move, rest *files.Rest, err error) error {
	if errors.Is(err, files.ErrChanged) && !rest.Begun() && m.Files.Have > 0 {
		return ErrChanged
	}
	return err
}

// note is what a pull leaves of its archive.
type note struct {
	protocol.Archive
	list  hash.Hash
	names int
}

func newNote() *note { return &note{list: sha256.New()} }

func (n *note) add(name string, size int64, digest [32]byte) {
	n.Files++
	n.Bytes += size
	fmt.Fprintf(n.list, "%x  %s\n", digest, name)
	said := strings.ToValidUTF8(name, "\uFFFD")
	if n.names += len(said); int64(len(n.Sums)) == n.Files-1 && len(n.Sums) < protocol.MaxSums && n.names <= protocol.MaxSumNames {
		n.Sums = append(n.Sums, protocol.FileSum{Name: said, Bytes: size, SHA256: digest})
	}
}

// write puts the note where the agent looks for it once this program has ended.
func (n *note) write(path string) error {
	n.List = protocol.Digest(n.list.Sum(nil))
	b, err := json.Marshal(n.Archive)
	if err != nil {
		return err
	}
	f, err := rundir.WriteCapped(path, b, os.O_EXCL, rundir.MaxRecord)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func pullOne(ctx context.Context, p *files.Packer, m *commands.Move, at string) error {
	f, dir, err := m.Source(at)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: %s", ErrAbsent, at)
	}
	if err != nil {
		return err
	}
	name := path.Base(at)
	if dir == nil {
		defer f.Close()
		return p.File(ctx, name, f)
	}
	defer dir.Close()
	if at == "/" {
		name = "root"
	}
	return p.Dir(ctx, name, dir)
}
