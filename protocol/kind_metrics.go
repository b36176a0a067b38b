package protocol

import (
	"fmt"
	"time"
)

// KindHostMetrics prints what the host has measured, as lines of JSON.
const KindHostMetrics Kind = "host.metrics"

func kindHostMetrics() KindInfo {
	return KindInfo{
		Kind: KindHostMetrics, Doc: "Print what was measured of the host and its containers.",
		Target: TargetHost, Lane: LaneHost, Attempts: 1, RunTimeout: execTimeout, StartTTL: startTTL,
		Cancellable: true, Command: true, Prints: true, form: formOf(new(MetricsArgs)),
	}
}

// MaxMetrics is how many metrics a question may name.
const MaxMetrics = 64

// MetricsArgs say what of the samples is wanted.
type MetricsArgs struct {
	_         struct{} `required:"since_ms"`
	SinceMS   int64    `json:"since_ms" min:"1000" max:"864000000" example:"3600000" doc:"How far back, in milliseconds. Samples are kept for 7 days."`
	Container string   `json:"container,omitzero" example:"\"web\"" doc:"The name of a container. Default: the host."`
	All       bool     `json:"all,omitzero" doc:"The host and all its containers."`
	Metrics   []string `json:"metrics,omitzero" example:"[\"cpu\"]" doc:"Names of metrics. Default: all."`
	TimeLimit
	OutputOption
}

// Flags returns the options of hostler-agent metrics that ask for the same.
func (a *MetricsArgs) Flags() []string {
	flags := []string{"--since=" + (time.Duration(a.SinceMS) * time.Millisecond).String()}
	if a.Container != "" {
		flags = append(flags, "--container="+a.Container)
	}
	if a.All {
		flags = append(flags, "--all")
	}
	for _, m := range a.Metrics {
		flags = append(flags, "--metric="+m)
	}
	return flags
}

func (a *MetricsArgs) check() error {
	if len(a.Metrics) > MaxMetrics {
		return fmt.Errorf("metrics: %d names, want at most %d", len(a.Metrics), MaxMetrics)
	}
	return a.TimeLimit.check()
}
