// Package contract is what a container promises while its host is cut off from its
// coordinator, and the order in which containers start; pure.
//
//	offline.go   what a container does while its host is cut off
//	absence.go   for how long a host was cut off
//	preview.go   what will become of containers if it is
package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The words of a contract.
const (
	Keep      = "keep"
	Lease     = "lease"
	stopAfter = "stop-after"
)

// Unique is the class of containers of which at most one copy runs at any time.
const Unique = "unique"

// CheckClass refuses a contract that does not fit a class: unique containers run by
// lease, or go on without one, and no others do.
func CheckClass(class, offline string) error {
	o, err := Parse(offline)
	switch {
	case err != nil:
		return fmt.Errorf("offline: %w", err)
	case class == Unique && o.StopAfter > 0:
		return fmt.Errorf("offline: a unique container has the contract %s (it stops when its lease ends) or %s (it goes on, and only a fence device or a person lets it start elsewhere)", Lease, Keep)
	case class != Unique && o.ByLease:
		return fmt.Errorf("offline: %s is the contract of unique containers: create it with --class %s", Lease, Unique)
	}
	return nil
}

// CheckChange refuses a change of class and contract. What is unique stays so, and keeps the
// contract of its creation: by that the coordinator knows when another copy may start.
func CheckChange(class, offline, toClass, toOffline string) error {
	if (class == Unique) != (toClass == Unique) {
		return errors.New("a unique container stays unique: create another one of the other class")
	}
	if err := CheckClass(toClass, toOffline); err != nil {
		return err
	}
	was, bad := Parse(offline)
	if to, err := Parse(toOffline); toClass == Unique && (errors.Join(bad, err) != nil || was != to) {
		return fmt.Errorf("offline: a unique container keeps the contract of its creation, which is %s, because the coordinator starts it elsewhere by that: create another one with %s", offline, toOffline)
	}
	return nil
}

// Bounds of the time of a contract. A coordinator that is there is heard every few
// seconds, and a message may be lost now and then: less than MinStopAfter would stop
// containers for that.
const (
	MinStopAfter = 30 * time.Second
	MaxStopAfter = 366 * 24 * time.Hour
	// Ever is longer than any contract.
	Ever = 2 * MaxStopAfter
)

// Offline is what a container does while its host is cut off. The zero value goes on.
type Offline struct {
	// StopAfter is how long the host may be cut off until the container is stopped; 0
	// is for ever.
	StopAfter time.Duration
	// ByLease tells that it stops when its lease ends: of unique containers alone.
	ByLease bool
}

// Parse reads a contract: keep (or nothing), or stop-after=8h.
func Parse(text string) (Offline, error) {
	switch text {
	case "", Keep:
		return Offline{}, nil
	case Lease:
		return Offline{ByLease: true}, nil
	}
	word, value, ok := strings.Cut(text, "=")
	if !ok || word != stopAfter {
		return Offline{}, fmt.Errorf("%.60q is not an offline contract: use %s, or %s=DURATION as in %s=8h; of a unique container %s or %s", text, Keep, stopAfter, stopAfter, Lease, Keep)
	}
	d, err := ParseDuration(value)
	switch {
	case err != nil:
		return Offline{}, fmt.Errorf("%s: %w", stopAfter, err)
	case d < MinStopAfter || d > MaxStopAfter:
		return Offline{}, fmt.Errorf("%s: %s is out of range: use %s to %s", stopAfter, value, Words(MinStopAfter), Words(MaxStopAfter))
	}
	return Offline{StopAfter: d}, nil
}

// String is the one way in which a contract is written.
func (o Offline) String() string {
	switch {
	case o.ByLease:
		return Lease
	case o.StopAfter == 0:
		return Keep
	}
	return stopAfter + "=" + Words(o.StopAfter)
}

// Left is how long the host may still be cut off after it was for away. It is nothing if
// the contract is used up, and forever is true if it never is.
func (o Offline) Left(away time.Duration) (left time.Duration, forever bool) {
	if o.StopAfter == 0 {
		return 0, true
	}
	return max(0, o.StopAfter-away), false
}

// Spent says why a container may not run on a host that was cut off for away; empty if
// it may.
func (o Offline) Spent(away time.Duration) string {
	if left, forever := o.Left(away); forever || left > 0 {
		return ""
	}
	return fmt.Sprintf("the host has been cut off from its coordinator for %s or more (%s): the container may run when the coordinator is heard again", Words(o.StopAfter), o)
}

// Words is a duration with as few units as it needs, as people type it.
func Words(d time.Duration) string {
	if day := 24 * time.Hour; d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParseDuration reads a duration as people type it: 90s, 1h30m, 7d.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d%time.Second == 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%.30q is not a duration of whole seconds: use a number with a unit, as in 90s, 5m, 8h or 7d", s)
}
