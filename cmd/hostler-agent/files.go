package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/internal/files"
)

// filesCommand is run by the agent itself, under a supervisor.
func filesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "files", Hidden: true, Args: noArgs, RunE: func(*cobra.Command, []string) error {
		return fmt.Errorf("%w: files needs push or pull", errUsage)
	}}
	for verb, do := range map[string]func(context.Context, *cobra.Command, agent.Move) error{agent.MovePush: pushFiles, agent.MovePull: pullFiles} {
		cmd.AddCommand(&cobra.Command{
			Use: verb + " JSON", Short: "For the agent alone", Hidden: true,
			Args: func(cmd *cobra.Command, args []string) error { return usage(cobra.ExactArgs(1)(cmd, args)) },
			RunE: func(cmd *cobra.Command, args []string) error {
				var m agent.Move
				if err := json.Unmarshal([]byte(args[0]), &m); err != nil {
					return usage(err)
				}
				return do(cmd.Context(), cmd, m)
			},
		})
	}
	return cmd
}

// pushFiles writes what it reads.
func pushFiles(ctx context.Context, cmd *cobra.Command, m agent.Move) (err error) {
	if m.Files.Archive {
		dir, err := m.Dir(m.Files.Paths[0])
		if err != nil {
			return err
		}
		t := tree(&m, files.NewTree(dir, m.Temp))
		return errors.Join(t.Unpack(ctx, cmd.InOrStdin(), nil), t.Close())
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
func tree(m *agent.Move, t *files.Tree) *files.Tree {
	t.Chown = m.Chown
	return t
}

// errSkipped tells that not everything was taken.
var errSkipped = errors.New("not everything was copied")

// pullFiles writes an archive of what is there.
func pullFiles(ctx context.Context, cmd *cobra.Command, m agent.Move) error {
	skipped := false
	p := files.NewPacker(cmd.OutOrStdout())
	p.OwnerOf = m.OwnerOf
	p.Skipped = func(name string, why error) {
		skipped = true
		fmt.Fprintf(cmd.ErrOrStderr(), "hostler-agent: %q was left out: %v\n", name, why)
	}
	for _, at := range m.Files.Paths {
		if err := pullOne(ctx, p, &m, at); err != nil {
			return err
		}
	}
	if err := p.Close(); err != nil {
		return err
	}
	if skipped {
		return errSkipped
	}
	return nil
}

func pullOne(ctx context.Context, p *files.Packer, m *agent.Move, at string) error {
	f, dir, err := m.Source(at)
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
