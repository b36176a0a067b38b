package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Happening is something that happened to a host: who, when and what.
type Happening struct {
	AtMS   int64
	Who    string // token:NAME, host:ID or coordinator
	What   string // the verb of the audit log, or the type of the event
	Object string
	Detail map[string]any // of the audit log
	Data   []byte         // of an event, JSON
}

// Timeline returns what happened to a host since a time and before another, by the wall
// clock of then, the newest of it up to limit, the oldest first: what the audit log says was done and
// decided, and what the journal of events says that happened by itself.
func (r *Room) Timeline(ctx context.Context, host protocol.HostID, sinceMS, untilMS int64, limit int) ([]Happening, error) {
	records, _, err := r.Audit(ctx, Filter{Host: host, SinceMS: sinceMS, UntilMS: untilMS, Limit: limit})
	if err != nil {
		return nil, err
	}
	var all []Happening
	for _, a := range records {
		all = append(all, Happening{AtMS: a.AtMS, Who: a.Actor, What: a.Verb, Object: a.Object, Detail: a.Detail})
	}
	last, err := r.LastEvent(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	for after := core.EventsBegin(last); ; {
		page, err := r.Events(ctx, after, core.PageSize)
		if err != nil {
			return nil, fmt.Errorf("read the events: %w", err)
		}
		for _, e := range page {
			if after = e.ID; e.Host == host && e.AtMS >= sinceMS && e.AtMS < untilMS && byItself(e.Type) {
				all = append(all, Happening{AtMS: e.AtMS, Who: teller(e), What: e.Type, Object: e.Object, Data: e.Data})
			}
		}
		if len(page) < core.PageSize {
			break
		}
	}
	slices.SortStableFunc(all, func(x, y Happening) int { return int(x.AtMS - y.AtMS) })
	return all[max(0, len(all)-limit):], nil
}

// byItself reports whether an event is of what no person has decided: what was decided is in
// the audit log.
func byItself(typ string) bool {
	degree, ok := strings.CutPrefix(typ, "host.")
	return ok && slices.Contains(core.Degrees(), core.Connectivity(degree)) || typ == "host.changed" ||
		slices.Contains([]string{"alert.raised", "alert.cleared", "item.rejected", "container.appeared", "container.changed", "container.gone"}, typ)
}

// teller is who has said what an event says.
func teller(e core.Event) string {
	if strings.HasPrefix(e.Type, "container.") || e.Type == "host.changed" {
		var said struct{ By string }
		if json.Unmarshal(e.Data, &said) == nil && said.By != "" {
			return said.By
		}
	}
	if strings.HasPrefix(e.Type, "alert.") && !core.JudgedByCoordinator(e.Object) {
		return string(protocol.HostParty(e.Host))
	}
	return string(protocol.Coordinator)
}
