package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// ErrReference says that a text names no image.
var ErrReference = errors.New("no reference to an image")

// parse reads a reference that names its registry: whose image "debian:12" is depends on
// who reads it.
func parse(reference string) (name.Reference, error) {
	registry, _, ok := strings.Cut(reference, "/")
	if !ok || !strings.ContainsAny(registry, ".:") {
		return nil, fmt.Errorf("%w: %.100q does not say its registry; name it, too: docker.io/library/%s", ErrReference, reference, reference)
	}
	ref, err := name.ParseReference(reference)
	if err != nil { // it does not say what is wrong
		if strings.Contains(reference, "@") {
			_, err = name.NewDigest(reference)
		} else {
			_, err = name.NewTag(reference)
		}
		return nil, fmt.Errorf("%w: %w; want REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:…", ErrReference, err)
	}
	return ref, nil
}
