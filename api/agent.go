package api

// SupportText is what an agent tells those who help, under /v1/support/NAME of its socket:
// config, its settings in force with where each comes from, or fsck, what a crash or a
// person has left. It is not redacted.
type SupportText struct {
	Text string `json:"text"`
}

// AgentStatus is one look at the agent of a host, under /status of its socket.
type AgentStatus struct {
	Host       string `json:"host"`
	Version    string `json:"version"`
	Fleet      string `json:"fleet,omitempty"` // by name; none for a host that joined none
	FleetID    string `json:"fleet_id,omitempty"`
	Ring       uint64 `json:"ring,omitempty"`
	Term       string `json:"term,omitempty"` // ring.counter, the newest that was seen
	Connection string `json:"connection"`     // none, connecting, online
	Degraded   string `json:"degraded,omitempty"`
	Starts     uint64 `json:"starts"`  // of this agent, ever
	Waiting    int    `json:"waiting"` // actions that have not begun
	Running    int    `json:"running"`
	Unsent     uint64 `json:"unsent"` // reports and alerts without a receipt
	Containers int    `json:"containers"`
	Broken     int    `json:"broken"`
	Policy     Policy `json:"policy"` // in force here
}
