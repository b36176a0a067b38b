// Package oom judges whether processes were killed for want of memory: of the host, or of a
// container within its limit. It is pure: samples go in, alerts that change come out.
package oom

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/metrics"
	"github.com/hostler-io/hostler/protocol"
)

// calm is how long nothing must have been killed until an alert about it is cleared.
const calm = 15 * time.Minute

// Judge remembers what was killed, and which alerts are raised. It is for one goroutine.
type Judge struct {
	raised map[string]bool          // alerts, by id, as the queue has them
	last   map[string]time.Duration // when something was killed, on the boot clock
	// limited are the containers that were at their limit in the sample before: the kernel
	// counts that before it counts what it has killed then.
	limited map[string]bool
}

// New takes the alerts that are raised, by their ids. When that happened is not known: they
// count from now, a time of the boot clock.
func New(raised []string, now time.Duration) Judge {
	o := Judge{make(map[string]bool), make(map[string]time.Duration), make(map[string]bool)}
	for _, id := range raised {
		if id == string(warnings.HostOOM) || strings.HasPrefix(id, string(warnings.ContainerOOM)+"/") {
			o.raised[id], o.last[id] = true, now
		}
	}
	return o
}

// Changes returns the alerts that change with a sample. They are told again until [Judge.Told].
func (o Judge) Changes(s metrics.Sample, now time.Duration) (changes []protocol.Alert) {
	var host, within float64
	at := s.At.UnixMilli()
	byHost := o.byHost(s)
	for _, v := range s.Values {
		switch {
		case v.Metric != metrics.OOM || v.Mean <= 0:
		case v.Container == "":
			host = v.Mean
		case byHost[v.Container]:
		default:
			within += v.Mean
			o.last[warnings.ID(warnings.ContainerOOM, v.Container)] = now
		}
	}
	if host > within { // those that containers have had within their limits count for the host as well
		o.last[string(warnings.HostOOM)] = now
	}
	for id, last := range o.last {
		is := now-last < calm
		if !is && !o.raised[id] {
			delete(o.last, id)
		}
		if is == o.raised[id] {
			continue
		}
		code, container, _ := strings.Cut(id, "/")
		text := "no process was killed for want of memory for 15 minutes"
		switch {
		case is && container != "":
			text = fmt.Sprintf("a process of container %s was killed, because the container has used all memory that it may", container)
		case is:
			text = "a process was killed, because the memory of the host was used up"
		}
		changes = append(changes, protocol.Alert{Raised: is, AlertInfo: warnings.New(warnings.Code(code), container, text, at)})
	}
	return changes
}

// byHost returns the containers that are not at their limit, as the kernel tells it. A kill in
// one of them was for want of memory of the host. Version 1 of control groups does not tell.
func (o Judge) byHost(s metrics.Sample) map[string]bool {
	not, limited := make(map[string]bool), make(map[string]bool)
	for _, v := range s.Values {
		if v.Metric != metrics.OOMLimit {
			continue
		}
		limited[v.Container] = v.Mean > 0
		not[v.Container] = v.Mean <= 0 && !o.limited[v.Container]
	}
	clear(o.limited)
	maps.Copy(o.limited, limited)
	return not
}

// Told notes a change that is durable.
func (o Judge) Told(a protocol.Alert) {
	if o.raised[a.ID] = a.Raised; !a.Raised {
		delete(o.raised, a.ID)
		delete(o.last, a.ID)
	}
}
