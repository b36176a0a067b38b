// Package move is hostler ct move: it brings a container from its host to another one, in
// steps that each host makes durable. What is left to do follows from what both hosts have,
// so a move that was cut short goes on when it is asked for again.
package move

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// picture is what a move finds on both hosts.
type picture struct {
	from, to api.Host
	name     string
	// source is the container on its host, and details what that host knows of it; nil if
	// the host has it no more.
	source  *api.Container
	details *api.ContainerDetails
	// copy is the same container on the other host, and others are all that this one has.
	copy   *api.Container
	others []api.Container
	// near are the containers of the first host.
	near          []api.Container
	backup        string // the name of the backup that travels
	atFrom, atTo  *api.Backup
	volumes       []api.Volume
	net           []api.NetworkPart // of the other host
	dropSnapshots bool
	// size is what the container takes, and rooms what the other host has free, by the name of
	// a directory; nothing if that is not known.
	size  size
	rooms map[string]api.Room
}

// step is what a move does, in this order.
type step string

const (
	forget step = "remove what an earlier move has left"
	stop   step = "stop the container"
	backUp step = "back it up"
	send   step = "bring the backup over"
	arrive step = "make and start the container"
	leave  step = "remove the container from its first host"
	tidy   step = "remove the backup of the move"
)

// left are the steps that are left to do. They never begin if something that can be seen
// now would keep the container from running on the other host.
func (p *picture) left() ([]step, error) {
	where := p.from.ID + "/" + p.name
	switch {
	case p.source == nil && p.copy != nil && (p.atFrom != nil || p.atTo != nil): // it ended before the last step
		return []step{tidy}, nil
	case p.source == nil:
		return nil, &term.Failure{Code: term.ExitNotFound, What: "there is no container " + where, Next: "hostler ct ls " + p.from.ID}
	case p.details.Moving != nil && p.details.Moving.To != p.to.ID:
		return nil, refused(where, "it is being moved to "+p.details.Moving.To, "hostler ct move "+where+" "+p.details.Moving.To+"    # goes on with that; hostler ct start "+where+" ends it")
	case p.details.Moving == nil && p.copy != nil:
		return nil, refused(where, fmt.Sprintf("%s has the same container, and no move of it is under way: a person started or stopped it on %s since", p.to.ID, p.from.ID),
			"hostler ct rm "+p.to.ID+"/"+p.copy.Name+"    # if nothing of it is needed there; else hostler ct rm "+where)
	case p.details.Moving == nil:
		if why := p.obstacles(); len(why) > 0 {
			return nil, refused(where, strings.Join(why, "; "), "hostler host show "+p.to.ID)
		}
		return []step{forget, stop, backUp, send, arrive, leave, tidy}, nil
	}
	switch kept := whole(p.atFrom); {
	// The other host may be making the container of that backup, whatever snapshots are wanted now.
	case p.copy != nil || kept && whole(p.atTo) && p.atTo.Made.Equal(p.atFrom.Made):
		return []step{stop, arrive, leave, tidy}, nil
	case kept && p.atTo == nil && slices.Equal(p.atFrom.Snapshots, p.wanted()):
		return []step{stop, send, arrive, leave, tidy}, nil
	}
	return []step{stop, forget, backUp, send, arrive, leave, tidy}, nil
}

// wanted are the names of the snapshots that go along, in their order.
func (p *picture) wanted() (names []string) {
	if p.dropSnapshots {
		return nil
	}
	for _, s := range slices.Backward(p.details.Snapshots) {
		names = append(names, s.Name)
	}
	return names
}

// taken are the names of the snapshots that go along, or went, and dropped those of the others.
// backedUp tells that the backup of the move is made, which decides then.
func (p *picture) taken(backedUp bool) (taken, dropped []string) {
	if taken = p.wanted(); backedUp && p.atFrom != nil {
		taken = p.atFrom.Snapshots
	}
	for _, s := range slices.Backward(p.details.Snapshots) {
		if !slices.Contains(taken, s.Name) {
			dropped = append(dropped, s.Name)
		}
	}
	return taken, dropped
}

// history reports whether containers of a host can have their snapshots brought there or away.
func (p *picture) history(h *api.Host) bool {
	return slices.Contains(h.Features, p.source.Runtime+".history")
}

// carries reports whether the first host is asked for its snapshots. It looks for itself which
// there are. Without any, it is not asked: a coordinator of an older version refuses the question.
func (p *picture) carries() bool { return len(p.wanted()) > 0 && p.history(&p.from) }

// stuck tells why snapshots cannot go along.
func (p *picture) stuck() (why []string) {
	n := len(p.wanted())
	if n == 0 {
		return nil
	}
	for _, h := range []*api.Host{&p.from, &p.to} {
		if !p.history(h) {
			why = append(why, fmt.Sprintf("it has snapshots (%d), and %s has not the feature %s.history, with which they go along: upgrade Hostler there (podman needs its storage driver overlay, too), choose another host, or ask with --drop-snapshots to lose them", n, h.ID, p.source.Runtime))
		}
	}
	for _, s := range p.details.Snapshots {
		if s.Damaged {
			why = append(why, fmt.Sprintf("its snapshot %s is damaged, and cannot go along: remove it (hostler snapshot rm %s/%s %[1]s), or ask with --drop-snapshots to lose all", s.Name, p.from.ID, p.name))
		}
	}
	return why
}

