package podman

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/hostler-io/hostler/container"
)

// fetched returns the id of an image, which podman pulls if it has none of that name. A
// container is made from the id: so it is of what was pulled, whatever is called so
// afterwards.
func (i Images) fetched(ctx context.Context, name, pull string) (string, error) {
	if id, err := i.here(ctx, name, pull); err != nil || id != "" {
		return id, err
	}
	return i.fetch(ctx, name, pull)
}

// here is fetched of an image that is not to be pulled; empty if it is.
func (i Images) here(ctx context.Context, name, pull string) (string, error) {
	if err := usable(name); err != nil {
		return "", err
	}
	if pull == container.PullAlways && !container.IsLocalImage(name) {
		return "", nil
	}
	id, err := i.id(ctx, name)
	switch {
	case !errors.Is(err, container.ErrNotFound):
		return id, err
	case container.IsLocalImage(name):
		return "", fmt.Errorf("%w: podman has no image %s; it is made on a host, by hostler image promote or import, and no registry has it. If LXC has it, ask with --runtime lxc", container.ErrNotFound, name)
	case pull == container.PullNever:
		return "", fmt.Errorf("%w: this host does not have the image %s, and may not fetch it for this container", container.ErrNotFound, name)
	}
	return "", nil
}

// usable refuses images that are of no registry.
func usable(name string) error {
	if !container.IsOCI(name) && !container.IsWord(name) {
		return fmt.Errorf("%w: podman makes containers of images of registries alone, and %s is none; use LXC", container.ErrUnsupported, name)
	}
	return nil
}

// fetch has podman pull an image.
func (i Images) fetch(ctx context.Context, name, pull string) (string, error) {
	policy := container.PullMissing
	if pull == container.PullAlways {
		policy = pull
	}
	body, err := i.api.open(ctx, http.MethodPost, "/images/pull", url.Values{"reference": {name}, "policy": {policy}}, nil)
	if err != nil {
		return "", unpulled(name, err)
	}
	defer body.Close()
	id, err := i.pulled(ctx, body)
	if err != nil {
		return "", unpulled(name, err)
	}
	return id, nil
}

// id is the id of an image that is there.
func (i Images) id(ctx context.Context, name string) (string, error) {
	var found struct {
		ID string `json:"Id"`
	}
	// The slashes of the name are part of the path.
	err := i.api.call(ctx, http.MethodGet, "/images/"+name+"/json", nil, nil, &found)
	if err == nil && found.ID == "" {
		err = errors.New("podman tells no id of it")
	}
	return found.ID, err
}

// pulled reads what podman says while it pulls, and at the end.
func (i Images) pulled(ctx context.Context, from io.Reader) (id string, err error) {
	lines, last := bufio.NewScanner(from), ""
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var p struct {
			Stream string   `json:"stream"`
			Error  string   `json:"error"`
			ID     string   `json:"id"`
			Images []string `json:"images"`
		}
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return "", fmt.Errorf("podman said %.200q: %w", lines.Bytes(), err)
		}
		if p.Error != "" {
			return "", errors.New(strings.TrimSpace(p.Error))
		}
		last, id = cmp.Or(strings.TrimSpace(p.Stream), last), cmp.Or(p.ID, id)
	}
	if err := lines.Err(); err != nil || id == "" {
		return "", fmt.Errorf("%w; podman said last: %s", i.api.explain(ctx, cmp.Or(err, io.ErrUnexpectedEOF)), cmp.Or(last, "nothing"))
	}
	return id, nil
}

// unpulled says what may help.
func unpulled(name string, err error) error {
	said := err.Error()
	hint := "look at it on the host: podman pull " + name
	switch {
	case strings.Contains(said, "unauthorized"), strings.Contains(said, "authentication required"), strings.Contains(said, "denied"):
		hint = "check the name, or log in on the host: podman login"
	case strings.Contains(said, "manifest unknown"), strings.Contains(said, "name unknown"), strings.Contains(said, "not found"):
		hint = "check the name and the tag"
	case strings.Contains(said, "short-name"):
		hint = "name its registry, too: registry.example/" + name
	case strings.Contains(said, "no such host"), strings.Contains(said, "connection refused"), strings.Contains(said, "i/o timeout"):
		hint = "check that the host reaches the registry"
	}
	return fmt.Errorf("pulling %s: %w; %s", name, err, hint)
}
