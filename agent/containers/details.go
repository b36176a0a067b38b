package containers

import (
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/limit"
)

// Details are what the agent remembers of a container beyond what it shows to everybody.
type Details struct {
	CTID    protocol.CTID
	Name    protocol.ContainerName
	Runtime string
	Ends    []queue.End // the newest last
	// Limits are those that were set. InitPID is its first process; 0 if it has none.
	Limits  limit.Limits
	InitPID int
}

// DetailsOf returns those of the container of a name; false if there is no such one of
// ours. The loop calls it.
func DetailsOf(c *Containers, name string) (Details, bool) {
	for _, m := range c.managed {
		if string(m.rec.Name) == name {
			return Details{CTID: m.rec.CTID, Name: m.rec.Name, Runtime: m.rec.Runtime, Ends: slices.Clone(m.rec.Ends), Limits: m.rec.Settings.Limits, InitPID: m.info.InitPID}, true
		}
	}
	return Details{}, false
}
