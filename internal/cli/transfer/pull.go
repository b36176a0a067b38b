package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/files"
	"github.com/hostler-io/hostler/protocol"
)

// stageLife is how long the files of an interrupted pull are kept.
const stageLife = 7 * 24 * time.Hour

// Pull returns hostler pull.
func (a *Files) Pull() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pull HOST[/NAME]:PATH… DIR|NAME|-", Short: "Copy files from a host, or out of a container",
		Long: `Copies files, and directories with everything in them, from hosts, or out of containers
that run or are stopped, into a local directory. One file or directory may
also be copied to a new name, or over a file; the content of one file to standard output,
with -. Several that have one name are
refused: the last one would replace the others.
A file appears whole or not at all, with its mode but no set-user-id, and only after all of it has
arrived with the digest that the host reports. Nothing is written anywhere else,
whatever the host sends: links that lead out of the copied directory are left out,
and so are devices, pipes and sockets.

An interrupted pull continues where it stopped when it is run again, unless the
source has changed: until then a file .hostler-pull-… keeps what has arrived.`,
		Example: `  hostler pull edge-01:/var/log/syslog .
  hostler pull edge-01:/etc/hosts hosts-of-edge-01
  hostler pull edge-01:/etc/hosts - | grep web
  hostler pull edge-01/web:/etc/nginx edge-01/web:/srv/site backup/
  hostler --local pull web:/etc/nginx backup/    # on the host itself`,
		Args: term.AtLeast(2), DisableFlagsInUseLine: true, ValidArgsFunction: a.CompletingPlaces(false),
	}
	t := transferFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.Connect()
		if err != nil {
			return err
		}
		var from []RemotePath
		for _, s := range args[:len(args)-1] {
			p, err := parseRemotePath(s, r.Local)
			if err != nil {
				return term.Usage(cmd.UseLine(), "%s", err)
			}
			from = append(from, p)
		}
		if to := args[len(args)-1]; to != "-" {
			return a.pull(cmd.Context(), r, t, from, to)
		}
		if len(from) > 1 {
			return term.Usage("", "standard output takes one file: %d are named", len(from))
		}
		return a.pullToOutput(cmd.Context(), r, t, from[0])
	}
	return cmd
}

// pullToOutput writes the content of a file to standard output, after all of it has
// arrived with the digest that the host reports.
func (a *Files) pullToOutput(ctx context.Context, r *conn.Remote, t *transfer, from RemotePath) error {
	dir, err := os.MkdirTemp("", "hostler-pull-")
	if err != nil {
		return term.Cannot("pull "+from.String(), err)
	}
	defer os.RemoveAll(dir)
	if err := a.pull(ctx, r, t, []RemotePath{from}, filepath.Join(dir, "content")); err != nil || t.dryRun {
		return err
	}
	f, err := os.Open(filepath.Join(dir, "content"))
	if err != nil {
		return term.Cannot("pull "+from.String(), err)
	}
	defer f.Close()
	if i, err := f.Stat(); err == nil && !i.Mode().IsRegular() {
		return &term.Failure{Code: term.ExitUsage, What: "cannot pull " + from.String() + " to standard output", Why: "it is not a file", Next: "hostler pull " + from.String() + " DIR"}
	}
	_, err = io.Copy(a.Out, f)
	return term.Cannot("write "+from.String()+" to standard output", err)
}

