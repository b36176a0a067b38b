package protocol

import (
	"fmt"
	"strconv"
	"time"
)

// KindLogs prints what a container has printed.
const KindLogs Kind = "container.logs"

func kindLogs() KindInfo {
	i := inContainer(kindHostMetrics(), KindLogs, "Print what a container has printed, or what its runtime said of it.", LaneHost)
	i.form = formOf(new(LogsArgs))
	return i
}

// The sources of [LogsArgs], and how many lines one may ask for.
const (
	LogOutput  = "output"
	LogRuntime = "runtime"
	MaxTail    = 1_000_000
)

// LogsArgs say what of a log is wanted.
type LogsArgs struct {
	Source  string `json:"source,omitzero" enum:"output,runtime" doc:"output (the default) is what its console or first process printed, runtime what the runtime said at its last start."`
	Tail    int64  `json:"tail,omitzero" min:"0" max:"1000000" example:"100" doc:"How many lines of the end. Default: 10000."`
	SinceMS int64  `json:"since_ms,omitzero" min:"0" max:"8640000000" doc:"How far back, in milliseconds. Default: from the beginning. Not every runtime notes the time of a line."`
	Follow  bool   `json:"follow,omitzero" doc:"Go on with what it prints."`
	TimeLimit
	OutputOption
}

// Flags returns the options of hostler-agent logs that ask for the same.
func (a *LogsArgs) Flags() []string {
	flags := []string{"--tail=" + strconv.FormatInt(a.Tail, 10)}
	if a.Source != "" {
		flags = append(flags, "--source="+a.Source)
	}
	if a.SinceMS > 0 {
		flags = append(flags, "--since="+(time.Duration(a.SinceMS)*time.Millisecond).String())
	}
	if a.Follow {
		flags = append(flags, "--follow")
	}
	return flags
}

func (a *LogsArgs) check() error {
	if a.Source == LogRuntime && (a.Follow || a.SinceMS > 0) {
		return fmt.Errorf("source: what the runtime said ends with the start; ask for it without follow and since_ms")
	}
	return a.TimeLimit.check()
}
