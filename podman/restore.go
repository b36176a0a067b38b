package podman

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/tree"
)

// emptyImage is below the files of restored containers, which are all their own.
const emptyImage = "localhost/hostler-empty:1"

// empty sees to it that podman has an image without files.
func (i Images) empty(ctx context.Context) error {
	err := i.api.call(ctx, http.MethodGet, "/images/"+emptyImage+"/exists", nil, nil, nil)
	if !errors.Is(err, container.ErrNotFound) {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}), w.Close()); err != nil {
		return err
	}
	return i.api.call(ctx, http.MethodPost, "/images/import", url.Values{"reference": {emptyImage}}, &b, nil)
}

// restore makes a container of files that are on this host. They are unpacked beside the
// layer of the container and take its place, so that what is cut short is begun anew. The
// container does not run yet.
func restore(ctx context.Context, r *Runtime, spec container.CreateSpec) error {
	if err := r.Images().empty(ctx); err != nil {
		return fmt.Errorf("the image below a restored container: %w", err)
	}
	if err := r.make(ctx, spec, emptyImage); err != nil {
		return err
	}
	made, err := r.stopped(ctx, spec.Name)
	if err != nil {
		return err
	}
	into, err := made.GraphDriver.snapshots()
	if err != nil {
		return err
	}
	ids, err := made.ids()
	if err != nil {
		return err
	}
	if !spec.Image.Copy {
		err := into.Take(ctx, spec.Image.Snapshots, func(to string, files container.Layer) error {
			if err := tree.Make(to, 0o755); err != nil {
				return err
			}
			return rootfs.Unpack(to, []container.Layer{files}, ids)
		})
		if err != nil {
			return fmt.Errorf("image %s: %w", spec.Image.Reference, err)
		}
	}
	return into.Exchange(func(dir string) error {
		if err := rootfs.Unpack(dir, spec.Image.Layers, ids); err != nil {
			return fmt.Errorf("image %s: %w", spec.Image.Reference, err)
		}
		if !spec.Image.Copy {
			return nil
		}
		return rootfs.Renew(dir)
	})
}

// runs has a container run what its backup says.
func (s *specification) runs(img *container.Image) {
	s.Entrypoint, s.Command, s.User, s.WorkDir, s.StopSignal = img.Entrypoint, img.Cmd, img.User, img.WorkingDir, signal(img.StopSignal)
	for _, e := range img.Env {
		name, value, _ := strings.Cut(e, "=")
		if s.Env == nil {
			s.Env = make(map[string]string)
		}
		s.Env[name] = value
	}
}

// signal reads the name or the number of a signal; nil if it is none.
func signal(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil {
		n = int(unix.SignalNum("SIG" + strings.TrimPrefix(text, "SIG")))
	}
	if n <= 0 || n > 64 {
		return nil
	}
	return &n
}

// ids are those of the users of a container of ours.
func (d details) ids() (container.IDRange, error) {
	first, err := firstID(d.Config.Labels)
	if err != nil || first == 0 {
		return container.IDRange{}, err
	}
	return container.IDRange{First: first, Count: idsEach}, nil
}

// ofPodman are the variables that podman gives each container by itself, or each start.
var ofPodman = []string{"container", "HOME", "HOSTNAME", "TERM", container.EpochVariable}

// describe is what runs in a container, and how, as an image says it.
func (d details) describe() container.Image {
	img := container.Image{Entrypoint: d.Args, User: d.Config.User, WorkingDir: d.Config.WorkingDir, StopSignal: strings.Trim(string(d.Config.StopSignal), `"`)}
	if d.Path != "" {
		img.Entrypoint = slices.Insert(slices.Clone(d.Args), 0, d.Path)
	}
	for _, e := range d.Config.Env {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(ofPodman, name) {
			img.Env = append(img.Env, e)
		}
	}
	return img
}

// WithTree calls do with the root directory of a container of ours, the ids of its users
// and what runs in it. The directory is mounted meanwhile, whether or not the container
// runs, and it is that of podman's storage: the container does not decide what it is.
func WithTree(ctx context.Context, r *Runtime, name string, do func(root string, ids container.IDRange, img container.Image) error) error {
	return r.do(ctx, "mount", name, createTime, func(ctx context.Context) (err error) {
		d, err := r.inspect(ctx, name)
		if err == nil && d.ctid() == "" {
			err = fmt.Errorf("%w: %s was not made by Hostler", container.ErrUnsupported, name)
		}
		if err != nil {
			return err
		}
		ids, err := d.ids()
		if err != nil {
			return err
		}
		said, err := r.api.open(ctx, http.MethodPost, "/containers/"+d.ID+"/mount", nil, nil)
		if err != nil {
			return err
		}
		path, err := io.ReadAll(io.LimitReader(said, syscall.PathMax))
		if err := errors.Join(err, said.Close()); err != nil {
			return r.api.explain(ctx, err)
		}
		root := strings.TrimSpace(string(path))
		defer func() { err = errors.Join(err, r.post(context.WithoutCancel(ctx), d.ID, "unmount", nil)) }()
		var s syscall.Statfs_t
		if err := syscall.Statfs(root, &s); err != nil {
			return fmt.Errorf("the files of the container are not to be seen from here: %w", err)
		}
		if s.Type != unix.OVERLAYFS_SUPER_MAGIC {
			return fmt.Errorf("%w: the root directory of the container is not in podman's overlay storage", container.ErrUnsupported)
		}
		return do(root, ids, d.describe())
	})
}
