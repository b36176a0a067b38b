// Package transfer moves files to and from hosts and containers: hostler push and
// hostler pull, and the operations of that kind in a batch.
package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/files"
	"github.com/hostler-io/hostler/protocol"
)

// Files moves files.
type Files struct{ *dispatch.Dispatcher }

// New returns Files that asks d for what it needs.
func New(d *dispatch.Dispatcher) *Files { return &Files{d} }

// At sets the path, which is absolute.
func (p *RemotePath) At(s string) {
	p.Path = path.Clean(s)
	p.into = p.Path != "/" && strings.HasSuffix(s, "/")
}

// RemotePath is HOST[/NAME]:PATH, and NAME:PATH on the host itself.
type RemotePath struct {
	Host      protocol.HostID
	Container string // as it was typed, HOST/NAME; empty is the host itself
	Path      string // absolute, in its shortest form
	into      bool   // it ended in a slash: it is a directory
}

func (p RemotePath) String() string { return cmp.Or(p.Container, string(p.Host)) + ":" + p.Path }

// parseRemotePath reads a path on a host or in a container; on the host itself, in a
// container: NAME:PATH.
func parseRemotePath(s string, local bool) (p RemotePath, err error) {
	where, at, ok := strings.Cut(s, ":/")
	switch {
	case local && (!ok || where == ""):
		return p, fmt.Errorf("%q is not a path in a container: use NAME:/PATH, or cp for the files of this host", s)
	case !ok:
		return p, fmt.Errorf("%q is not a path on a host: use HOST:/PATH or HOST/NAME:/PATH", s)
	}
	p.At("/" + at)
	if local {
		_, err = conn.ParseRef(where, true)
		p.Container = where
		return p, err
	}
	if strings.Contains(where, "/") {
		r, err := conn.ParseRef(where, false)
		p.Host, p.Container = r.Host, where
		return p, err
	}
	p.Host, err = conn.ParseHost(where)
	return p, err
}

// transfer is what push and pull have in common.
type transfer struct {
	timeout        term.DurationFlag
	noWait, dryRun bool
	view           *show.View
}

func transferFlags(cmd *cobra.Command) *transfer {
	t := &transfer{timeout: term.LimitFlag(), view: show.FormatFlags(cmd)}
	cmd.Flags().Var(&t.timeout, "timeout", "give up after this time on the host, or none (default 1h)")
	cmd.Flags().BoolVar(&t.dryRun, "dry-run", false, "print what would be requested, and request nothing")
	return t
}

// spec makes the spec of a transfer.
func (a *Files) fileSpec(ctx context.Context, r *conn.Remote, t *transfer, where RemotePath, onHost, inContainer protocol.Kind, s protocol.Spec) (protocol.Spec, error) {
	switch {
	case t.timeout.None:
		s.SetTimeLimit(protocol.NoTimeout)
	case t.timeout.Value > 0:
		s.SetTimeLimit(max(t.timeout.Value.Milliseconds(), 1))
	}
	s.Kind = onHost
	if where.Container == "" {
		return s, nil
	}
	_, name, ct, err := a.FindContainer(ctx, where.Container)
	if err != nil {
		return s, term.Cannot("find container "+where.Container, err)
	}
	s.Kind, s.Target, s.Name = inContainer, ct, protocol.ContainerName(name.Name)
	return s, nil
}

// Push returns hostler push.
func (a *Files) Push() *cobra.Command {
	var mode, owner string
	var recursive bool
	cmd := &cobra.Command{
		Use: "push FILE… HOST[/NAME]:PATH", Short: "Copy files to a host, or into a container",
		Long: `Copies files to a host, or into a container that runs or is stopped. A file appears
whole or not at all, with its mode and its owner by number; a link at PATH is
replaced and not followed. If PATH is a directory, or there are several files, they
go into it. Data that was sent once is not sent again, also after a broken connection.
With --local, files go into containers of this machine, also without a coordinator.`,
		Example: `  hostler push motd edge-01:/etc/motd
  hostler push app.conf edge-01/web:/etc/app/ --owner app --mode 640
  hostler push -r site edge-01/web:/srv
  hostler --local push app.conf web:/etc/app/    # on the host itself`,
		Args: term.AtLeast(2), DisableFlagsInUseLine: true, ValidArgsFunction: a.CompletingPlaces(true),
	}
	t := transferFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&mode, "mode", "", "mode in octal, for one file (default: that of the file)")
	f.StringVar(&owner, "owner", "", "owner on the host, for one file: a name, or UID:GID (default: the numbers of the file)")
	f.BoolVarP(&recursive, "recursive", "r", false, "copy directories with everything in them")
	f.BoolVar(&t.noWait, "no-wait", false, "print the action's id and do not wait")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.Connect()
		if err != nil {
			return err
		}
		to, err := parseRemotePath(args[len(args)-1], r.Local)
		if err != nil {
			return term.Usage(cmd.UseLine(), "%s", err)
		}
		return a.push(cmd.Context(), r, t, args[:len(args)-1], to, protocol.FileArgs{Mode: mode, Owner: owner}, recursive)
	}
	return cmd
}