// astray are the snapshots of the first host that the removal of its container would lose, although
// the user did not ask to lose them. The container of the other host was made with those of the backup; it may
// have removed some since, as its schedule says.
func (p *picture) astray(from, to *api.ContainerDetails) (names []string) {
	if p.dropSnapshots {
		return nil
	}
	for _, s := range from.Snapshots {
		came := p.atFrom != nil && slices.Contains(p.atFrom.Snapshots, s.Name)
		if !came && !slices.ContainsFunc(to.Snapshots, func(o api.ContainerSnapshot) bool { return o.Name == s.Name && o.Made.Equal(s.Made) }) {
			names = append(names, s.Name)
		}
	}
	return names
}

// asked reports whether an earlier move may have asked the other host for the container.
func (p *picture) asked() bool {
	return p.details != nil && p.details.Moving != nil && (p.copy != nil || whole(p.atTo))
}

// whole reports whether a backup is there, and was read as a whole.
func whole(b *api.Backup) bool { return b != nil && b.Problem == "" && b.Verified != nil }

func refused(where, why, next string) error {
	return &term.Failure{Code: term.ExitRefused, What: "cannot move " + where, Why: why, Next: next}
}

// away tells why one of the hosts would answer nothing now; nil if both would.
func (p *picture) away() error {
	for _, h := range []api.Host{p.from, p.to} {
		why := ""
		switch {
		case h.State != "approved":
			why = fmt.Sprintf("host %s is %s", h.ID, h.State)
		case h.Connectivity != "online" && h.Connectivity != "late":
			why = fmt.Sprintf("host %s is %s", h.ID, h.Connectivity)
		case h.Degraded != "":
			why = fmt.Sprintf("host %s accepts nothing new: %s", h.ID, h.Degraded)
		}
		if why != "" {
			return refused(p.from.ID+"/"+p.name, why, "hostler why "+h.ID)
		}
	}
	return nil
}

// obstacles are all reasons for which the other host could not run the container, as far as
// they can be known before it is stopped.
func (p *picture) obstacles() (why []string) {
	add := func(bad bool, format string, args ...any) {
		if bad {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	to, d := p.to.ID, p.details
	add(p.from.Arch != "" && p.to.Arch != "" && p.from.Arch != p.to.Arch, "its files are for %s, and %s is %s", p.from.Arch, to, p.to.Arch)
	for _, missing := range p.to.Unsupported {
		what, reason, _ := strings.Cut(missing, ": ")
		add(what == p.source.Runtime, "%s makes no containers of %s: %s", to, what, reason)
		for _, l := range d.Limits {
			add(l.Set != "" && what == "limit."+l.Resource, "%s cannot apply its limit %s=%s: %s; take the limit away (hostler ct limit %s/%s %s=none), or choose another host", to, l.Resource, l.Set, reason, p.from.ID, p.name, l.Resource)
		}
	}
	add(slices.ContainsFunc(p.others, func(c api.Container) bool { return c.Name == p.name }), "%s has another container %s", to, p.name)
	add(p.source.State == "frozen", "it is frozen; let it run first: hostler ct unfreeze")
	why = append(why, p.stuck()...)
	for _, v := range d.Volumes {
		name, _, _ := strings.Cut(v, ":")
		for _, c := range p.near {
			add(c.CTID != d.CTID && slices.ContainsFunc(c.Volumes, func(o string) bool { return strings.HasPrefix(o, name+":") }), "container %s has its volume %s too", c.Name, name)
		}
		add(slices.ContainsFunc(p.volumes, func(o api.Volume) bool { return o.Name == name }), "%s has a volume %s already", to, name)
	}
	for _, port := range d.Ports {
		first, _, _ := strings.Cut(port, ":")
		_, proto, _ := strings.Cut(port, "/")
		for _, part := range p.net {
			host, _, _ := strings.Cut(part.Name, ":")
			add(part.Kind == "port" && part.Orphan == "" && host == first && strings.HasSuffix(part.Name, "/"+proto), "port %s/%s of %s leads to container %s", first, proto, to, part.Owner)
		}
	}
	add(d.Network != "" && !slices.ContainsFunc(p.net, func(n api.NetworkPart) bool { return n.Network == d.Network || n.Name == d.Network }), "%s has no network %s", to, d.Network)
	return append(slices.Compact(why), p.crowded(0)...)
}

// brought are the volumes that a move has made on the other host, which has others now than
// when the move began. If the container was there, they were its own. If it was not, they are
// those that came with the backup and that no container has had: another person may have made
// the others meanwhile.
func (p *picture) brought(was bool, now []api.Volume) (all []string) {
	for _, name := range named(p.details.Volumes) {
		is := func(v api.Volume) bool { return v.Name == name }
		i := slices.IndexFunc(now, is)
		if i >= 0 && (was || now[i].Filled) && !slices.ContainsFunc(p.volumes, is) {
			all = append(all, name)
		}
	}
	return all
}

// named returns the volume of each name once, as the details of a container write them.
func named(volumes []string) (all []string) {
	for _, v := range volumes {
		name, _, _ := strings.Cut(v, ":")
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
