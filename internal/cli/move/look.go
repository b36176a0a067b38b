package move

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/data"
)

// look asks both hosts what they have.
func (m *mover) look(ctx context.Context, what string) (err error) {
	defer m.Phase(fmt.Sprintf("%s: look at both hosts", m.ref)).End()
	p := &picture{name: m.ref.Name, dropSnapshots: m.dropSnapshots}
	m.p = p
	for host, h := range map[protocol.HostID]*api.Host{m.ref.Host: &p.from, m.to: &p.to} {
		if err := m.r.Get(ctx, "/v1/hosts/"+url.PathEscape(string(host)), nil, h); err != nil {
			return term.Cannot(what, err)
		}
	}
	if err := p.away(); err != nil {
		return err
	}
	if p.near, err = m.r.Containers(ctx, m.ref.Host); err == nil {
		p.others, err = m.r.Containers(ctx, m.to)
	}
	if err != nil {
		return term.Cannot(what, err)
	}
	if err := m.find(ctx); err != nil {
		return err
	}
	if m.id.IsZero() || p.source != nil && p.source.Class == contract.Unique {
		return nil
	}
	p.backup = data.MoveBackup(m.id.String())
	for host, at := range map[protocol.HostID]**api.Backup{m.ref.Host: &p.atFrom, m.to: &p.atTo} {
		if *at, err = m.backupAt(ctx, host); err != nil {
			return err
		}
	}
	if p.volumes, err = m.volumesAt(ctx, m.to); err != nil {
		return err
	}
	if p.source != nil && p.copy == nil && (p.details.Moving == nil || p.atTo == nil) { // something is to be sent
		if err := m.measure(ctx); err != nil {
			return err
		}
	}
	p.net, err = dispatch.Listed[api.NetworkPart](ctx, m.Dispatcher, m.r, m.to, "list the networks of "+string(m.to), protocol.Spec{Kind: protocol.KindNetworkList, Args: &protocol.ExportArgs{OutputOption: streamed}})
	return err
}

func (m *mover) volumesAt(ctx context.Context, host protocol.HostID) ([]api.Volume, error) {
	list := protocol.Spec{Kind: protocol.KindVolumeList, Args: &protocol.ExportArgs{OutputOption: streamed}}
	return dispatch.Listed[api.Volume](ctx, m.Dispatcher, m.r, host, "list the volumes of "+string(host), list)
}

// find finds the container on both hosts. What they say themselves counts: the coordinator may
// not have heard yet that the first host has it no more, or that the other one has it.
func (m *mover) find(ctx context.Context) error {
	p := m.p
	for _, c := range p.near {
		if c.Name == m.ref.Name && (m.ref.Runtime == "" || c.Runtime == m.ref.Runtime) {
			p.source = &c
		}
	}
	if p.source == nil {
		for _, c := range p.others {
			if c.Name == m.ref.Name && c.CTID != "" {
				p.copy = &c
			}
		}
		return m.identify(p.copy)
	}
	if p.source.CTID == "" {
		return refused(m.ref.String(), "it is foreign: it was not made by Hostler", "hostler ct adopt "+m.ref.String())
	}
	if err := m.identify(p.source); err != nil {
		return err
	}
	if p.source.Class == contract.Unique {
		return nil // its coordinator looks
	}
	for _, c := range p.others {
		if c.CTID == p.source.CTID {
			p.copy = &c
		}
	}
	if p.copy == nil {
		d, err := m.inspect(ctx, m.to)
		switch {
		case err == nil:
			p.copy = &api.Container{Name: d.Name, CTID: d.CTID, Runtime: d.Runtime, Class: d.Class, Volumes: d.Volumes}
		case !notFound(err):
			return err
		}
	}
	d, err := m.inspect(ctx, m.ref.Host)
	if notFound(err) && p.copy != nil {
		p.source = nil
		return nil
	}
	p.details = d
	return err
}

// inspect asks a host what it knows of the container.
func (m *mover) inspect(ctx context.Context, host protocol.HostID) (*api.ContainerDetails, error) {
	what := fmt.Sprintf("move %s to %s", m.ref, m.to)
	ask := func() ([]byte, error) {
		return m.Ask(ctx, m.r, host, string(host)+"/"+m.ref.Name, what, maxDetails, m.about(protocol.KindInspect, &protocol.ExportArgs{}))
	}
	b, err := ask()
	if code(err) == term.ExitFailed { // it may have been removed while the question waited: the next one is told that it is gone
		b, err = ask()
	}
	d := new(api.ContainerDetails)
	if err == nil && json.Unmarshal(b, d) != nil {
		err = term.Cannot(what, dispatch.ErrAnswer)
	}
	return d, err
}

// identify notes the id of the container; nil is none.
func (m *mover) identify(c *api.Container) (err error) {
	if c != nil {
		m.id, err = protocol.ParseCTID(c.CTID)
	}
	return err
}
