package hostcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/protocol"
)

// imageOption is what the agent tells its own command about images. Podman is the socket
// of its service; empty is none.
type imageOption struct {
	ImageSetup
	Podman string
}

// imagePrinters are the commands of the kinds about images.
func (h Host) imagePrinters(runtimes []container.Runtime) (map[protocol.Kind][]string, error) {
	o := imageOption{ImageSetup: ImageSetup{MaxBytes: h.Images.MaxBytes}}
	for _, r := range runtimes {
		switch r.Kind() {
		case container.KindLXC:
			o.ImageSetup = h.Images
		case container.KindPodman:
			o.Podman = h.Podman
		}
	}
	if o.Dir == "" && o.Podman == "" {
		return nil, nil
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	all := make(map[protocol.Kind][]string)
	for kind, verb := range map[protocol.Kind]string{
		protocol.KindImageList: "ls", protocol.KindImagePull: "pull", protocol.KindImageRemove: "rm", protocol.KindImagePrune: "prune",
		protocol.KindImageExport: "export", protocol.KindImageImport: "import", protocol.KindImageImportUnsigned: "import-unsigned",
	} {
		all[kind] = []string{"images", verb, "--setup=" + string(raw)}
		if slices.Contains(archiving, verb) {
			all[kind] = append(all[kind], "--state-dir="+h.State)
		}
	}
	return all, nil
}

// archiving are the commands that need the keys of the host: they sign archives, or verify
// them. It is never written.
var archiving = []string{"export", "import", "import-unsigned"}

// images is the images of a host for one command. A runtime that the host does not have,
// or that was not asked for, is nil.
type images struct {
	lxc    *image.Store
	podman *podman.Runtime
	max    int64 // bytes of an image
	raw    io.Writer
	out    *json.Encoder
	notes  io.Writer

	signing Signing
}

// imageOptions are what the kinds say.
type imageOptions struct {
	setup, state, image, runtime string
	older                        time.Duration
	keep                         int64
}

// imagesCommand is run by the agent itself, under a supervisor.
func (c Config) imagesCommand() *cobra.Command {
	cmd := daemon.Group("images", "For the agent alone", "images needs ls, pull, export, import, rm or prune")
	cmd.Hidden = true
	for verb, do := range map[string]func(context.Context, *images, imageOptions) error{
		"ls": listImages, "pull": pullImage, "rm": removeImage, "prune": pruneImages,
		"export": exportImage, "import": importImage, "import-unsigned": importImage,
	} {
		var o imageOptions
		sub := &cobra.Command{
			Use: verb, Short: "For the agent alone", Hidden: true, Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				i, err := c.openImages(o)
				if err != nil {
					return err
				}
				i.raw, i.notes = cmd.OutOrStdout(), cmd.ErrOrStderr()
				i.out = json.NewEncoder(i.raw)
				if slices.Contains(archiving, verb) {
					if i.signing, err = c.Signing(o.state); err != nil {
						return err
					}
				}
				return do(cmd.Context(), i, o)
			},
		}
		f := sub.Flags()
		f.StringVar(&o.setup, "setup", "", "where images are, as JSON")
		if slices.Contains(archiving, verb) {
			f.StringVar(&o.state, "state-dir", "", "the agent's directory, where the keys are")
		}
		f.StringVar(&o.image, "image", "", "the image")
		f.StringVar(&o.runtime, "runtime", "", "lxc or podman")
		f.DurationVar(&o.older, "older", 0, "not used for longer")
		f.Int64Var(&o.keep, "keep", 0, "bytes that stay")
		cmd.AddCommand(sub)
	}
	return cmd
}

func (c Config) openImages(o imageOptions) (i *images, err error) {
	var s imageOption
	if err := json.Unmarshal([]byte(o.setup), &s); err != nil {
		return nil, daemon.Usage(err)
	}
	i = &images{max: s.MaxBytes}
	if s.Dir != "" && o.runtime != string(container.KindPodman) {
		if i.lxc, err = image.Open(image.Config{Dir: s.Dir, Registries: s.Registries, MaxBytes: s.MaxBytes}); err != nil {
			return nil, err
		}
	}
	if s.Podman != "" && o.runtime != string(container.KindLXC) {
		if i.podman, err = c.Podman(s.Podman); err != nil {
			return nil, err
		}
	}
	if i.lxc == nil && i.podman == nil {
		return nil, fmt.Errorf("this host has no %s", o.runtime)
	}
	return i, nil
}

