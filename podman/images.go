package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hostler-io/hostler/container"
)

// Image is an image that podman has.
type Image struct {
	// References that it is called by; none of one whose name another has now.
	References []string
	// Digest of its manifest, such as sha256:….
	Digest string
	Bytes  int64
	// Created is when it was made.
	Created time.Time
}

// Images are podman's images. All methods may be called concurrently.
type Images struct{ api *api }

// Images returns the images of the podman that r speaks to.
func (r *Runtime) Images() Images { return Images{r.api} }

// List lists the images that podman has.
func (i Images) List(ctx context.Context) ([]Image, error) {
	var all []struct {
		RepoTags []string
		Digest   string
		Size     int64
		Created  int64
	}
	if err := i.api.call(ctx, http.MethodGet, "/images/json", nil, nil, &all); err != nil {
		return nil, fmt.Errorf("podman images: %w", err)
	}
	images := make([]Image, len(all))
	for n, a := range all {
		images[n] = Image{a.RepoTags, a.Digest, a.Size, time.Unix(a.Created, 0)}
	}
	return images, nil
}

// Pull fetches an image although podman may have one of that name.
func (i Images) Pull(ctx context.Context, reference string) error {
	if err := usable(reference); err != nil {
		return err
	}
	body, err := i.api.open(ctx, http.MethodPost, "/images/pull", url.Values{"reference": {reference}, "policy": {"always"}}, nil)
	if err != nil {
		return unpulled(reference, err)
	}
	defer body.Close()
	if _, err := i.pulled(ctx, body); err != nil {
		return unpulled(reference, err)
	}
	return nil
}

// Remove removes an image. One that a container has is [container.ErrBusy], one that
// is not there [container.ErrNotFound].
func (i Images) Remove(ctx context.Context, reference string) error {
	err := i.api.call(ctx, http.MethodDelete, "/images/"+reference, nil, nil, nil)
	if err != nil && strings.Contains(err.Error(), "in use by") {
		err = fmt.Errorf("%w: %w", container.ErrBusy, err)
	}
	return err
}

// Prune removes the images that no container has and that were made longer ago than
// older; zero is any time. It returns how many bytes were theirs.
func (i Images) Prune(ctx context.Context, older time.Duration) (freed int64, err error) {
	query := url.Values{"all": {"true"}}
	if older > 0 {
		filters, err := json.Marshal(map[string][]string{"until": {older.String()}})
		if err != nil {
			return 0, err
		}
		query.Set("filters", string(filters))
	}
	var gone []struct {
		Err  any
		Size int64
	}
	if err := i.api.call(ctx, http.MethodPost, "/images/prune", query, nil, &gone); err != nil {
		return 0, fmt.Errorf("podman prune: %w", err)
	}
	for _, g := range gone {
		if freed += g.Size; g.Err != nil {
			err = errors.Join(err, fmt.Errorf("podman prune: %.300v", g.Err))
		}
	}
	return freed, err
}
