package images

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/hostcmd"
)

func (a *commands) exportCommand() *cobra.Command {
	var runtime string
	cmd := &cobra.Command{
		Use: "export [HOST] IMAGE FILE|-", Short: "Write an image of a host into a signed archive", Args: term.AtMost(3),
		Long: `Writes an image with all its layers into one file, or to standard output with -. It is
an OCI layout in a tar archive, which podman and skopeo read, and behind it a manifest
that the key of the host signs: the SHA-256 of every part, what the image was made
from, its architecture, and which host has made the archive.

An image that was made of a container holds all files of it. So policies count
image.export as root of the host.

FILE appears when all of it has arrived.`,
		Example: "  hostler image export edge-01 localhost/web:1.2 web.image\n  hostler image export edge-01 localhost/web:1.2 - | ssh other 'cat > web.image'", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	runtimeFlag(cmd, &runtime, "lxc or podman (default the one that has the image)")
	cmd.RunE = a.OnHost(2, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, rest []string) error {
		what := "export " + rest[0]
		if rest[1] == "-" {
			return a.export(cmd.Context(), r, host, what, rest[0], runtime, a.Out)
		}
		f, err := os.CreateTemp(filepath.Dir(rest[1]), ".hostler-export-")
		if err != nil {
			return term.Cannot(what, err)
		}
		err = a.export(cmd.Context(), r, host, what, rest[0], runtime, f)
		if err == nil {
			err = term.Cannot(what, errors.Join(f.Chmod(0o644), f.Sync(), f.Close(), os.Rename(f.Name(), rest[1])))
		}
		if err != nil {
			_ = f.Close() // what it held is of no use
			_ = os.Remove(f.Name())
		}
		return err
	})
	return cmd
}

// export has a host write an archive, all of which comes or there is an error.
func (a *commands) export(ctx context.Context, r *conn.Remote, host protocol.HostID, what, image, runtime string, to io.Writer) error {
	args := &protocol.ImageExportArgs{ImageRemove: hostcmd.ImageRemove{Image: image, Runtime: runtime}, OutputOption: stream()}
	spec, err := dispatch.EncodeSpec(protocol.Spec{Kind: protocol.KindImageExport, Args: args})
	if err != nil {
		return err
	}
	act, err := a.Submit(ctx, r, host, spec)
	if err != nil {
		return term.Cannot(what, err)
	}
	bar := a.Progress("receiving "+term.Printable(image), 0)
	defer bar.End()
	final, err := (&dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: image, Stdout: bar.Writer(to), Stderr: a.Err, Hold: true, Whole: true}).Wait(ctx, act)
	if err != nil {
		return errors.Join(term.Cannot(what, err), a.Abandon(context.WithoutCancel(ctx), r, act.ID))
	}
	return dispatch.Ended(what, final)
}

// importing is how an archive is taken.
type importing struct {
	runtime, name string
	unsigned      bool
}

func (a *commands) importCommand() *cobra.Command {
	var o importing
	cmd := &cobra.Command{
		Use: "import FILE|- HOST…", Short: "Bring an image to hosts from an archive", Args: term.AtLeast(1),
		Long: `Brings an image to hosts from an archive that hostler image export wrote. Each host
verifies all of it before it writes anything: that a host of its fleet has signed the
manifest, or the host itself, the SHA-256 of every part, and that every layer can be
unpacked safely. An archive that was cut short, changed or made for another
architecture is refused.

An archive of which nothing shows who made it, such as an OCI layout of another tool, is
taken with --allow-unsigned, and only by a name that --name gives it: what it calls
itself is not believed. Policies name that image.import-unsigned, and it counts as root
of the host.

With --local the host of this machine takes the archive, also without a coordinator.`,
		Example: "  hostler image import web.image edge-02 edge-03\n  hostler image import layout.tar edge-02 --allow-unsigned --name debian:12\n  hostler --local image import web.image", ValidArgsFunction: a.CompletingPlaces(true),
	}
	c := dispatch.ChangeFlags(cmd)
	runtimeFlag(cmd, &o.runtime, "for lxc or podman (default as it was exported)")
	cmd.Flags().StringVar(&o.name, "name", "", "what an unsigned image is called, behind localhost/")
	cmd.Flags().BoolVar(&o.unsigned, "allow-unsigned", false, "take it without a known signature")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n := data.NewImage{Image: o.name}
		switch err := n.Check(); {
		case err != nil:
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		case o.unsigned != (o.name != ""):
			return term.Usage(cmd.CommandPath()+" --help", "--allow-unsigned and --name NAME[:VERSION] belong together")
		}
		r, err := a.Connect()
		if err != nil {
			return err
		}
		hosts, err := importers(cmd, r, args[1:])
		if err != nil {
			return err
		}
		from := dispatch.StdinFlags{Path: args[0]}
		p, err := from.Open(a.Dispatcher)
		if err != nil {
			return err
		}
		defer p.Close()
		return a.importTo(cmd, c, r, o, p, hosts)
	}
	return cmd
}