func (a *Files) pull(ctx context.Context, r *conn.Remote, t *transfer, from []RemotePath, to string) error {
	into, err := FindDestination(to, len(from) == 1)
	if err != nil {
		return err
	}
	arrivals := make(Arrivals)
	for _, p := range from {
		if err := arrivals.Add(p, into); err != nil {
			return err
		}
	}
	for _, p := range from {
		s := protocol.Spec{Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{p.Path}}, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}}
		if s, err = a.fileSpec(ctx, r, t, p, protocol.KindHostPull, protocol.KindContainerPull, s); err != nil {
			return err
		}
		if t.dryRun {
			var spec []byte
			if spec, err = dispatch.EncodeSpec(s); err == nil {
				err = a.DryRun(ctx, r, t.view, dispatch.OnHosts(spec, p.Host)...)
			}
		} else {
			err = (&Pulling{Files: a, Remote: r, From: p, spec: s, To: into, Words: a.Err}).do(ctx)
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

// FindDestination finds it. Of several things none can get a name of its own.
func FindDestination(to string, one bool) (destination, error) {
	i, err := os.Stat(to)
	switch {
	case err == nil && i.IsDir():
		return destination{dir: to}, nil
	case !one || os.IsPathSeparator(to[len(to)-1]) || err != nil && !errors.Is(err, fs.ErrNotExist):
		return destination{}, &term.Failure{Code: term.ExitNotFound, What: "cannot pull into " + to, Why: "it is not an existing directory", Next: "mkdir " + to}
	case err == nil && !i.Mode().IsRegular():
		return destination{}, &term.Failure{Code: term.ExitFailed, What: "cannot pull to " + to, Why: files.ErrSpecial.Error()}
	}
	d := destination{filepath.Dir(to), filepath.Base(to)}
	if i, err := os.Stat(d.dir); err != nil || !i.IsDir() {
		return destination{}, &term.Failure{Code: term.ExitNotFound, What: "cannot pull to " + to, Why: d.dir + " is not an existing directory", Next: "mkdir " + d.dir}
	}
	return d, nil
}

// Arrivals are the things that are to be pulled, by the paths that they get here.
type Arrivals map[string]RemotePath

// Add notes a thing, and refuses it if it would replace another one. The same thing
// may come twice.
func (a Arrivals) Add(p RemotePath, to destination) error {
	dir, err := filepath.EvalSymlinks(to.dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return term.Cannot("pull "+p.String(), err)
	}
	name := cmp.Or(to.as, path.Base(p.Path))
	at := filepath.Join(dir, name)
	if other, ok := a[at]; ok && other.String() != p.String() {
		return term.Usage("pull each into a directory of its own", "%s and %s would both become %s", other, p, filepath.Join(to.dir, name))
	}
	a[at] = p
	return nil
}

// Pulling is one thing that is pulled.
type Pulling struct {
	Files  *Files
	Remote *conn.Remote
	From   RemotePath
	spec   protocol.Spec
	To     destination
	Key    string    // what else sets it apart from another that goes to the same place
	Words  io.Writer // gets what the host says of it, but the reason of its end
	// Stays lets the action go on without us: its requester comes back.
	Stays bool

	stage *files.Stage
	Said  moveWords
}

func (p *Pulling) what() string { return "pull " + p.From.String() }

// do pulls it: what comes is kept in a stage, and unpacked once it is whole.
func (p *Pulling) do(ctx context.Context) error {
	return p.staged(func(root *os.Root) error { return p.fetch(ctx, root) })
}

// Collect takes what an action brings, all of it, whether it has ended or not. It
// returns how much has come.
func (p *Pulling) Collect(ctx context.Context, act api.Action) (final api.Action, bytes int64, err error) {
	final = act
	err = p.staged(func(root *os.Root) error {
		if err := p.stage.Restart(); err != nil {
			return p.keptError("cannot store the received data", err)
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
func (p *Pulling) staged(do func(root *os.Root) error) error {
	root, err := os.OpenRoot(p.To.dir)
	if err != nil {
		return term.Cannot(p.what(), err)
	}
	defer root.Close()
	if err := files.SweepStages(root, p.Files.Now().Add(-stageLife)); err != nil {
		p.Files.Say("hostler: the data that an interrupted pull left in %s stays: %s", p.To.dir, term.Printable(err.Error()))
	}
	if p.stage, err = files.OpenStage(root, p.From.String()+"\x00"+p.To.as+p.Key); err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok { // its path is that of the stage, which the user does not know
			return &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("cannot %s: cannot write into %s", p.what(), p.To.dir), Why: path.Err.Error(),
				Next: "run the pull again, into a directory that this user can write to", Err: path.Err}
		}
		return term.Cannot(p.what(), err)
	}
	err = do(root)
	return errors.Join(err, p.stage.Close())
}

// fetch asks the host, once more if what is there has changed.
func (p *Pulling) fetch(ctx context.Context, root *os.Root) error {
	for {
		have := p.stage.Size()
		f := p.spec.Files()
		f.Have, f.HaveSHA256 = have, protocol.Digest{}
		if have > 0 {
			f.HaveSHA256 = p.stage.Sum()
			p.Files.Say("%s: continuing after %s", p.From, term.Size(have))
		}
		spec, err := dispatch.EncodeSpec(p.spec)
		if err != nil {
			return err
		}
		act, err := p.Files.Submit(ctx, p.Remote, p.From.Host, spec)
		if err != nil {
			return term.Cannot(p.what(), err)
		}
		final, err := p.receive(ctx, act)
		switch {
		case err != nil:
			return err
		case have > 0 && final.Exit != nil && final.Exit.Code == protocol.ExitChanged:
			p.Files.Say("%s: it has changed since, so it is copied from the beginning", p.From)
			if err := p.stage.Restart(); err != nil {
				return term.Cannot(p.what(), err)
			}
			continue
		}
		return p.take(ctx, root, final)
	}
}

// receive follows the action and keeps what it writes.
func (p *Pulling) receive(ctx context.Context, act api.Action) (api.Action, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	bar := p.Files.Progress("pulling "+term.Printable(p.From.String()), 0)
	defer bar.End()
	bar.At(p.stage.Size())
	kept := &keeping{stage: p.stage, bar: bar, stop: stop}
	p.Said = moveWords{to: p.Words}
	f := &dispatch.Follower{Dispatcher: p.Files.Dispatcher, Remote: p.Remote, Label: p.From.String(), Stdout: kept, Stderr: &p.Said, Hold: true, Whole: true}
	final, err := f.Wait(ctx, act)
	if err == nil {
		return final, nil
	}
	p.Said.End()
	if !p.Stays {
		p.end(ctx, act)
	}
	if kept.err != nil {
		return final, p.keptError("cannot store the received data", kept.err)
	}
	if p.stage.Size() > 0 && !p.Stays {
		p.Files.Say("hostler: %s have arrived; to continue, run the pull again", term.Size(p.stage.Size()))
	}
	return final, term.Cannot(p.what(), err)
}

// end ends an action that no client waits for any more.
func (p *Pulling) end(ctx context.Context, act api.Action) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	_ = p.Remote.Post(ctx, "/v1/actions/"+act.ID+"/cancel", nil, nil, nil) // it ends by itself, too
}

// leaveTime is for how long a user who has had enough waits for the end of what they
// leaves.
const leaveTime = 3 * time.Second

// keptError tells of a disk of this machine that did not take something.
func (p *Pulling) keptError(what string, err error) error {
	return &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("cannot %s: %s in %s", p.what(), what, p.To.dir), Why: err.Error(),
		Next: "repair that and run the pull again: the received data is kept"}
}

// keeping keeps what comes, and has it end if it cannot.
type keeping struct {
	stage *files.Stage
	bar   *term.Progress
	stop  context.CancelCauseFunc
	err   error
}

func (k *keeping) Write(b []byte) (int, error) {
	n, err := k.stage.Write(b)
	k.bar.Add(n)
	if err != nil {
		k.err = err
		k.stop(err)
	}
	return n, err
}

// take verifies what has come, and unpacks it.
func (p *Pulling) take(ctx context.Context, root *os.Root, final api.Action) error {
	told := archiveOfAction(final)
	failed := p.Said.reason(final, dispatch.Ended(p.what(), final))
	switch {
	case told == nil && failed != nil:
		return failed // it could not read it, and has said so
	case told == nil:
		return errors.Join(&term.Failure{Code: term.ExitFailed, What: "cannot " + p.what(), Why: "the host reports no digest of the data that it sent", Next: "hostler action show " + final.ID}, p.stage.Restart())
	case told.SHA256 != protocol.Digest(p.stage.Sum()).String():
		return errors.Join(&term.Failure{Code: term.ExitFailed, What: "cannot " + p.what(), Next: "run the pull again, from the beginning",
			Why: fmt.Sprintf("the received data has the digest %s, the host sent %s", protocol.Digest(p.stage.Sum()), told.SHA256)}, p.stage.Restart())
	}
	if err := p.stage.Complete(); err != nil {
		return p.keptError("cannot store the received data", err)
	}
	same, err := root.OpenRoot(".")
	if err != nil {
		return term.Cannot(p.what(), err)
	}
	tree := files.NewTree(same, ".hostler-"+p.stage.Key())
	tree.Plain, tree.As = true, p.To.as
	if err := errors.Join(tree.Unpack(ctx, p.stage.Content()), tree.Close()); err != nil {
		switch {
		case ctx.Err() != nil:
			return term.Cannot(p.what(), ctx.Err())
		case files.Hostile(err):
			return errors.Join(&term.Failure{Code: term.ExitFailed, What: "cannot " + p.what(), Why: "the received data is refused: " + err.Error(), Next: "hostler action show " + final.ID}, p.stage.Restart())
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
