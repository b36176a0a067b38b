package api

import "time"

// Wishes say on which hosts a container may be, and on which it had better be.
type Wishes struct {
	Selector string   `json:"selector,omitempty" example:"site=lab,tier!=db" doc:"The labels that its host must have, or must not have; host=NAME names a host"`
	Prefer   []string `json:"prefer,omitempty" example:"[\"disk=ssd:50\"]" doc:"Labels of hosts that it had better be on, each LABEL=VALUE or host=NAME, with a score behind a colon; without one the score is 100"`
	Avoid    []string `json:"avoid,omitempty" example:"[\"rack=7\"]" doc:"Labels of hosts that it had better not be on, in the same form"`
	Near     []string `json:"near,omitempty" example:"[\"cache\"]" doc:"Unique containers that must be on its host, or had better be with a score behind a colon"`
	Apart    []string `json:"apart,omitempty" example:"[\"db-replica:50\"]" doc:"Unique containers that must not be on its host, or had better not be with a score behind a colon"`
	Discover []string `json:"discover,omitempty" example:"[\"never:rack=7\"]" doc:"Of which hosts it counts that they run a copy of it, each always, exclusive or never, a colon, and LABEL=VALUE or host=NAME. exclusive: it may be on these hosts alone, and they alone count. Where several fit, exclusive comes before never, and never before always. A host that none fits counts, unless some are exclusive"`
	After    []string `json:"after,omitempty" example:"[\"db\"]" doc:"Unique containers that are to run before the coordinator starts it. What runs already is not stopped when one of them stops"`
	Priority int      `json:"priority,omitempty" example:"10" doc:"Where there is no room for all, those with a higher priority run"`
}

// Availability is what people have decided about unique containers on a host.
type Availability struct {
	State  string     `json:"state" enum:"cordoned,draining,maintenance" doc:"cordoned: it takes no new ones; draining: those that it has leave, too; maintenance: nothing is decided about those that it has"`
	Reason string     `json:"reason,omitempty" doc:"Why"`
	By     string     `json:"by" doc:"The token that it was decided with"`
	Since  time.Time  `json:"since" doc:"Since when"`
	Until  *time.Time `json:"until,omitempty" doc:"When the maintenance ends by itself"`
}

// SetAvailability decides about a host.
type SetAvailability struct {
	State  string `json:"state" enum:"open,cordoned,draining,maintenance" example:"draining" doc:"What is to hold for unique containers on the host; open: it takes them"`
	Reason string `json:"reason,omitempty" example:"new disks" maxLength:"200" doc:"Why, for others"`
	For    string `json:"for,omitempty" example:"2h" doc:"How long a maintenance lasts; left out: until it is ended"`
}

// WhatIf is a question about other hosts than there are.
type WhatIf struct {
	Lose []string   `json:"lose,omitempty" example:"[\"edge-01\"]" doc:"Hosts that are to be counted as lost"`
	Add  []HostPlan `json:"add,omitempty" doc:"Hosts that are to be counted as there"`
}

// HostPlan is a host that could be added.
type HostPlan struct {
	Name   string   `json:"name" example:"edge-99" doc:"Its name"`
	Labels []string `json:"labels,omitempty" example:"[\"site=lab\"]" doc:"Its labels, each NAME=VALUE"`
	CPUs   float64  `json:"cpus,omitempty" example:"4" doc:"Its processors"`
	Memory int64    `json:"memory_bytes,omitempty" example:"8589934592" doc:"Its memory"`
	Disk   int64    `json:"disk_bytes,omitempty" example:"1000000000000" doc:"Its disk"`
}

// PlacementStep is a unique container that placement would have elsewhere, or that has no
// host.
type PlacementStep struct {
	Name string `json:"name" example:"db" doc:"The name of the container"`
	CTID string `json:"ctid" doc:"Its id"`
	From string `json:"from,omitempty" doc:"The host that it is on; left out if it is on none"`
	To   string `json:"to,omitempty" doc:"The host that it would be on; left out if no host can take it"`
	Why  string `json:"why,omitempty" doc:"Why it would move, or why no host can take it"`
	For  string `json:"for,omitempty" doc:"The container to which it gives way"`
	// Stays is about a container that should leave its host.
	Stays bool `json:"stays,omitempty" doc:"It should leave its host, and goes on there because no other host can take it"`
}

// Placement is what hosts say to a unique container.
type Placement struct {
	Lease
	Place    Wishes          `json:"place" doc:"On which hosts it may be"`
	Verdicts []Verdict       `json:"verdicts" doc:"What each host says to it, the best one first"`
	History  []PlacementPast `json:"history" doc:"What became of it, the newest last"`
}

// Verdict is what speaks for or against a host.
type Verdict struct {
	Host   string `json:"host" doc:"The host"`
	Score  int    `json:"score" doc:"The sum of the scores of all wishes that the host meets; the highest one is taken"`
	Reason string `json:"reason,omitempty" doc:"Why the host cannot take it; left out if it can"`
}

// PlacementPast is something that became of a unique container.
type PlacementPast struct {
	At    time.Time `json:"at" doc:"When"`
	Host  string    `json:"host" doc:"The host that it was about"`
	Epoch string    `json:"epoch" doc:"Its epoch since"`
	Phase string    `json:"phase" doc:"Its phase since"`
	Why   string    `json:"why,omitempty" doc:"Why"`
}
