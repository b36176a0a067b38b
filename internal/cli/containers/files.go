package containers

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/manifest"
	"github.com/hostler-io/hostler/protocol"
)

// readSources reads what the files of containers are to hold, and checks that hosts take
// them. Sources are relative to a directory.
func readSources(dir string, all []manifest.Container) error {
	read := make(map[string]*string)
	for _, c := range all {
		sum := 0
		for i := range c.Files {
			f := &c.Files[i]
			if f.Source != nil {
				at := *f.Source
				if !filepath.IsAbs(at) {
					at = filepath.Join(dir, at)
				}
				if read[at] == nil {
					text, err := readSource(at)
					if err != nil {
						return fmt.Errorf("%s: file %s: %w", c.Where(), f.Path, err)
					}
					read[at] = &text
				}
				f.Content, f.Source = read[at], nil
			}
			sum += len(*f.Content)
			if _, err := dispatch.EncodeSpec(pushOf(*f, protocol.NewCTID(1, [10]byte{1}), protocol.ContainerName(c.Name))); err != nil {
				return fmt.Errorf("%s: file %q: %w", c.Where(), f.Path, err)
			}
		}
		if sum > manifest.MaxFilesSum {
			return fmt.Errorf("%s: its files have %s, at most %s are taken: hostler push brings more", c.Where(), term.Size(int64(sum)), term.Size(manifest.MaxFilesSum))
		}
	}
	return nil
}

// readSource reads a file of this machine, which is not too large.
func readSource(at string) (string, error) {
	i, err := os.Stat(at) // to open a pipe would wait
	if err != nil {
		return "", err
	}
	if !i.Mode().IsRegular() {
		return "", fmt.Errorf("source %s is not a file", at)
	}
	f, err := os.Open(at)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, manifest.MaxFileBytes+1))
	if err == nil && len(b) > manifest.MaxFileBytes {
		err = fmt.Errorf("source %s has more than %s: hostler push brings larger files", at, term.Size(manifest.MaxFileBytes))
	}
	return string(b), err
}

// pushOf brings a file into a container.
func pushOf(f manifest.File, id protocol.CTID, name protocol.ContainerName) protocol.Spec {
	mode, uid, gid, _ := f.Unix() // the manifest was checked
	args := &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{f.Path}, Mode: fmt.Sprintf("%04o", mode)}}
	if uid != 0 || gid != 0 {
		args.Files.Owner = fmt.Sprintf("%d:%d", uid, gid)
	}
	s := protocol.Spec{Kind: protocol.KindContainerPush, Target: id, Name: name, Args: args}
	if n := len(*f.Content); n > 0 {
		s.SetInput(protocol.Sum([]byte(*f.Content)), int64(n))
	}
	return s
}

// write plans that files are written into the container.
func (p *planned) write(id protocol.CTID, files []manifest.File) {
	p.inputs = make(map[protocol.Digest]string)
	for _, f := range files {
		p.todo = append(p.todo, pushOf(f, id, protocol.ContainerName(p.Name)))
		p.inputs[protocol.Sum([]byte(*f.Content))] = *f.Content
		p.Details = append(p.Details, "file="+f.Path)
	}
}

// create plans a new container: it is started when its files are there.
func (p *planned) create(w manifest.Shape, id protocol.CTID) {
	args, name := w.Create(), protocol.ContainerName(p.Name)
	start := args.Start && len(w.Files) > 0
	if start {
		args.Start = false
	}
	p.Plan = planCreate
	p.todo = []protocol.Spec{{Kind: protocol.KindCreate, Target: id, Name: name, Args: &args}}
	p.write(id, w.Files)
	if start {
		p.todo = append(p.todo, protocol.Spec{Kind: protocol.KindStart, Target: id, Name: name})
	}
}

// send brings the input of a step to where its host fetches it, unless it is there.
func send(ctx context.Context, a *commands, r *conn.Remote, p planned, s protocol.Spec) error {
	if !s.HasPayload() {
		return nil
	}
	payload, err := dispatch.PayloadOf(a.UI, p.inputs[s.Input().StdinSHA256], s.Files().Paths[0])
	if err != nil {
		return err
	}
	defer payload.Close()
	return payload.Send(ctx, a.Dispatcher, r, "write "+s.Files().Paths[0]+" into "+p.where())
}

