package api

import "time"

// Lease is where a unique container stands: which host may run it, until when, and what
// is waited for.
type Lease struct {
	Name      string    `json:"name" example:"db" doc:"The name of the container"`
	CTID      string    `json:"ctid" doc:"Its id, which is the same on every host"`
	Host      string    `json:"host" doc:"The host that holds it, or held it last"`
	Epoch     string    `json:"epoch" example:"1.7.3" doc:"What orders its copies: ring, term and number. A higher one ends a lower one"`
	Phase     string    `json:"phase" enum:"held,withheld,free" doc:"held: its host may run it; withheld: its host is not let any more, and may still run it; free: it runs nowhere and waits for a host"`
	Why       string    `json:"why,omitempty" doc:"Why it stands so, or what is waited for"`
	LeftMS    int64     `json:"left_ms" doc:"How long the lease of its host is still good for, in milliseconds; 0 if it is not"`
	SelfFence string    `json:"self_fence,omitempty" example:"guard" doc:"What has been seen to kill it on its host when the agent does not: none, guard or watchdog"`
	Data      string    `json:"data" enum:"none,shared,local" doc:"Where its data are. What has local data is never started on another host"`
	Keeps     bool      `json:"keeps,omitempty" doc:"It goes on without a lease: only a fence device or a person lets it start elsewhere"`
	Banned    []string  `json:"banned,omitempty" doc:"Hosts on which it did not start"`
	Copies    []string  `json:"copies,omitempty" doc:"Hosts that run it although they may not, and what becomes of that"`
	ChangedAt time.Time `json:"changed_at" doc:"Since when it stands so"`
}
