package protocol

import (
	"cmp"

	"github.com/hostler-io/hostler/protocol/hostcmd"
)

// KindLogs prints what a container has printed.
const KindLogs Kind = "container.logs"

func kindLogs() KindInfo {
	return inContainer(printing("", "", execTimeout, new(LogsArgs)), KindLogs, "Print what a container has printed, or what its runtime said of it.", LaneHost)
}

// LogsArgs say what of a log is wanted.
type LogsArgs struct {
	hostcmd.Logs
	TimeLimit
	OutputOption
}

func (a *LogsArgs) check() error { return cmp.Or(a.Check(), a.TimeLimit.check()) }
