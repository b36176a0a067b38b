package auditlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol/audit"
)

// askRecovered asks the coordinator for its newest recovery, nil if there was none.
func (a *commands) askRecovered(ctx context.Context) (*api.Recovered, error) {
	r, err := a.Coordinator()
	if err != nil {
		return nil, err
	}
	var s api.Status
	err = r.Get(ctx, "/v1/status", nil, &s)
	return s.Recovered, err
}

// lostByRecovery adds to a verdict about the coordinator's own log what a recovery has
// cost it: a log that goes on behind a backup is whole by itself, and who never
// verified it before has nothing to hold it against. Its hosts have, and the
// coordinator tells how far they have seen it sealed. It returns what is to be said
// besides, if anything: that no host has seen more proves nothing about what none saw.
func (v *auditVerdict) lostByRecovery(r *api.Recovered) (note string) {
	if r == nil {
		return ""
	}
	v.RecoveredAt = &r.At
	switch {
	case r.LostTo == 0 && r.Answered < r.Hosts:
		return fmt.Sprintf("The coordinator was recovered, and %d of its %d hosts have not told yet how far its log went: whether records are lost is not known.", r.Hosts-r.Answered, r.Hosts)
	case r.LostTo == 0:
		return "The coordinator was recovered. No host has seen records sealed that are not here; what it recorded after the backup and none has seen is lost."
	case r.LostTo < v.From:
		return "" // they would have been pruned
	}
	known := func(f auditFault) bool { return f.Kind == string(audit.Lost) }
	if slices.ContainsFunc(v.Faults, func(f auditFault) bool { return known(f) && f.To >= r.LostTo }) {
		return ""
	}
	v.Faults = append(slices.DeleteFunc(v.Faults, known), auditFault{
		Kind: string(audit.Lost), From: r.LostFrom, To: r.LostTo,
		Detail: fmt.Sprintf("hosts have seen records %d to %d sealed by the coordinator before its recovery, and they are not here: what it recorded there after the backup is lost", r.LostFrom, r.LostTo),
	})
	v.OK = false
	return ""
}