func (a *Files) push(ctx context.Context, r *conn.Remote, t *transfer, from []string, to RemotePath, f protocol.FileArgs, recursive bool) error {
	p, err := PreparePush(ctx, a.UI, from, to, &f, recursive)
	if err != nil {
		return err
	}
	defer p.Close()
	s := protocol.Spec{Args: &protocol.PushArgs{Files: &f}}
	p.Describe(&s)
	if s, err = a.fileSpec(ctx, r, t, to, protocol.KindHostPush, protocol.KindContainerPush, s); err != nil {
		return err
	}
	spec, err := dispatch.EncodeSpec(s)
	if err != nil {
		return err
	}
	if t.dryRun {
		return a.DryRun(ctx, r, t.view, dispatch.OnHosts(spec, to.Host)...)
	}
	what := "push to " + to.String()
	if err := dispatch.Refused(ctx, r, p, to.Host, spec); err != nil {
		return term.Cannot(what, err)
	}
	if err := p.Send(ctx, a.Dispatcher, r, what); err != nil {
		return err
	}
	act, err := a.Submit(ctx, r, to.Host, spec)
	if err != nil {
		return term.Cannot(what, err)
	}
	if t.noWait {
		return a.PrintID(t.view, act)
	}
	beside, said := &moveWords{to: a.Err}, &moveWords{to: a.Err}
	tick := a.Tick(to.String(), "")
	final, err := (&dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: to.String(), Stdout: beside, Stderr: said, Ticker: tick}).Wait(ctx, act)
	tick.End()
	beside.End()
	switch {
	case err == nil:
		return errors.Join(a.printEnd(t.view, final), said.reason(final, dispatch.Ended(what, final)))
	case !protocol.State(final.State).Final():
		said.End()
		a.Leave(act.ID)
		return term.Cannot(what, err)
	}
	said.End()
	a.Say("hostler: the messages of %s could not be read completely: %s; later: hostler action logs %s", to, term.Printable(err.Error()), act.ID)
	return dispatch.Ended(what, final)
}

// printEnd prints an action that has ended, if a form for programs was asked for.
func (a *Files) printEnd(v *show.View, final api.Action) error {
	if v.Format.Word == "table" || v.Format.Word == "wide" {
		return nil
	}
	return show.Print(a.UI, v, dispatch.ActionNoun(), []api.Action{final})
}

// moveWords are what the program that moves files on the host says. They are passed
// on line by line, but for the last: of a program that fails it is the reason.
type moveWords struct {
	to   io.Writer
	last []byte // the newest line, without its end
	over bool   // it has ended
}

// maxMoveLine is how much of a line is kept back.
const maxMoveLine = 64 << 10

func (m *moveWords) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if m.over || len(m.last)+len(line) > maxMoveLine {
			if err := m.pass(); err != nil {
				return 0, err
			}
		}
		m.last = append(m.last, bytes.TrimSuffix(line, []byte{'\n'})...)
		m.over = bytes.HasSuffix(line, []byte{'\n'})
	}
	return len(b), nil
}

// pass passes the line on that was kept back.
func (m *moveWords) pass() error {
	line := term.Printable(string(m.last)) + "\n"
	m.last, m.over = m.last[:0], false
	_, err := io.WriteString(m.to, line)
	return err
}

// End passes on what is left.
func (m *moveWords) End() {
	if len(m.last) > 0 {
		_ = m.pass() // who says it has no other way to say that it cannot
	}
}

// reason puts what the program has said last into the error that tells its end.
func (m *moveWords) reason(act api.Action, err error) error {
	f, ok := errors.AsType[*term.Failure](err)
	if !ok || len(m.last) == 0 || act.Reason != string(protocol.ReasonExit) {
		m.End()
		return err
	}
	f.Why = strings.TrimPrefix(string(m.last), "hostler-agent: ")
	if act.Exit != nil && act.Exit.Code == protocol.ExitAbsent && strings.HasSuffix(act.Kind, ".pull") {
		f.Code = term.ExitNotFound
	}
	return f
}

