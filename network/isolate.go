package network

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// These end the texts of the rules that isolate a network. Both follow its bridge.
const (
	leadsNowhere = " leads nowhere"
	notReached   = " is not reached"
)

// isolated are the rules of the isolated networks, and of no others.
func (r Rules) isolated() Rules {
	alone := Rules{Mark: r.Mark, Partial: true}
	for _, s := range r.Subnets {
		if s.Isolated {
			alone.Subnets = append(alone.Subnets, s)
		}
	}
	return alone
}

// isolate writes the rules of the isolated networks, after those of all could not be
// written: they need less of the kernel than ports and NAT. If that fails as well, the
// bridges that lack them are switched off.
func (r Rules) isolate() error {
	alone := r.isolated()
	if len(alone.Subnets) == 0 {
		return nil
	}
	err := alone.write(alone.wanted())
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", ErrNotIsolated, err)
	have, unread := Marked(r.Mark) // what cannot be read is not there
	for _, s := range alone.Subnets {
		there := func(text string) bool { return slices.Contains(have, Rule{Chain: chainForward, Text: s.Bridge + text}) }
		if unread != nil || !there(leadsNowhere) || !there(notReached) {
			err = errors.Join(err, switchOff(s.Bridge))
		}
	}
	return err
}

// switchOff has a bridge pass nothing.
func switchOff(name string) error {
	link, err := bridge(name)
	if missing(err) {
		return nil
	}
	if err == nil {
		err = netlink.LinkSetDown(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("bridge %q: switching it off: %w", name, err)
	}
	return nil
}

// switchOn undoes what switchOff has done to isolated networks, whose rules are there now.
func (r Rules) switchOn() error {
	var failed []error
	for _, s := range r.isolated().Subnets {
		link, err := bridge(s.Bridge)
		if missing(err) {
			continue
		}
		if err == nil && link.Attrs().RawFlags&unix.IFF_UP == 0 {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("bridge %q: switching it on: %w", s.Bridge, err))
		}
	}
	return errors.Join(failed...)
}
