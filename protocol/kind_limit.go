package protocol

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol/limit"
)

// KindLimit changes what a container may use at most.
const KindLimit Kind = "container.limit"

func kindLimit() KindInfo {
	return lifecycle(KindLimit, "Change what a container may use at most, at once and from now on.", new(LimitArgs))
}

// LimitArgs are the arguments of a change of limits.
type LimitArgs struct {
	_     struct{} `required:"set"`
	Set   []string `json:"set,omitempty" example:"[\"cpu=150%\",\"memory=256MiB\"]" doc:"Limits, each RESOURCE=VALUE: cpu (percent of one processor), memory (bytes with a unit), pids (a number), cpuset (processors), net (bits in a second with a unit, in each direction), io (bytes in a second with a unit, in each direction and at each disk). none takes a limit away. Others stay as they are."`
	Force bool     `json:"force,omitzero" doc:"Also below what it uses now."`
}

func (a *LimitArgs) check() error {
	if len(a.Set) > limit.Resources {
		return fmt.Errorf("set: %d limits, want at most %d", len(a.Set), limit.Resources)
	}
	_, err := limit.Parse(a.Set)
	return err
}