// PreparePush makes the payload of a push: the file itself, or an archive.
func PreparePush(ctx context.Context, a *term.UI, from []string, to RemotePath, f *protocol.FileArgs, recursive bool) (*dispatch.Payload, error) {
	f.Paths = []string{to.Path}
	first, err := os.Stat(from[0])
	if err != nil {
		return nil, &term.Failure{Code: term.ExitNotFound, What: "cannot read " + from[0], Why: err.Error()}
	}
	if len(from) == 1 && !first.IsDir() {
		return pushOne(a, from[0], first, to, f)
	}
	if f.Mode != "" || f.Owner != "" {
		return nil, term.Usage("", "--mode and --owner are for one file; with several, each keeps its own")
	}
	if err := leaveApart(from); err != nil {
		return nil, err
	}
	f.Archive = true
	out, err := os.CreateTemp("", "hostler-push-")
	if err != nil {
		return nil, err
	}
	var left []string
	bar := a.Progress("packing "+term.Printable(from[0]), 0)
	defer bar.End()
	p := files.NewPacker(bar.Writer(out))
	p.Skipped = func(name string, why error) { left = append(left, fmt.Sprintf("%s: %v", name, why)) }
	for _, name := range from {
		if err = packLocal(ctx, p, name, recursive); err != nil {
			break
		}
	}
	err = errors.Join(err, p.Close(), os.Remove(out.Name()))
	if err == nil && len(left) > 0 {
		err = &term.Failure{Code: term.ExitFailed, What: "cannot push everything, so nothing is pushed", Why: strings.Join(left, "; "), Next: "leave them out, or copy the files that they point to"}
	}
	if err != nil {
		_ = out.Close() // it has no name any more
		return nil, err
	}
	return dispatch.NewPayload(a, out, "the archive")
}

func pushOne(a *term.UI, name string, i fs.FileInfo, to RemotePath, f *protocol.FileArgs) (*dispatch.Payload, error) {
	if !i.Mode().IsRegular() {
		return nil, &term.Failure{Code: term.ExitFailed, What: "cannot push " + name, Why: files.ErrSpecial.Error()}
	}
	base := filepath.Base(name)
	if to.into || to.Path == "/" {
		f.Paths = []string{path.Join(to.Path, base)}
	} else {
		f.Name = base
	}
	if f.Mode == "" {
		f.Mode = fmt.Sprintf("%04o", files.UnixOf(i.Mode()))
	}
	if st, ok := i.Sys().(*syscall.Stat_t); ok && f.Owner == "" {
		f.Owner = fmt.Sprintf("%d:%d", st.Uid, st.Gid)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, &term.Failure{Code: term.ExitFailed, What: "cannot read " + name, Why: err.Error()}
	}
	return dispatch.NewPayload(a, file, name)
}

// leaveApart refuses files of which one would replace another in the archive.
func leaveApart(from []string) error {
	first := make(map[string]string)
	for _, name := range from {
		abs, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		base := filepath.Base(abs)
		if other, ok := first[base]; ok {
			return term.Usage("push each into a directory of its own", "%s and %s would both become %s", other, name, base)
		}
		first[base] = name
	}
	return nil
}

// packLocal adds a file or a directory of this machine.
func packLocal(ctx context.Context, p *files.Packer, name string, recursive bool) error {
	i, err := os.Stat(name)
	if err != nil {
		return &term.Failure{Code: term.ExitNotFound, What: "cannot read " + name, Why: err.Error()}
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	if i.IsDir() {
		if !recursive {
			return term.Usage("hostler push -r …", "%s is a directory", name)
		}
		root, err := os.OpenRoot(name)
		if err != nil {
			return err
		}
		defer root.Close()
		return p.Dir(ctx, filepath.Base(abs), root)
	}
	if !i.Mode().IsRegular() {
		return &term.Failure{Code: term.ExitFailed, What: "cannot push " + name, Why: files.ErrSpecial.Error()}
	}
	f, err := os.Open(name)
	if err != nil {
		return &term.Failure{Code: term.ExitFailed, What: "cannot read " + name, Why: err.Error()}
	}
	defer f.Close()
	return p.File(ctx, filepath.Base(abs), f)
}
