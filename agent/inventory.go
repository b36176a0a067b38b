package agent

import (
	"maps"
	"slices"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// inventory is every container of the host, managed ones first.
func (a *Agent) inventory() []protocol.Container {
	var all []protocol.Container
	for _, c := range a.containers() {
		all = append(all, c.Container)
	}
	return all
}

// containers returns every container of the host, managed ones first, each by
// name.
func (a *Agent) containers() []Container {
	var all []Container
	for _, t := range a.sorted() {
		c := Container{Container: t.show(), Template: t.rec.Template, MAC: t.rec.MAC}
		all = append(all, c)
	}
	for _, kind := range slices.Sorted(maps.Keys(a.foreign)) {
		for _, info := range a.foreign[kind] {
			c := Container{Foreign: true, MAC: info.MAC, Template: info.Template}
			c.Name, c.Runtime, c.State, c.Addresses = info.Name, kind.String(), info.State.String(), addresses(info)
			all = append(all, c)
		}
	}
	return all
}

// show is a managed container as people see it.
func (t *tracked) show() protocol.Container {
	state := container.StateUnknown
	if t.seen {
		state = t.info.State
	}
	c := protocol.Container{
		CTID: t.rec.CTID, Name: string(t.rec.Name), Runtime: t.rec.Runtime, State: state.String(),
		Intended: t.rec.Intended, Class: t.rec.Class, Offline: t.rec.Offline, Labels: t.rec.Labels,
		Broken: t.rec.Broken, Failures: t.rec.Failures, Addresses: addresses(t.info),
	}
	if len(c.Addresses) == 0 && t.rec.Address != "" {
		c.Addresses = []string{t.rec.Address}
	}
	return c
}

func addresses(info container.Info) []string {
	var all []string
	for _, ip := range info.Addresses {
		all = append(all, ip.String())
	}
	return all
}
