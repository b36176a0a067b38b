package webapi

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// Spec returns the bytes of the spec that a request is for: those that it brings, or
// those that its kind and arguments make. A new container gets the id of its action,
// so that asking again is asking for the same. containers returns those that the host
// has.
func Spec(n *api.NewAction, id protocol.ActionID, containers func() ([]protocol.Container, error)) ([]byte, error) {
	if n.Kind == "" {
		switch {
		case n.Target != "" || n.Name != "" || len(n.Args) > 0:
			return nil, errors.New("kind: it is missing; GET /v1/kinds lists the kinds")
		case len(n.Spec) == 0:
			return nil, errors.New("kind: it is missing, and so is spec; GET /v1/kinds lists the kinds")
		}
		return n.Spec, nil
	}
	if len(n.Spec) > 0 {
		return nil, errors.New("spec: it stands in place of kind, target, name and args; send one or the other")
	}
	name, err := protocol.ParseContainerName(n.Name)
	if err != nil && n.Name != "" {
		return nil, fmt.Errorf("name: %w", err)
	}
	var target protocol.CTID
	kind, _ := protocol.KindOf(protocol.Kind(n.Kind)) // of none, the next step says so
	switch {
	case n.Target != "":
		if target, err = protocol.ParseCTID(n.Target); err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
	case kind.Creates && id.IsZero():
		return nil, fmt.Errorf("target: a new container needs an id; give one to the action, or to the container as the target")
	case kind.Creates:
		target = protocol.CTID(id)
	case kind.OnContainer() && name == "":
		return nil, fmt.Errorf("name: %s needs the name or the target of a container", n.Kind)
	case kind.OnContainer():
		if target, err = containerOf(n, containers); err != nil {
			return nil, err
		}
	}
	return protocol.ComposeSpec(protocol.Kind(n.Kind), target, name, n.Args)
}

// containerOf returns the id of the container that a request names.
func containerOf(n *api.NewAction, containers func() ([]protocol.Container, error)) (protocol.CTID, error) {
	all, err := containers()
	if err != nil {
		return protocol.CTID{}, err
	}
	i := slices.IndexFunc(all, func(c protocol.Container) bool { return c.Name == n.Name && !c.CTID.IsZero() })
	if i < 0 {
		return protocol.CTID{}, fmt.Errorf("name: the host has told of no container of ours that is named %s", n.Name)
	}
	return all[i].CTID, nil
}
