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
	SelfFence string    `json:"self_fence,omitempty" example:"guard" doc:"What has been seen to kill it on its host when the agent does not: none, guard, reboot or watchdog"`
	Data      string    `json:"data" enum:"none,shared,local,backup" doc:"Where its data are. What has local data is never started on another host; what has backup is made of its newest backup when its host is lost"`
	Restored  string    `json:"restored,omitempty" doc:"The backup from which a host made it last, and the age of the backup then"`
	Keeps     bool      `json:"keeps,omitempty" doc:"It goes on without a lease: only a fence device or a person lets it start elsewhere"`
	Banned    []string  `json:"banned,omitempty" doc:"Hosts on which it did not start"`
	Copies    []string  `json:"copies,omitempty" doc:"Hosts that run it although they may not, and what becomes of that"`
	ChangedAt time.Time `json:"changed_at" doc:"Since when it stands so"`
	// Move and Moved are what people have asked for.
	Move  *Move    `json:"move,omitempty" doc:"The move of it that a person has asked for and that is under way"`
	Moved *MoveEnd `json:"moved,omitempty" doc:"The newest move of it that has ended"`
}

// Move is the move of a unique container to a host that a person named.
type Move struct {
	To     string    `json:"to" example:"edge-02" doc:"The host that it goes to"`
	By     string    `json:"by" doc:"The token that it was asked for with"`
	Reason string    `json:"reason,omitempty" doc:"Why, for others"`
	At     time.Time `json:"at" doc:"When it was asked for"`
}

// MoveEnd is a move that has ended.
type MoveEnd struct {
	Move
	Dropped string    `json:"dropped,omitempty" doc:"Why it did not go there; left out if it did"`
	EndedAt time.Time `json:"ended_at" doc:"When it had ended"`
}

// AskMove asks for the move of a unique container.
type AskMove struct {
	Host   string `json:"host" example:"edge-02" doc:"The host that it is to go to"`
	Reason string `json:"reason,omitempty" example:"new disks" maxLength:"200" doc:"Why, for others"`
}