// filesDiffer are those of the files that a container has otherwise, or has not. They are
// asked for at once; one after the other if that does not tell, as when one is missing.
func filesDiffer(ctx context.Context, a *commands, r *conn.Remote, at conn.Ref, id protocol.CTID, wanted []manifest.File) (differ []manifest.File, err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	archive, err := pullFiles(ctx, a, r, at, id, wanted)
	if err == nil {
		differ, err = compareFiles(archive, wanted)
	}
	switch {
	case len(wanted) == 1 && (errors.Is(err, errAbsent) || errors.Is(err, errLonger)):
		return wanted, nil
	case len(wanted) == 1 || err == nil || ctx.Err() != nil:
		return differ, err
	}
	for i := range wanted {
		one, err := filesDiffer(ctx, a, r, at, id, wanted[i:i+1])
		if err != nil {
			return nil, err
		}
		differ = append(differ, one...)
	}
	return differ, nil
}

var (
	errAbsent = errors.New("it is not there")
	errLonger = errors.New("it is longer than it is to be")
)

// compareFiles returns the files that an archive, which a container may have made up, has
// otherwise.
func compareFiles(archive []byte, wanted []manifest.File) (differ []manifest.File, err error) {
	in := tar.NewReader(bytes.NewReader(archive))
	for _, f := range wanted {
		h, err := in.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, dispatch.ErrAnswer)
		}
		if h.Typeflag != tar.TypeReg || h.Name != path.Base(f.Path) {
			return nil, &term.Failure{Code: term.ExitFailed, What: "cannot compare " + f.Path, Why: "in the container it is not a file"}
		}
		mode, uid, gid, _ := f.Unix() // the manifest was checked
		has, err := io.ReadAll(io.LimitReader(in, int64(len(*f.Content))+1))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, dispatch.ErrAnswer)
		}
		if string(has) != *f.Content || h.Mode&0o7777 != int64(mode) || h.Uid != int(uid) || h.Gid != int(gid) {
			differ = append(differ, f)
		}
	}
	return differ, nil
}

// beside is how much more than its content the archive has for a file, with its name and the
// end of the archive, in bytes.
const beside = 16 << 10

// pullFiles asks for files of a container, as an archive. It takes no more than there is if
// all of them are as they are to be: [errLonger].
func pullFiles(ctx context.Context, a *commands, r *conn.Remote, at conn.Ref, id protocol.CTID, wanted []manifest.File) ([]byte, error) {
	what, most := "compare the files of "+at.String(), beside
	var paths []string
	for _, f := range wanted {
		paths, most = append(paths, f.Path), most+len(*f.Content)+beside
	}
	spec, err := dispatch.EncodeSpec(protocol.Spec{Kind: protocol.KindContainerPull, Target: id, Name: protocol.ContainerName(at.Name),
		Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: paths}, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}})
	if err != nil {
		return nil, err
	}
	act, err := a.Submit(ctx, r, at.Host, spec)
	if err != nil {
		return nil, term.Cannot(what, err)
	}
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, said := &bounded{most: most, full: func() { stop(errLonger) }}, &bounded{most: beside, full: func() {}}
	tick := a.Tick(at.String(), "")
	final, err := (&dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: at.String(), Stdout: out, Stderr: said, Hold: true, Whole: true, Ticker: tick}).Wait(within, act)
	tick.End()
	switch {
	case out.over:
		return nil, cmp.Or(a.Abandon(ctx, r, act.ID), errLonger)
	case err != nil:
		return nil, errors.Join(term.Cannot(what, err), a.Abandon(ctx, r, act.ID))
	case final.Exit != nil && final.Exit.Code == protocol.ExitAbsent:
		return nil, errAbsent
	}
	err = dispatch.Ended(what, final)
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if f, ok := errors.AsType[*term.Failure](err); ok && final.Reason == string(protocol.ReasonExit) && lines[len(lines)-1] != "" {
		f.Why = strings.TrimPrefix(lines[len(lines)-1], "hostler-agent: ")
	}
	return out.Bytes(), err
}

// bounded keeps the beginning of what it is given, and tells when there is more.
type bounded struct {
	bytes.Buffer
	most int
	over bool
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); len(p) > room {
		b.Buffer.Write(p[:room]) // it never fails
		b.over = true
		b.full()
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
