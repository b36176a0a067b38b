package main

import (
	"github.com/hostler-io/hostler/internal/cgroup"
	"github.com/hostler-io/hostler/protocol/limit"
)

// limiter limits containers by the control groups of this machine.
type limiter struct{ supported []limit.Resource }

func (l limiter) Supported() []limit.Resource { return l.supported }

func (limiter) Limit(init int, limits limit.Limits, force bool) error {
	g, err := cgroup.Of(init)
	if err != nil {
		return err
	}
	return g.Limit(limits, force)
}

func (limiter) Effective(init int) (limit.Limits, error) {
	g, err := cgroup.Of(init)
	if err != nil {
		return nil, err
	}
	return g.Effective()
}
