package protocol

import (
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/protocol/setting"
)

// The kinds about the images of a host. Each prints one line of JSON for each image that
// it is about.
const (
	KindImageList   Kind = "image.list"
	KindImagePull   Kind = "image.pull"
	KindImageRemove Kind = "image.remove"
	KindImagePrune  Kind = "image.prune"
)

// ofImages is the row of a kind about the images of a host. None gives more than the
// images that somebody may make containers of anyway.
func ofImages(k Kind, doc string, limit time.Duration, args Args) KindInfo {
	return KindInfo{
		Kind: k, Doc: doc, Target: TargetHost, Lane: LaneHost, Attempts: 1, RunTimeout: limit, StartTTL: startTTL,
		Cancellable: true, Command: true, Prints: true, form: formOf(args),
	}
}

func kindImageList() KindInfo {
	return ofImages(KindImageList, "List the images of the host.", execTimeout, new(ImageListArgs))
}

func kindImagePull() KindInfo {
	return ofImages(KindImagePull, "Fetch an image from its registry, although the host may have it.", lifecycleTimeout, new(ImagePullArgs))
}

func kindImageRemove() KindInfo {
	return ofImages(KindImageRemove, "Remove an image from the host. Containers made of it stay.", execTimeout, new(ImageRemoveArgs))
}

func kindImagePrune() KindInfo {
	return ofImages(KindImagePrune, "Remove images that no container was made of for long, or that take too much room.", lifecycleTimeout, new(ImagePruneArgs))
}

// ImageListArgs are the arguments of a list of images.
type ImageListArgs struct {
	TimeLimit
	OutputOption
}

// ImagePullArgs say which image is fetched.
type ImagePullArgs struct {
	_       struct{} `required:"image"`
	Image   string   `json:"image,omitzero" example:"\"registry.example/debian:12\"" doc:"The image, with its registry."`
	Runtime string   `json:"runtime,omitzero" enum:"lxc,podman" doc:"For containers of lxc or podman. The default is podman, where there is podman."`
	TimeLimit
	OutputOption
}

func (a *ImagePullArgs) check() error {
	if strings.HasPrefix(a.Image, "file:") { // this kind does not give root, and any file of the host may be named
		return fmt.Errorf("image: a file of the host is read when a container is made of it, and not before")
	}
	return checkImage(a.Image, &a.TimeLimit)
}

// Flags returns the options of the agent's own command that does this.
func (a *ImagePullArgs) Flags() []string {
	return []string{"--image=" + a.Image, "--runtime=" + a.Runtime}
}

// ImageRemoveArgs say which image is removed.
type ImageRemoveArgs struct {
	_       struct{} `required:"image"`
	Image   string   `json:"image,omitzero" example:"\"registry.example/debian:12\"" doc:"The image, as the list of images calls it."`
	Runtime string   `json:"runtime,omitzero" enum:"lxc,podman" doc:"That of lxc or of podman. The default is every one of that name."`
	TimeLimit
	OutputOption
}

func (a *ImageRemoveArgs) check() error { return checkImage(a.Image, &a.TimeLimit) }

// Flags returns the options of the agent's own command that does this.
func (a *ImageRemoveArgs) Flags() []string {
	return []string{"--image=" + a.Image, "--runtime=" + a.Runtime}
}

// ImagePruneArgs say which images may go.
type ImagePruneArgs struct {
	OlderMS int64  `json:"older_ms,omitzero" min:"0" max:"315360000000" example:"604800000" doc:"Those that were not used for longer, in milliseconds. 0 is no limit."`
	Keep    int64  `json:"keep_bytes,omitzero" min:"0" max:"1125899906842624" doc:"How many bytes of images stay, those used last first. 0 is no limit. Podman does not say when an image was used, so it is for lxc alone."`
	Runtime string `json:"runtime,omitzero" enum:"lxc,podman" doc:"Those of lxc or of podman. The default is both."`
	TimeLimit
	OutputOption
}

// Flags returns the options of the agent's own command that does this.
func (a *ImagePruneArgs) Flags() []string {
	return []string{"--older=" + (time.Duration(a.OlderMS) * time.Millisecond).String(), fmt.Sprintf("--keep=%d", a.Keep), "--runtime=" + a.Runtime}
}

func checkImage(image string, l *TimeLimit) error {
	if err := setting.CheckTemplate(image); err != nil && image != "" {
		return fmt.Errorf("image: %w", err)
	}
	return l.check()
}
