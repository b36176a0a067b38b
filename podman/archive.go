package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/hostler-io/hostler/container"
)

// Save has take read an image as an OCI layout in a tar archive. It returns the digest of
// its manifest and [container.Promotion.Kept], which is nil of one that was no container.
func (i Images) Save(ctx context.Context, reference string, take func(digest string, kept []byte, from io.Reader) error) error {
	d, err := i.named(ctx, reference)
	if err != nil {
		return err
	}
	kept, err := d.kept()
	if err != nil {
		return err
	}
	body, err := i.api.open(ctx, http.MethodGet, "/images/"+reference+"/get", url.Values{"format": {"oci-archive"}}, nil)
	if err != nil {
		return fmt.Errorf("podman save: %w", err)
	}
	defer body.Close()
	return take(d.Digest, kept, body)
}

// Load takes an image that give writes as an OCI layout with that name and no other. One
// that is there is [container.ErrExists].
func (i Images) Load(ctx context.Context, reference string, give func(io.Writer) error) (Image, error) {
	switch _, err := i.named(ctx, reference); {
	case err == nil:
		return Image{}, fmt.Errorf("%w: podman has an image %s already; remove it first: hostler image rm", container.ErrExists, reference)
	case !errors.Is(err, container.ErrNotFound):
		return Image{}, err
	}
	read, write := io.Pipe()
	given := make(chan error, 1)
	go func() { // waited for below
		err := give(write)
		_ = write.CloseWithError(err) // it never fails
		given <- err
	}()
	var said struct{ Names []string }
	err := i.api.call(ctx, http.MethodPost, "/images/load", nil, read, &said)
	_ = read.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // the giver ends, if it has not
	if gone := <-given; gone != nil && !errors.Is(gone, io.ErrClosedPipe) {
		err = cmp.Or(err, gone)
	}
	if err != nil {
		return Image{}, fmt.Errorf("podman load: %w", err)
	}
	d, err := i.named(ctx, reference)
	if err != nil {
		return Image{}, fmt.Errorf("podman has loaded it as %s: %w", strings.Join(said.Names, ", "), err)
	}
	return Image{References: []string{reference}, Digest: d.Digest, Bytes: d.Size}, nil
}