func ofStore(r image.Record) api.Image {
	i := api.Image{Runtime: string(container.KindLXC), Reference: r.Reference, Digest: r.Digest, Bytes: r.Bytes}
	if !r.Used.IsZero() {
		i.UsedMS = r.Used.UnixMilli()
	}
	return i
}

func ofPodman(p podman.Image, reference string) api.Image {
	return api.Image{Runtime: string(container.KindPodman), Reference: reference, Digest: p.Digest, Bytes: p.Bytes}
}

func listImages(ctx context.Context, i *images, _ imageOptions) error {
	if i.lxc != nil {
		all, err := i.lxc.List()
		if err != nil {
			return err
		}
		for _, r := range all {
			if err := i.out.Encode(ofStore(r)); err != nil {
				return err
			}
		}
	}
	if i.podman == nil {
		return nil
	}
	all, err := i.podman.Images().List(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		for _, name := range referencesOf(p) {
			if err := i.out.Encode(ofPodman(p, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// referencesOf are the names of an image of podman, one at least.
func referencesOf(p podman.Image) []string {
	if len(p.References) == 0 {
		return []string{""}
	}
	return p.References
}

func pullImage(ctx context.Context, i *images, o imageOptions) error {
	lxcAlone := !container.IsOCI(o.image) && !container.IsWord(o.image)
	if i.podman == nil || i.lxc != nil && lxcAlone {
		r, err := i.lxc.Pull(ctx, o.image, func(s string) { fmt.Fprintln(i.notes, s) })
		if err != nil {
			return err
		}
		r.Used = time.Now()
		return i.out.Encode(ofStore(r))
	}
	if err := i.podman.Images().Pull(ctx, o.image); err != nil {
		return err
	}
	all, err := i.podman.Images().List(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		for _, name := range p.References {
			if name == o.image {
				return i.out.Encode(ofPodman(p, name))
			}
		}
	}
	return i.out.Encode(api.Image{Runtime: string(container.KindPodman), Reference: o.image}) // podman calls it otherwise
}

func removeImage(ctx context.Context, i *images, o imageOptions) error {
	found := false
	if i.lxc != nil {
		freed, err := i.lxc.Remove(ctx, o.image)
		if err != nil && !errors.Is(err, image.ErrNotFound) {
			return err
		}
		if err == nil {
			found = true
			if err := i.out.Encode(api.Image{Runtime: string(container.KindLXC), Reference: o.image, Bytes: freed}); err != nil {
				return err
			}
		}
	}
	if i.podman != nil {
		err := i.podman.Images().Remove(ctx, o.image)
		if err != nil && !errors.Is(err, container.ErrNotFound) {
			return fmt.Errorf("removing %s from podman: %w", o.image, err)
		}
		if err == nil {
			found = true
			if err := i.out.Encode(api.Image{Runtime: string(container.KindPodman), Reference: o.image}); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("%w: %s", image.ErrNotFound, o.image)
	}
	return nil
}

func pruneImages(ctx context.Context, i *images, o imageOptions) error {
	if o.keep > 0 && i.podman != nil {
		if o.runtime == string(container.KindPodman) {
			return errors.New("podman does not record when an image was last used, so their number cannot be limited; give an age instead")
		}
		fmt.Fprintln(i.notes, "how much stays is for lxc alone; images of podman are left alone")
		i.podman = nil
	}
	if i.lxc != nil {
		gone, freed, err := i.lxc.Prune(ctx, image.Limits{Age: o.older, Bytes: o.keep})
		for _, r := range gone {
			err = cmp.Or(err, i.out.Encode(ofStore(r)))
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(i.notes, "lxc: %d images removed, %d MiB freed\n", len(gone), freed>>20)
	}
	if i.podman == nil {
		return nil
	}
	freed, err := i.podman.Images().Prune(ctx, o.older)
	if err != nil {
		return err
	}
	fmt.Fprintf(i.notes, "podman: %d MiB freed\n", freed>>20)
	return nil
}
