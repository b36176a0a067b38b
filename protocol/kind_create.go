package protocol

import "fmt"

// KindCreate makes a container from a template.
const KindCreate Kind = "container.create"

func kindCreate() KindInfo {
	i := lifecycle(KindCreate, "Create a container from a template.", new(CreateArgs))
	i.Creates, i.RootEquivalent = true, true
	return i
}

// CreateArgs are the arguments of a create.
type CreateArgs struct {
	_        struct{} `required:"template"`
	Template string   `json:"template,omitzero" example:"\"debian\"" doc:"The template."`
	Class    string   `json:"class,omitzero" enum:"pinned,cloned" doc:"pinned (the default) or cloned."`
	Offline  string   `json:"offline,omitzero" enum:"keep" doc:"What it does while its host is cut off: keep (the default) goes on."`
	Labels   []string `json:"labels,omitempty" doc:"Labels, each NAME=VALUE."`
	Start    bool     `json:"start,omitzero" doc:"Start it too."`
	// What was asked for before there was this field is not privileged either.
	Privileged bool `json:"privileged,omitzero" doc:"Root in it is root of its host. Else it has users of its own."`
}

func (c *CreateArgs) check() error {
	if c.Class == "unique" {
		return fmt.Errorf("class: unique is not supported yet: a unique container needs leases")
	}
	if _, err := ParseContainerName(c.Template); err != nil && c.Template != "" {
		return fmt.Errorf("template: %w", err)
	}
	return checkPairs("labels", c.Labels)
}