// importers are the hosts that are to take an archive.
func importers(cmd *cobra.Command, r *conn.Remote, args []string) (hosts []protocol.HostID, err error) {
	switch {
	case r.Local && len(args) > 0:
		return nil, term.Usage(cmd.CommandPath()+" --help", "with --local, leave out the names of hosts")
	case r.Local:
		return []protocol.HostID{""}, nil
	case len(args) == 0:
		return nil, term.Usage(cmd.CommandPath()+" --help", "name the hosts that take the image")
	}
	for _, arg := range args {
		host, err := conn.ParseHost(arg)
		if err != nil {
			return nil, term.Usage("hostler host ls", "%s", err)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// importTo brings an archive to hosts. That one refuses it keeps it from no other.
func (a *commands) importTo(cmd *cobra.Command, c *dispatch.Change, r *conn.Remote, o importing, p *dispatch.Payload, hosts []protocol.HostID) (err error) {
	s := protocol.Spec{Kind: protocol.KindImageImport, Args: &protocol.ImageImportArgs{ImageImport: hostcmd.ImageImport{Runtime: o.runtime}, OutputOption: c.AnswerMode()}}
	if o.unsigned {
		s = protocol.Spec{Kind: protocol.KindImageImportUnsigned, Args: &protocol.ImageImportUnsignedArgs{
			ImageImportUnsigned: hostcmd.ImageImportUnsigned{NewImage: data.NewImage{Image: o.name}, Runtime: o.runtime}, OutputOption: c.AnswerMode()}}
	}
	p.Describe(&s)
	for n, host := range hosts {
		what := "import the image"
		if host != "" {
			what += " on " + string(host)
		}
		if n == 0 && !c.DryRun {
			if err := p.Send(cmd.Context(), a.Dispatcher, r, what); err != nil {
				return err
			}
		}
		err = errors.Join(err, a.change(cmd, c, r, host, what, s))
	}
	return err
}

func (a *commands) copyCommand() *cobra.Command {
	var runtime string
	cmd := &cobra.Command{
		Use: "copy HOST IMAGE TO-HOST…", Short: "Bring an image of a host to other hosts", Args: term.AtLeast(3),
		Long: `Brings an image from a host to others, as export and import do: through the
coordinator, in an archive that the first host signs and the others verify.`,
		Example: "  hostler image copy edge-01 localhost/web:1.2 edge-02 edge-03", ValidArgsFunction: a.CompletingAll(conn.HostNames),
	}
	c := dispatch.ChangeFlags(cmd)
	runtimeFlag(cmd, &runtime, "lxc or podman (default the one that has the image)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var hosts []protocol.HostID
		for _, arg := range append(args[:1:1], args[2:]...) {
			host, err := conn.ParseHost(arg)
			if err != nil {
				return term.Usage("hostler host ls", "%s", err)
			}
			hosts = append(hosts, host)
		}
		r, err := a.Connect()
		if err != nil {
			return err
		}
		what := "copy " + args[1]
		f, err := os.CreateTemp("", "hostler-image-")
		if err == nil {
			err = os.Remove(f.Name()) // nobody else is to find it
		}
		if err != nil {
			return &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: err.Error(), Next: "set TMPDIR to a directory with more room"}
		}
		if err := a.export(cmd.Context(), r, hosts[0], what, args[1], runtime, f); err != nil {
			return errors.Join(err, f.Close())
		}
		p, err := dispatch.NewPayload(a.UI, f, "the archive")
		if err != nil {
			return err
		}
		defer p.Close()
		return a.importTo(cmd, c, r, importing{runtime: runtime}, p, hosts[1:])
	}
	return cmd
}
