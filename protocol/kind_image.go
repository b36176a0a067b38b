package protocol

import (
	"cmp"

	"github.com/hostler-io/hostler/protocol/hostcmd"
)

// The kinds about the images of a host. Each prints one line of JSON for each image that
// it is about.
const (
	KindImageList   Kind = "image.list"
	KindImagePull   Kind = "image.pull"
	KindImageRemove Kind = "image.remove"
	KindImagePrune  Kind = "image.prune"
)

func kindsOfImages() []KindInfo {
	return []KindInfo{
		printing(KindImageList, "List the images of the host.", execTimeout, new(ExportArgs)),
		printing(KindImagePull, "Fetch an image from its registry, although the host may have it.", lifecycleTimeout, new(ImagePullArgs)),
		printing(KindImageRemove, "Remove an image from the host. Containers made of it stay.", execTimeout, new(ImageRemoveArgs)),
		printing(KindImagePrune, "Remove images that no container was made of for long, or that take too much room.", lifecycleTimeout, new(ImagePruneArgs)),
	}
}

// ImagePullArgs say which image is fetched.
type ImagePullArgs struct {
	hostcmd.ImagePull
	TimeLimit
	OutputOption
}

// ImageRemoveArgs say which image is removed.
type ImageRemoveArgs struct {
	hostcmd.ImageRemove
	TimeLimit
	OutputOption
}

// ImagePruneArgs say which images may go.
type ImagePruneArgs struct {
	hostcmd.ImagePrune
	TimeLimit
	OutputOption
}

func (a *ImagePullArgs) check() error   { return cmp.Or(a.Check(), a.TimeLimit.check()) }
func (a *ImageRemoveArgs) check() error { return cmp.Or(a.Check(), a.TimeLimit.check()) }
