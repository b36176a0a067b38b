package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/files"
	"github.com/hostler-io/hostler/protocol"
)

// stageLife is for how long what a pull that was broken off has left is kept.
const stageLife = 7 * 24 * time.Hour

func (a *app) pullCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pull HOST[/NAME]:PATH… DIR|NAME", Short: "Copy files from a host, or out of a container",
		Long: `Copies files, and directories with everything in them, from hosts, or out of containers
that run or are stopped, into a directory that is here. One file or directory may
also be given the name of a file, or a name that does not exist yet, which it gets.
A file appears whole or not at all, with its mode but no set-user-id, and nothing before all of it has
come and has the digest that the host tells. Nothing is written anywhere else,
whatever the host sends: links that lead out of what is copied are left out, and so
are devices, pipes and sockets.

What was broken off goes on where it was when the same is pulled again, unless
it has changed meanwhile: until then a file .hostler-pull-… keeps what has come.`,
		Example: `  hostler pull edge-01:/var/log/syslog .
  hostler pull edge-01:/etc/hosts hosts-of-edge-01
  hostler pull edge-01/web:/etc/nginx edge-01/web:/srv/site backup/`,
		Args: atLeast(2), DisableFlagsInUseLine: true, ValidArgsFunction: a.completingPlaces(false),
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

