package data

import (
	"fmt"
	"regexp"
	"strings"
)

// NewImage names the image that is made of a container.
type NewImage struct {
	_     struct{} `required:"image"`
	Image string   `json:"image,omitzero" example:"\"web:1.2\"" doc:"The name of the image, and behind a colon its version. Without a version it is latest."`
}

var (
	imageName    = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)
	imageVersion = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
)

// Check reports what is wrong with it.
func (n *NewImage) Check() error {
	if n.Image == "" {
		return nil // that it is missing is told elsewhere
	}
	name, version := n.parts()
	if len(name) > maxName || !imageName.MatchString(name) {
		return fmt.Errorf("image: %.80q is no name of an image: want 1 to %d of a-z, 0-9 and single . _ - between them", name, maxName)
	}
	if len(version) > maxName || !imageVersion.MatchString(version) {
		return fmt.Errorf("image: %.80q is no version: want 1 to %d letters, digits and, not at the beginning, any of .-", version, maxName)
	}
	return nil
}

func (n *NewImage) parts() (name, version string) {
	name, version, ok := strings.Cut(n.Image, ":")
	if !ok {
		version = "latest"
	}
	return name, version
}

// Reference is what the image is called by on its host, for both runtimes.
func (n *NewImage) Reference() string {
	name, version := n.parts()
	return "localhost/" + name + ":" + version
}

// Demotion asks for a container that an image was made of.
type Demotion struct {
	_       struct{} `required:"image"`
	Image   string   `json:"image,omitzero" example:"\"localhost/web:1.2\"" doc:"The image, as the list of images calls it. It was made of a container."`
	Runtime string   `json:"runtime,omitzero" enum:"lxc,podman" doc:"lxc or podman, which has the image. The default is podman, where there is podman."`
	Start   bool     `json:"start,omitzero" doc:"Start it too."`
	Keep    bool     `json:"keep,omitzero" doc:"The image stays. Without this its name is taken away once the container is there."`
}

// Check reports what is wrong with it.
func (d *Demotion) Check() error {
	if d.Image != "" && !strings.HasPrefix(d.Image, "localhost/") {
		return fmt.Errorf("image: %.80q was made on no host: want one that begins with localhost/, as hostler image ls calls it", d.Image)
	}
	return nil
}
