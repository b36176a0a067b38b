package protocol

import (
	"cmp"

	"github.com/hostler-io/hostler/protocol/hostcmd"
)

// KindHostMetrics prints what the host has measured, as lines of JSON.
const KindHostMetrics Kind = "host.metrics"

func kindHostMetrics() KindInfo {
	return printing(KindHostMetrics, "Print what was measured of the host and its containers.", execTimeout, new(MetricsArgs))
}

// MetricsArgs say what of the samples is wanted.
type MetricsArgs struct {
	hostcmd.Metrics
	TimeLimit
	OutputOption
}

func (a *MetricsArgs) check() error { return cmp.Or(a.Check(), a.TimeLimit.check()) }
