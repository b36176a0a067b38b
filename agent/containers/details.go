package containers

import (
	"context"
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/port"
)

// Details are what the agent remembers of a container beyond what every list shows.
type Details struct {
	CTID     protocol.CTID
	Name     protocol.ContainerName
	Runtime  string
	Ends     []queue.End // the newest last
	Settings queue.Settings
	Template string
	Digest   string         // of the image that it is made of, if the list of its runtime tells it
	Epoch    protocol.Epoch // of a unique one that was started
	Labels   []string
	// Class and Offline are words of its contract.
	Class, Offline string
	// InitPID is its first process; 0 if it has none.
	InitPID            int
	Privileged, Shared bool           // Shared: it has files of its image together with others
	Ports              []port.Mapping // of the host, that lead to it
	// Snapshots has its snapshots, if its runtime makes any: the loop does not ask.
	Snapshots func(context.Context) ([]container.Snapshot, error)
}

// DetailsOf returns those of the container of a name; false if there is no such one of
// ours. The loop calls it.
func DetailsOf(c *Containers, name string) (Details, bool) {
	for _, m := range c.managed {
		if string(m.rec.Name) == name {
			d := Details{
				CTID: m.rec.CTID, Name: m.rec.Name, Runtime: m.rec.Runtime, Ends: slices.Clone(m.rec.Ends), Settings: m.rec.Settings, Ports: slices.Clone(m.rec.Settings.Ports),
				Template: m.rec.Template, Digest: m.info.Digest, Class: m.rec.Class, Epoch: m.rec.Epoch, Offline: m.rec.Offline, Labels: m.rec.Labels, InitPID: m.info.InitPID, Privileged: m.info.Privileged, Shared: m.info.Shared,
			}
			if r, ok := c.runtime(m.rec.Runtime).(container.Snapshotter); ok {
				d.Snapshots = func(ctx context.Context) ([]container.Snapshot, error) { return r.Snapshots(ctx, name) }
			}
			return d, true
		}
	}
	return Details{}, false
}