func (a *app) pull(ctx context.Context, t *transfer, from []remotePath, to string) error {
	into, err := findDestination(to, len(from) == 1)
	if err != nil {
		return err
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
		if t.dryRun {
			var spec []byte
			if spec, err = encodeSpec(s); err == nil {
				err = a.dryRun(ctx, r, t.view, []protocol.HostID{p.host}, s.Kind, spec)
			}
		} else {
			err = (&pulling{app: a, remote: r, from: p, spec: s, to: into, words: a.err}).do(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// destination is where something is pulled to: into a directory, or to a name in
// it.
type destination struct{ dir, as string }

// findDestination finds it. Of several things none can get a name of its own.
func findDestination(to string, one bool) (destination, error) {
	i, err := os.Stat(to)
	switch {
	case err == nil && i.IsDir():
		return destination{dir: to}, nil
	case !one || os.IsPathSeparator(to[len(to)-1]) || err != nil && !errors.Is(err, fs.ErrNotExist):
		return destination{}, &failure{code: exitNotFound, what: "cannot pull into " + to, why: "it is no directory that is there", next: "mkdir " + to}
	case err == nil && !i.Mode().IsRegular():
		return destination{}, &failure{code: exitFailed, what: "cannot pull to " + to, why: files.ErrSpecial.Error()}
	}
	d := destination{filepath.Dir(to), filepath.Base(to)}
	if i, err := os.Stat(d.dir); err != nil || !i.IsDir() {
		return destination{}, &failure{code: exitNotFound, what: "cannot pull to " + to, why: d.dir + " is no directory that is there", next: "mkdir " + d.dir}
	}
	return d, nil
}

// pulling is one thing that is pulled.
type pulling struct {
	app    *app
	remote *remote
	from   remotePath
	spec   protocol.Spec
	to     destination
	key    string    // what else sets it apart from another that goes to the same place
	words  io.Writer // gets what the host says of it, but the reason of its end
	// stays lets the action go on without us: whoever asked for it comes back.
	stays bool

	stage *files.Stage
	said  moveWords
}

func (p *pulling) what() string { return "pull " + p.from.String() }

// do pulls it: what comes is kept in a stage, and unpacked once it is whole.
func (p *pulling) do(ctx context.Context) error {
	return p.staged(func(root *os.Root) error { return p.fetch(ctx, root) })
}

// collect takes what an action brings, all of it, whether it has ended or not. It
// returns how much has come.
func (p *pulling) collect(ctx context.Context, act api.Action) (final api.Action, bytes int64, err error) {
	final = act
	err = p.staged(func(root *os.Root) error {
		if err := p.stage.Restart(); err != nil {
			return p.keptError("cannot keep what comes", err)
		}
		var err error
		final, err = p.receive(ctx, act)
		bytes = p.stage.Size()
		if err != nil {
			return err
		}
		return p.take(ctx, root, final)
	})
	return final, bytes, err
}

// staged does something with the stage and the directory that it is in.
func (p *pulling) staged(do func(root *os.Root) error) error {
	root, err := os.OpenRoot(p.to.dir)
	if err != nil {
		return cannot(p.what(), err)
	}
	defer root.Close()
	if err := files.SweepStages(root, p.app.now().Add(-stageLife)); err != nil {
		p.app.say("hostler: what was left in %s by a pull that was broken off stays: %s", p.to.dir, printable(err.Error()))
	}
	if p.stage, err = files.OpenStage(root, p.from.String()+"\x00"+p.to.as+p.key); err != nil {
		return cannot(p.what(), err)
	}
	err = do(root)
	return errors.Join(err, p.stage.Close())
}

// fetch asks the host, once more if what is there has changed.
func (p *pulling) fetch(ctx context.Context, root *os.Root) error {
	for {
		have := p.stage.Size()
		p.spec.Files.Have, p.spec.Files.HaveSHA256 = have, protocol.Digest{}
		if have > 0 {
			p.spec.Files.HaveSHA256 = p.stage.Sum()
			p.app.say("%s: going on behind %s", p.from, size(have))
		}
		spec, err := encodeSpec(p.spec)
		if err != nil {
			return err
		}
		act, err := p.app.submit(ctx, p.remote, p.from.host, spec)
		if err != nil {
			return cannot(p.what(), err)
		}
		final, err := p.receive(ctx, act)
		switch {
		case err != nil:
			return err
		case have > 0 && final.Exit != nil && final.Exit.Code == protocol.ExitChanged:
			p.app.say("%s: it has changed since, so it is copied from its beginning", p.from)
			if err := p.stage.Restart(); err != nil {
				return cannot(p.what(), err)
			}
			continue
		}
		return p.take(ctx, root, final)
	}
}

// receive follows the action and keeps what it writes.
func (p *pulling) receive(ctx context.Context, act api.Action) (api.Action, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	bar := p.app.progress("pulling "+printable(p.from.String()), 0)
	defer bar.end()
	bar.at(p.stage.Size())
	kept := &keeping{stage: p.stage, bar: bar, stop: stop}
	p.said = moveWords{to: p.words}
	f := &follower{app: p.app, remote: p.remote, label: p.from.String(), stdout: kept, stderr: &p.said, hold: true, whole: true}
	final, err := f.wait(ctx, act)
	if err == nil {
		return final, nil
	}
	p.said.end()
	if !p.stays {
		p.end(ctx, act)
	}
	if kept.err != nil {
		return final, p.keptError("cannot keep what comes", kept.err)
	}
	if p.stage.Size() > 0 && !p.stays {
		p.app.say("hostler: %s have come; to go on behind them, pull it again", size(p.stage.Size()))
	}
	return final, cannot(p.what(), err)
}

// end ends an action: nobody is there any more for whom the host would go on.
func (p *pulling) end(ctx context.Context, act api.Action) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	_ = p.remote.Post(ctx, "/v1/actions/"+act.ID+"/cancel", nil, nil, nil) // it ends by itself, too
}

// leaveTime is for how long whoever has had enough waits for the end of what he
// leaves.
const leaveTime = 3 * time.Second

// keptError tells of a disk of this machine that did not take something.
func (p *pulling) keptError(what string, err error) error {
	return &failure{code: exitFailed, what: fmt.Sprintf("cannot %s: %s in %s", p.what(), what, p.to.dir), why: err.Error(),
		next: "pull it again when that is mended: what has come is kept"}
}

// keeping keeps what comes, and has it end if it cannot.
type keeping struct {
	stage *files.Stage
	bar   *progress
	stop  context.CancelCauseFunc
	err   error
}

func (k *keeping) Write(b []byte) (int, error) {
	n, err := k.stage.Write(b)
	k.bar.add(n)
	if err != nil {
		k.err = err
		k.stop(err)
	}
	return n, err
}

// take verifies what has come, and unpacks it.
func (p *pulling) take(ctx context.Context, root *os.Root, final api.Action) error {
	told := archiveOfAction(final)
	failed := p.said.reason(final, ended(p.what(), final))
	switch {
	case told == nil && failed != nil:
		return failed // it could not read it, and has said so
	case told == nil:
		return errors.Join(&failure{code: exitFailed, what: "cannot " + p.what(), why: "the host tells no digest of what it has sent", next: "hostler action show " + final.ID}, p.stage.Restart())
	case told.SHA256 != protocol.Digest(p.stage.Sum()).String():
		return errors.Join(&failure{code: exitFailed, what: "cannot " + p.what(), next: "pull it again, from its beginning",
			why: fmt.Sprintf("what came has the digest %s, and the host has sent %s", protocol.Digest(p.stage.Sum()), told.SHA256)}, p.stage.Restart())
	}
	if err := p.stage.Complete(); err != nil {
		return p.keptError("cannot keep what comes", err)
	}
	same, err := root.OpenRoot(".")
	if err != nil {
		return cannot(p.what(), err)
	}
	tree := files.NewTree(same, ".hostler-"+p.stage.Key())
	tree.Plain, tree.As = true, p.to.as
	if err := errors.Join(tree.Unpack(ctx, p.stage.Content()), tree.Close()); err != nil {
		switch {
		case ctx.Err() != nil:
			return cannot(p.what(), ctx.Err())
		case files.Hostile(err):
			return errors.Join(&failure{code: exitFailed, what: "cannot " + p.what(), why: "what came is not taken: " + err.Error(), next: "hostler action show " + final.ID}, p.stage.Restart())
		}
		return p.keptError("cannot unpack it", err)
	}
	return errors.Join(failed, p.stage.Restart())
}

// archiveOfAction is what an action has copied, nil if it does not tell.
func archiveOfAction(act api.Action) *api.Archive {
	for _, o := range act.Output {
		if o.Archive != nil {
			return o.Archive
		}
	}
	return nil
}
