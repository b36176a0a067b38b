package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/files"
	"github.com/hostler-io/hostler/protocol"
)

func (a *app) pullCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pull HOST[/NAME]:PATH… DIR", Short: "Copy files from a host, or out of a container",
		Long: `Copies files, and directories with everything in them, from hosts, or out of containers
that run or are stopped, into a directory that is here. A file appears whole or not
at all, with its mode. Nothing is written outside of DIR, whatever the host sends:
links that lead out of what is copied are left out, and so are devices, pipes and
sockets.`,
		Example: `  hostler pull edge-01:/var/log/syslog .
  hostler pull edge-01/web:/etc/nginx edge-01/web:/srv/site backup/`,
		Args: atLeast(2), DisableFlagsInUseLine: true, ValidArgsFunction: a.completing(hostNames),
	}
	t := transferFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var from []remotePath
		for _, s := range args[:len(args)-1] {
			p, err := parseRemotePath(s)
			if err != nil {
				return usage(cmd.UseLine(), "%s", err)
			}
			from = append(from, p)
		}
		return a.pull(cmd.Context(), t, from, args[len(args)-1])
	}
	return cmd
}

func (a *app) pull(ctx context.Context, t *transfer, from []remotePath, dir string) error {
	if i, err := os.Stat(dir); err != nil || !i.IsDir() {
		return &failure{code: exitNotFound, what: "cannot pull into " + dir, why: "it is no directory that is there", next: "mkdir " + dir}
	}
	r, err := a.connect()
	if err == nil {
		err = filesAreRemote(r)
	}
	if err != nil {
		return err
	}
	for _, p := range from {
		s := protocol.Spec{Files: &protocol.FileArgs{Paths: []string{p.path}}, Output: protocol.OutputStream}
		if s, err = a.fileSpec(ctx, r, t, p, protocol.KindHostPull, protocol.KindContainerPull, s); err != nil {
			return err
		}
		spec, err := encodeSpec(s)
		if err == nil && t.dryRun {
			err = a.dryRun(ctx, r, t.view, []protocol.HostID{p.host}, s.Kind, spec)
		} else if err == nil {
			err = a.pullOne(ctx, r, p, spec, dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pullOne unpacks what the host sends while it comes.
func (a *app) pullOne(ctx context.Context, r *remote, p remotePath, spec []byte, dir string) error {
	what := "pull " + p.String()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return cannot(what, err)
	}
	act, err := a.submit(ctx, r, p.host, spec)
	if err != nil {
		return errors.Join(cannot(what, err), root.Close())
	}
	tree := files.NewTree(root, ".hostler-"+act.ID)
	tree.Plain = true
	final, unpacked, err := a.receive(ctx, r, p, act, tree)
	err = errors.Join(err, tree.Close())
	switch {
	case unpacked != nil && ctx.Err() == nil:
		// The host goes on for nobody.
		_ = r.Post(ctx, "/v1/actions/"+act.ID+"/cancel", nil, nil, nil)
		if err := ended(what, final); err != nil && final.Exit != nil {
			return err // it could not read it, and has said so
		}
		return &failure{code: exitFailed, what: "cannot " + what, why: unpacked.Error(), next: "hostler action show " + act.ID}
	case err != nil:
		a.leave(act.ID)
		return cannot(what, err)
	}
	return ended(what, final)
}

// receive follows the action and unpacks what it writes.
func (a *app) receive(ctx context.Context, r *remote, p remotePath, act api.Action, tree *files.Tree) (final api.Action, unpacked, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in, out := io.Pipe()
	bar := a.progress("pulling "+printable(p.String()), 0)
	defer bar.end()
	done := make(chan struct{})
	go func() { // ends with the pipe, and is waited for below
		defer close(done)
		if unpacked = tree.Unpack(ctx, bar.reader(in), func(*tar.Header) {}); unpacked != nil {
			unpacked = fmt.Errorf("what came is not taken: %w", unpacked)
			stop(unpacked)
		}
		_ = in.CloseWithError(unpacked) // whoever writes on is told
		if unpacked == nil {
			_, _ = io.Copy(io.Discard, in) // nothing is behind the archive
		}
	}()
	f := &follower{app: a, remote: r, label: p.String(), stdout: out, stderr: a.err}
	final, err = f.wait(ctx, act)
	_ = out.CloseWithError(err) // a pipe in memory
	<-done
	if final.State == "" || !protocol.State(final.State).Final() {
		// Stopped by ourselves: what has become of it meanwhile?
		if now, e := r.action(context.WithoutCancel(ctx), act.ID, 0); e == nil {
			final = now
		}
	}
	return final, unpacked, err
}
