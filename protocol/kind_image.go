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
	// KindImageExport writes the archive of an image to its output.
	KindImageExport         Kind = "image.export"
	KindImageImport         Kind = "image.import"
	KindImageImportUnsigned Kind = "image.import-unsigned"
)

func kindsOfImages() []KindInfo {
	unsigned := printing(KindImageImportUnsigned, "Take an image from an archive of which nothing shows who made it.", lifecycleTimeout, new(ImageImportUnsignedArgs))
	unsigned.RootEquivalent = true
	export := printing(KindImageExport, "Write the signed archive of an image to the output.", lifecycleTimeout, new(ImageExportArgs))
	export.RootEquivalent = true // an image that was promoted has all files of its container
	return []KindInfo{
		printing(KindImageList, "List the images of the host.", execTimeout, new(ExportArgs)),
		printing(KindImagePull, "Fetch an image from its registry, although the host may have it.", lifecycleTimeout, new(ImagePullArgs)),
		printing(KindImageRemove, "Remove an image from the host. Containers made of it stay.", execTimeout, new(ImageRemoveArgs)),
		export,
		printing(KindImageImport, "Take an image from an archive that a host of the fleet has signed.", lifecycleTimeout, new(ImageImportArgs)),
		unsigned,
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

// ImageExportArgs say which image is written into an archive.
type ImageExportArgs struct {
	hostcmd.ImageRemove
	TimeLimit
	OutputOption
}

// ImageImportArgs say for which runtime the archive is, which is the payload.
type ImageImportArgs struct {
	hostcmd.ImageImport
	Input
	TimeLimit
	OutputOption
}

// ImageImportUnsignedArgs name the image, too.
type ImageImportUnsignedArgs struct {
	hostcmd.ImageImportUnsigned
	Input
	TimeLimit
	OutputOption
}

func (a *ImageExportArgs) check() error { return cmp.Or(a.Check(), a.TimeLimit.check()) }
func (a *ImageImportArgs) check() error { return cmp.Or(a.Input.check(), a.TimeLimit.check()) }
func (a *ImageImportUnsignedArgs) check() error {
	return cmp.Or(a.Check(), a.Input.check(), a.TimeLimit.check())
}
