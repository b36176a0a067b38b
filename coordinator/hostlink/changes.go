package hostlink

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// maxChanges is how many changes of one heartbeat are told; of more, only how many.
const maxChanges = 100

// difference is one between what a host told before and what it tells now.
type difference struct {
	typ, object string // the type of the event, and the container or host
	data        map[string]any
}

// changesOf compares two inventories of a host. The first one is no change: nothing was
// known before. Figures, such as free memory, change all the time and are not told.
func changesOf(host protocol.HostID, before, now core.Inventory) (all []difference) {
	if before.AtMS == 0 {
		return nil
	}
	field := func(typ, object, name, field, from, to string) {
		if from != to {
			data := map[string]any{"field": field, "from": from, "to": to}
			if name != "" {
				data["name"] = name
			}
			all = append(all, difference{typ, object, data})
		}
	}
	b, n := before.Host, now.Host
	for _, f := range [][3]string{
		{"hostname", b.Hostname, n.Hostname}, {"version", b.Version, n.Version}, {"kernel", b.Kernel, n.Kernel}, {"boot", b.Boot, n.Boot},
		{"cpus", number(b.CPUs), number(n.CPUs)}, {"memory_bytes", number(b.MemoryBytes), number(n.MemoryBytes)},
		{"degraded", b.Degraded, n.Degraded}, {"unsupported", strings.Join(b.Unsupported, "; "), strings.Join(n.Unsupported, "; ")},
	} {
		field("host.changed", string(host), "", f[0], f[1], f[2])
	}
	had := make(map[string]string)
	for _, i := range b.Interfaces {
		had[i.Name] = wireOf(i)
	}
	for _, i := range n.Interfaces {
		field("host.changed", string(host), "", "interface "+i.Name, had[i.Name], wireOf(i))
		delete(had, i.Name)
	}
	for name, was := range had {
		field("host.changed", string(host), "", "interface "+name, was, "")
	}
	old := make(map[string]protocol.Container)
	for _, c := range before.Containers {
		old[place(c)] = c
	}
	for _, c := range now.Containers {
		was, known := old[place(c)]
		delete(old, place(c))
		object := cmp.Or(idOf(c), c.Name)
		if !known {
			all = append(all, difference{"container.appeared", object, map[string]any{"name": c.Name, "runtime": c.Runtime, "state": c.State}})
			continue
		}
		for _, f := range [][3]string{
			{"name", was.Name, c.Name}, {"state", was.State, c.State}, {"intended", was.Intended, c.Intended}, {"broken", was.Broken, c.Broken},
			{"offline", was.Offline, c.Offline}, {"labels", strings.Join(was.Labels, ","), strings.Join(c.Labels, ",")},
			{"addresses", strings.Join(was.Addresses, ","), strings.Join(c.Addresses, ",")},
		} {
			field("container.changed", object, c.Name, f[0], f[1], f[2])
		}
	}
	for _, c := range old {
		all = append(all, difference{"container.gone", cmp.Or(idOf(c), c.Name), map[string]any{"name": c.Name, "runtime": c.Runtime}})
	}
	return all
}

func idOf(c protocol.Container) string {
	if c.CTID.IsZero() {
		return ""
	}
	return c.CTID.String()
}

// place tells containers apart: foreign ones have no id.
func place(c protocol.Container) string { return cmp.Or(idOf(c), c.Runtime+":"+c.Name) }

func number[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// wireOf is an interface as people read it.
func wireOf(i protocol.Interface) string {
	word := "down"
	if i.Up {
		word = "up"
	}
	return strings.Join(append([]string{word, i.MAC}, i.Addresses...), " ")
}

// tellChanges appends an event for each change. by is who has made them: the host, or the
// person who asked for an action.
func tellChanges(base *core.Base, tx core.Tx, host protocol.HostID, before, now core.Inventory, by string, action protocol.ActionID) error {
	all := changesOf(host, before, now)
	if more := len(all) - maxChanges; more > 0 {
		all = append(all[:maxChanges:maxChanges], difference{"host.changed", string(host), map[string]any{"field": "more", "from": "", "to": number(more)}})
	}
	for _, x := range all {
		x.data["by"] = by
		if !action.IsZero() {
			x.data["action"] = action
		}
		if err := base.Event(tx, x.typ, host, x.object, x.data); err != nil {
			return err
		}
	}
	return nil
}
