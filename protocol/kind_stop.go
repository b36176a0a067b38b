package protocol

import "github.com/hostler-io/hostler/protocol/data"

// KindStop stops a container and keeps it stopped.
const KindStop Kind = "container.stop"

func kindStop() KindInfo {
	return lifecycle(KindStop, "Stop a container and keep it stopped.", new(StopArgs))
}

// StopArgs are the arguments of whatever stops a container.
type StopArgs struct {
	GraceMS int64 `json:"grace_ms,omitzero" min:"0" max:"3600000" example:"30000" doc:"How long the container's init is asked to end before it is killed, in milliseconds. 0 is 10 s, and none for a stop that preempts."`
	data.Departure
}

func (a *StopArgs) check() error { return a.Check() }
