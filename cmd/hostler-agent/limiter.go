package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/cgroup"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/protocol/limit"
)

// limiter limits containers by the control groups of this machine, and by the cables of
// their networks.
type limiter struct {
	supported []limit.Resource
}

// newLimiter finds out what can be limited here. missing says what cannot, and why.
func newLimiter() (l limiter, missing []string) {
	l.supported = cgroup.Supported()
	if err := network.CanShape(); err != nil {
		missing = append(missing, "limit.net: "+err.Error())
	} else {
		l.supported = append(l.supported, limit.Net)
	}
	slices.Sort(l.supported)
	return l, missing
}

func (l limiter) Supported() []limit.Resource { return l.supported }

func (limiter) Files(limits limit.Limits) ([]container.GroupFile, error) { return cgroup.Files(limits) }

func (limiter) Limit(init int, limits limit.Limits, force bool) error {
	groups := limits.Without(limit.Net)
	if len(groups) > 0 {
		g, err := cgroup.Of(init)
		if err == nil {
			err = g.Limit(groups, force)
		}
		if err != nil {
			return err
		}
	}
	value, wanted := limits[limit.Net]
	if !wanted {
		return nil
	}
	rate := int64(0)
	if value != limit.None {
		var err error
		if rate, err = limit.Number(limit.Net, value); err != nil {
			return err
		}
	}
	err := network.Shape(init, rate)
	if errors.Is(err, network.ErrNoCable) {
		return fmt.Errorf("%w: the container has no interface on a bridge of this host, so its network cannot be limited", container.ErrUnsupported)
	}
	return err
}

func (limiter) Effective(init int) (limit.Limits, error) {
	g, err := cgroup.Of(init)
	if err != nil {
		return nil, err
	}
	all, err := g.Effective()
	if err != nil {
		return nil, err
	}
	if rate, err := network.Shaped(init); err == nil && rate > 0 {
		all[limit.Net] = limit.Rate(rate)
	}
	return all, nil
}
