// Package warnings declares every alert that a host can raise: its code, what it means,
// how bad it is, and what a person does about it.
//
// An alert is made by [New] or [Measured] alone, of a code that stands in the table, so
// that none is raised that doc/alerts.md and hostler alert show do not explain. The id
// of an alert is its code, and a slash and its subject if it has one:
// "container.broken/0190…", "measured.disk.critical//srv".
package warnings

import (
	"slices"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// Code names a warning.
type Code string

// The warnings that the agent raises by itself.
const (
	ContainerBroken    Code = "container.broken"
	ContainerUnhealthy Code = "container.unhealthy"
	ContainerOOM       Code = "container.oom"
	HostDegraded       Code = "host.degraded"
	HostOOM            Code = "host.oom"
	AuditRolledBack    Code = "audit.rolled_back"
	SinkAway           Code = "sink.away"
	SinkLost           Code = "sink.lost"
	NetworkDHCP        Code = "network.dhcp"
	NetworkNames       Code = "network.names"
)

// The warnings about hosts that the coordinator raises by itself.
const (
	FenceDevice Code = "coordinator.fence_device"
	FenceNeeded Code = "coordinator.fence_needed"
	HostFenced  Code = "coordinator.fenced"
	SecondCopy  Code = "coordinator.second_copy"
	RunsNowhere Code = "coordinator.workload_waits"
)

// How bad a warning is.
const (
	Critical = "critical"
	Minor    = "warning"
	// ByRule is the severity of what a rule raises: the rule names it.
	ByRule = "as its rule says"
)

// Warning is what is known of an alert before it is raised.
type Warning struct {
	Code Code
	// Title is the warning in a few words.
	Title string
	// Severity is Critical, Minor or ByRule.
	Severity string
	// Text says what has happened when it is raised.
	Text string
	// Runbook has the steps of a person, one to an element, with the commands to type.
	Runbook []string
}

// All returns the warnings in the order of their codes. The caller must not change them.
func All() []Warning { return all }

// Of returns the warning of an alert's id or of a code.
func Of(id string) (Warning, bool) {
	code, _, _ := strings.Cut(id, "/")
	for {
		if i := slices.IndexFunc(all, func(w Warning) bool { return string(w.Code) == code }); i >= 0 {
			return all[i], true
		}
		dot := strings.LastIndexByte(code, '.') // the severity of a rule stands behind it
		if dot < 0 {
			return Warning{}, false
		}
		code = code[:dot]
	}
}

// New is the alert of a warning, about a subject if it has several: a container or a
// target. sinceMS is the wall clock.
func New(code Code, subject, text string, sinceMS int64) protocol.AlertInfo {
	w, _ := Of(string(code))
	return protocol.AlertInfo{ID: ID(code, subject), Severity: w.Severity, Text: text, SinceMS: sinceMS}
}

// ID is the id of the alert that [New] makes.
func ID(code Code, subject string) string {
	if subject == "" {
		return string(code)
	}
	return string(code) + "/" + subject
}

// Measured is the alert that a rule raises, with the id, severity and text that package
// alerts has found.
func Measured(id, severity, text string, sinceMS int64) protocol.AlertInfo {
	return protocol.AlertInfo{ID: id, Severity: severity, Text: text, SinceMS: sinceMS}
}
