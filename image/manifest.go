package image

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/hostler-io/hostler/container"
)

// ErrImage says that what a registry has is no image that can be used.
var ErrImage = errors.New("the image cannot be used")

// Bounds of what is read of an image, in bytes.
const (
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
	maxLayers   = 512
)

// choose returns the image of an index that is for this host.
func choose(raw []byte) (v1.Descriptor, error) {
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("%w: reading its index: %w", ErrImage, err)
	}
	var others []string
	for _, m := range index.Manifests {
		if m.Platform == nil || !m.MediaType.IsImage() {
			continue
		}
		if m.Platform.OS == "linux" && m.Platform.Architecture == runtime.GOARCH {
			return m, nil
		}
		if m.Platform.Architecture != "unknown" && len(others) < 16 {
			others = append(others, m.Platform.OS+"/"+m.Platform.Architecture)
		}
	}
	return v1.Descriptor{}, fmt.Errorf("%w: %w: there is one for %s, and none for linux/%s", container.ErrUnsupported, ErrImage, strings.Join(others, ", "), runtime.GOARCH)
}

// parseManifest reads what an image consists of: the configuration, then the layers.
func parseManifest(raw []byte, most int64) (parts []v1.Descriptor, err error) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: reading its manifest: %w", ErrImage, err)
	}
	if m.Config.Digest.Hex == "" || m.Config.Size > maxConfig || len(m.Layers) > maxLayers {
		return nil, fmt.Errorf("%w: it has a configuration of %d bytes and %d layers, want at most %d and %d", ErrImage, m.Config.Size, len(m.Layers), maxConfig, maxLayers)
	}
	total := int64(0)
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		switch {
		case d.Size < 1 || d.Size > most-total:
			return nil, fmt.Errorf("%w: it is larger than the %d bytes that images of this host may have", ErrImage, most)
		case len(parts) > 0 && !d.MediaType.IsLayer():
			return nil, fmt.Errorf("%w: it has a part that is no layer: %.80q", ErrImage, d.MediaType)
		case len(parts) > 0 && !d.MediaType.IsDistributable():
			return nil, fmt.Errorf("%w: it has a layer that its registry does not keep: %.80q", ErrImage, d.MediaType)
		}
		if _, err := digestOf(d.Digest); err != nil {
			return nil, err
		}
		total += d.Size
		parts = append(parts, d)
	}
	return parts, nil
}

// parseConfig reads what runs in an image, and refuses one of another architecture.
func parseConfig(raw []byte) (*v1.ConfigFile, error) {
	c, err := v1.ParseConfigFile(bytes.NewReader(raw))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: reading its configuration: %w", ErrImage, err)
	case c.OS != "linux" && c.OS != "" || c.Architecture != runtime.GOARCH && c.Architecture != "":
		return nil, fmt.Errorf("%w: %w: it is for %s/%s, and this host is linux/%s", container.ErrUnsupported, ErrImage, c.OS, c.Architecture, runtime.GOARCH)
	}
	return c, nil
}
