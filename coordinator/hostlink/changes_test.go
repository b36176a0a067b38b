package hostlink

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

func TestChanges(t *testing.T) {
	id := protocol.CTID{1}
	before := core.Inventory{
		AtMS: 1,
		Host: protocol.HostInfo{Hostname: "a", Version: "1", Boot: "b/1", CPUs: 2, Interfaces: []protocol.Interface{{Name: "eth0", Up: true, Addresses: []string{"192.0.2.1/24"}}, {Name: "eth1"}}},
		Containers: []protocol.Container{
			{CTID: id, Name: "web", Runtime: "lxc", State: "running", Intended: "running"},
			{Name: "theirs", Runtime: "podman", State: "running"}, {CTID: protocol.CTID{2}, Name: "old", Runtime: "lxc"},
		},
	}
	tell := func(before, now core.Inventory) (all []string) {
		for _, c := range changesOf("edge-01", before, now) {
			all = append(all, fmt.Sprint(c.typ, " ", c.object, " ", c.data))
		}
		slices.Sort(all)
		return all
	}
	if got := tell(core.Inventory{}, before); got != nil {
		t.Errorf("the first inventory is told as changes: %q", got)
	}
	if got := tell(before, before); got != nil {
		t.Errorf("nothing has changed, and told is %q", got)
	}
	now := before
	now.Host.Version, now.Host.MemoryFree, now.Host.Load1000 = "2", 7, 9 // figures change all the time
	now.Host.Interfaces = []protocol.Interface{{Name: "eth0", Up: true, Addresses: []string{"192.0.2.2/24"}}}
	now.Containers = []protocol.Container{
		{CTID: id, Name: "shop", Runtime: "lxc", State: "stopped", Intended: "running", Failures: 3},
		{Name: "theirs", Runtime: "podman", State: "running"}, {CTID: protocol.CTID{3}, Name: "new", Runtime: "lxc", State: "running"},
	}
	want := []string{
		"container.appeared " + protocol.CTID{3}.String() + " map[name:new runtime:lxc state:running]",
		"container.changed " + id.String() + " map[field:name from:web name:shop to:shop]",
		"container.changed " + id.String() + " map[field:state from:running name:shop to:stopped]",
		"container.gone " + protocol.CTID{2}.String() + " map[name:old runtime:lxc]",
		"host.changed edge-01 map[field:interface eth0 from:up  192.0.2.1/24 to:up  192.0.2.2/24]",
		"host.changed edge-01 map[field:interface eth1 from:down  to:]",
		"host.changed edge-01 map[field:version from:1 to:2]",
	}
	if got := tell(before, now); !slices.Equal(got, want) {
		t.Errorf("told is\n%q, want\n%q", got, want)
	}
}
