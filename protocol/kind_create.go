package protocol

import (
	"fmt"
	"strings"
)

// KindCreate makes a container from a template or an image.
const KindCreate Kind = "container.create"

func kindCreate() KindInfo {
	i := lifecycle(KindCreate, "Create a container from a template or an image.", new(CreateArgs))
	i.Creates, i.RootEquivalent = true, true
	return i
}

// CreateArgs are the arguments of a create.
type CreateArgs struct {
	_        struct{} `required:"template"`
	Template string   `json:"template,omitzero" example:"\"busybox\"" doc:"What it is made from: an image such as registry.example/debian:12, or a template of the host."`
	// Empty is what can use the template: podman for an image where there is podman, and
	// else LXC.
	Runtime string   `json:"runtime,omitzero" enum:"lxc,podman" doc:"lxc or podman. The default is what can use the template: podman for an image, where there is podman."`
	Class   string   `json:"class,omitzero" enum:"pinned,cloned" doc:"pinned (the default) or cloned."`
	Offline string   `json:"offline,omitzero" enum:"keep" doc:"What it does while its host is cut off: keep (the default) goes on."`
	Labels  []string `json:"labels,omitempty" doc:"Labels, each NAME=VALUE."`
	Start   bool     `json:"start,omitzero" doc:"Start it too."`
	// What was asked for before there was this field is not privileged either.
	Privileged bool `json:"privileged,omitzero" doc:"Root in it is root of its host. Else it has users of its own."`
}

func (c *CreateArgs) check() error {
	if c.Class == "unique" {
		return fmt.Errorf("class: unique is not supported yet: a unique container needs leases")
	}
	if err := checkTemplate(c.Template); err != nil && c.Template != "" {
		return fmt.Errorf("template: %w", err)
	}
	return checkPairs("labels", c.Labels)
}

// maxTemplate is the length of a reference to an image with a digest.
const maxTemplate = 255

// checkTemplate accepts what can be a template's name or a reference to an image. The
// runtime judges it more closely.
func checkTemplate(s string) error {
	if len(s) > maxTemplate {
		return fmt.Errorf("it has %d characters, want at most %d", len(s), maxTemplate)
	}
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && strings.IndexByte("-_.:/@", c) >= 0:
		default:
			return fmt.Errorf("%q is neither a template nor an image: want letters, digits and, not at the beginning, any of -_.:/@", s)
		}
	}
	return nil
}
