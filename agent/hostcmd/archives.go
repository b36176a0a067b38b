package hostcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/internal/clock"
)

// Signing is how a host signs the archives of images and backups that it exports, and
// verifies those that it imports. Nothing else needs it.
type Signing struct {
	Host  string
	Seal  image.Seal
	Trust image.Trust
}

// exportImage writes the archive of an image to the output.
func exportImage(ctx context.Context, i *images, o imageOptions) error {
	if i.lxc != nil {
		m, err := i.lxc.Export(ctx, i.raw, o.image, i.signing.Host, i.signing.Seal)
		if err == nil {
			fmt.Fprintf(i.notes, "%s, %d parts\n", m.Digest, len(m.Parts))
		}
		if !errors.Is(err, image.ErrNotFound) || i.podman == nil {
			return err
		}
	}
	return i.podman.Images().Save(ctx, o.image, func(digest string, kept []byte, from io.Reader) error {
		m := image.Manifest{Reference: o.image, Digest: digest, Runtime: container.KindPodman, Host: i.signing.Host, Made: clock.Now().UnixMilli(), Kept: kept}
		_, err := image.Pack(i.raw, from, m, i.signing.Seal)
		return err
	})
}

// importImage takes an image from the archive that it reads. One that it is to name is
// taken without a known signature, too.
func importImage(ctx context.Context, i *images, o imageOptions) error {
	v, err := image.Verify(ctx, os.Stdin, o.image, i.max, i.signing.Trust)
	if err != nil {
		return err
	}
	kind := container.Kind(o.runtime)
	if kind == "" {
		kind = v.Runtime
	}
	if kind == "" && i.lxc != nil {
		kind = container.KindLXC
	}
	if v.Signer != "" {
		fmt.Fprintf(i.notes, "verified: host %s has signed the archive\n", v.Signer)
	} else {
		fmt.Fprintln(i.notes, "verified: the parts of the archive have their digests; no key that this host knows has signed it")
	}
	if kind == container.KindLXC && i.lxc != nil {
		r, _, err := i.lxc.Import(ctx, os.Stdin, o.image, i.signing.Trust)
		if err != nil {
			return err
		}
		r.Used = clock.Now()
		return i.out.Encode(ofStore(r))
	}
	if i.podman == nil {
		return fmt.Errorf("%w: the archive is for %s, and this host has none; choose another with --runtime", container.ErrUnsupported, kind)
	}
	p, err := i.podman.Images().Load(ctx, v.Reference, v.Repack)
	if err != nil {
		return err
	}
	return i.out.Encode(api.Image{Runtime: string(container.KindPodman), Reference: v.Reference, Digest: p.Digest, Bytes: p.Bytes})
}
