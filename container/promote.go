package container

import (
	"context"
	"io"
	"strings"
)

// Promoter is a runtime that makes images of its containers, and knows how such a
// container was kept. The references of these images begin with [LocalImage].
type Promoter interface {
	// Promote makes an image of the files of a container, which stays as it is. Of one
	// that runs, files are kept as they are read, one after the other. An image of that
	// reference and key is nil, another one of that reference ErrExists.
	Promote(ctx context.Context, name string, p Promotion) error
	// Kept returns [Promotion.Kept] of an image. One that is not there is ErrNotFound,
	// one that was not made by Promote ErrUnsupported.
	Kept(ctx context.Context, reference string) ([]byte, error)
	// Forget takes its name from an image. What no container needs of it goes, at once
	// or later. One that is not there is ErrNotFound.
	Forget(ctx context.Context, reference string) error
}

// LocalImage is what references of images begin with that were made on their host, and
// that no registry has.
const LocalImage = "localhost/"

// IsLocalImage reports whether a reference is one of these.
func IsLocalImage(reference string) bool { return strings.HasPrefix(reference, LocalImage) }

// Promotion says what image is made of a container.
type Promotion struct {
	// Reference of the image, with its version.
	Reference string
	// Key is that of the action that asks for it.
	Key string
	// Kept says how the container was kept. Runtimes do not read it.
	Kept []byte
}

// ImageMaker has images, as [Images] does, and makes such as [Promoter] describes.
type ImageMaker interface {
	// Make makes an image of one layer, which write writes as a tar archive that may be
	// compressed; it returns the digest of the uncompressed bytes, such as sha256:….
	// What the layer was made from is base, for people; what runs in the image is img.
	Make(ctx context.Context, p Promotion, img Image, base string, write func(context.Context, io.Writer) (diffID string, err error)) error
	// Kept and Forget are as those of [Promoter].
	Kept(reference string) ([]byte, error)
	Forget(ctx context.Context, reference string) error
}
