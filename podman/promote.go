package podman

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/failpoint"
)

// promoting is what a runtime does to make images of containers.
type promoting struct{ r *Runtime }

var _ container.Promoter = (*Runtime)(nil)

// The labels of an image that was made of a container.
const (
	labelKey  = "hostler.promoted" // the key of the action that made it
	labelKept = "hostler.kept"     // how its container was kept, in base64
)

// imageDetails is an image as podman has it on request.
type imageDetails struct {
	ID     string `json:"Id"`
	Digest string
	Size   int64
	Labels map[string]string
	Config struct {
		Entrypoint, Cmd, Env         []string
		User, WorkingDir, StopSignal string
	}
}

// named returns an image that is there.
func (i Images) named(ctx context.Context, reference string) (d imageDetails, err error) {
	if !container.IsOCI(reference) {
		return d, fmt.Errorf("%w: podman has no image %s", container.ErrNotFound, reference)
	}
	err = i.api.call(ctx, http.MethodGet, "/images/"+reference+"/json", nil, nil, &d)
	if errors.Is(err, container.ErrNotFound) {
		err = fmt.Errorf("%w: podman has no image %s", container.ErrNotFound, reference)
	}
	return d, err
}

// Promote implements container.Promoter. Podman's own commit writes the owners of files as
// the host has them where layers are mapped by the kernel; so the files are packed here,
// with the owners that the container sees, and imported as one layer.
func (i promoting) Promote(ctx context.Context, name string, p container.Promotion) error {
	r := i.r
	return r.change(ctx, "promote", name, createTime, func(ctx context.Context) error {
		d, err := ours(ctx, r, name)
		if err != nil {
			return err
		}
		switch there, err := r.Images().named(ctx, p.Reference); {
		case err == nil && p.Key != "" && there.Labels[labelKey] == p.Key:
			return nil
		case err == nil:
			return fmt.Errorf("%w: podman has an image %s already; choose another version, or remove it: hostler image rm", container.ErrExists, p.Reference)
		case !errors.Is(err, container.ErrNotFound):
			return err
		}
		changes, err := i.changes(ctx, d)
		if err != nil {
			return err
		}
		changes = append(changes, "LABEL "+labelKey+"="+p.Key, "LABEL "+labelKept+"="+base64.RawURLEncoding.EncodeToString(p.Kept))
		failpoint.Before(failpoint.ImageMade)
		err = i.packed(ctx, name, d, func(files io.Reader) error {
			return r.api.call(ctx, http.MethodPost, "/images/import", url.Values{"reference": {p.Reference}, "changes": changes, "message": {"hostler image promote"}}, files, nil)
		})
		failpoint.After(failpoint.ImageMade)
		return err
	})
}

// packed has take read an archive of the files of a container. They are those of podman's
// storage: the first process may have another root, and what the container has mounted is not
// followed.
func (i promoting) packed(ctx context.Context, name string, d details, take func(io.Reader) error) error {
	err := WithTree(ctx, i.r, name, func(root string, ids container.IDRange, _ container.Image) error {
		read, write := io.Pipe()
		packed := make(chan error, 1)
		go func() { // waited for below
			_, err := rootfs.ArchiveAnew(ctx, root, ids, write)
			packed <- write.CloseWithError(err)
		}()
		err := take(read)
		_ = read.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // the packer ends, if it has not
		<-packed
		return err
	})
	if d.info().InitPID == 0 {
		err = errors.Join(err, i.tidy(context.WithoutCancel(ctx), d))
	}
	return err
}

// unmountTries is how often a container may have been mounted by agents that were killed.
const unmountTries = 8

// tidy takes the mounts of a stopped container away that were left before.
func (i promoting) tidy(ctx context.Context, d details) error {
	ctx, cancel := context.WithTimeout(ctx, i.r.cfg.Query)
	defer cancel()
	for range unmountTries {
		if busy, err := d.GraphDriver.mounted(); err != nil || !busy {
			return err
		}
		if err := i.r.post(ctx, d.ID, "unmount", nil); err != nil {
			return err
		}
	}
	return nil
}

// runtimeEnv are the variables that podman gives a container by itself.
var runtimeEnv = []string{"container", "HOME", "HOSTNAME", "TERM"}

// changes say what runs in the image, in the words of a Containerfile.
func (i promoting) changes(ctx context.Context, d details) (all []string, err error) {
	of := imageDetails{}
	if err := i.r.api.call(ctx, http.MethodGet, "/images/"+d.Image+"/json", nil, nil, &of); err != nil {
		return nil, fmt.Errorf("the image that the container was made from: %w", err)
	}
	for word, argv := range map[string][]string{"ENTRYPOINT": of.Config.Entrypoint, "CMD": d.Config.Cmd} {
		if len(argv) == 0 {
			continue
		}
		b, err := json.Marshal(argv)
		if err != nil {
			return nil, err
		}
		all = append(all, word+" "+string(b))
	}
	for word, text := range map[string]string{"USER": of.Config.User, "WORKDIR": of.Config.WorkingDir, "STOPSIGNAL": of.Config.StopSignal} {
		if text != "" {
			all = append(all, word+" "+text)
		}
	}
	for _, e := range d.Config.Env {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(runtimeEnv, name) || slices.Contains(of.Config.Env, e) {
			all = append(all, "ENV "+e)
		}
	}
	return all, nil
}

// Kept implements container.Promoter.
func (i promoting) Kept(ctx context.Context, reference string) ([]byte, error) {
	d, err := i.r.Images().named(ctx, reference)
	if err != nil {
		return nil, err
	}
	kept, err := d.kept()
	if err == nil && kept == nil {
		err = fmt.Errorf("%w: the image %s was not made of a container, so nothing says how one of it is kept; create one: hostler ct create", container.ErrUnsupported, reference)
	}
	return kept, err
}

// kept is what a promotion has written down in an image; nil if it was none.
func (d imageDetails) kept() ([]byte, error) {
	if d.Labels[labelKept] == "" {
		return nil, nil
	}
	return base64.RawURLEncoding.DecodeString(d.Labels[labelKept])
}

// Forget implements container.Promoter. The layers stay as long as a container has them.
func (i promoting) Forget(ctx context.Context, reference string) error {
	if _, err := i.r.Images().named(ctx, reference); err != nil {
		return err
	}
	at := strings.LastIndexByte(reference, ':')
	query := url.Values{"repo": {reference[:at]}, "tag": {reference[at+1:]}}
	failpoint.Before(failpoint.ImageForgotten)
	err := i.r.api.call(ctx, http.MethodPost, "/images/"+reference+"/untag", query, nil, nil)
	failpoint.After(failpoint.ImageForgotten)
	return err
}
