package protocol

import "github.com/hostler-io/hostler/protocol/figures"

// Heartbeat describes a host, in pages. It is full after each hello and on request;
// else it has what has changed since Base, which a receipt has named. The host, its
// figures, the audit log and the digest are in part 1.
type Heartbeat struct {
	Header
	AsOf       uint64           `json:"as_of"` // numbers the heartbeats of a process; pages share it
	Base       uint64           `json:"base,omitzero"`
	Part       int              `json:"part"` // from 1
	Parts      int              `json:"parts"`
	Digest     Digest           `json:"digest,omitzero"`   // of the state after it, see package beat
	Host       *HostInfo        `json:"host,omitempty"`    // of a change only if more than figures has changed
	Figures    *figures.Figures `json:"figures,omitempty"` // of a change without host
	Containers []Container      `json:"containers,omitempty"`
	Removed    []string         `json:"removed,omitempty"` // containers, of a change
	Alerts     []AlertInfo      `json:"alerts,omitempty"`  // those that are raised
	Cleared    []string         `json:"cleared,omitempty"` // alerts, of a change
	Audit      Position         `json:"audit,omitzero"`    // head of the host's audit log
}

// HostInfo is a host as it sees itself.
type HostInfo struct {
	Hostname     string `json:"hostname"`
	Arch         string `json:"arch"`
	InstanceType string `json:"instance_type"` // host, or guest inside a container
	Version      string `json:"version"`
	Kernel       string `json:"kernel"`
	Boot         string `json:"boot"`
	CPUs         int    `json:"cpus"`
	MemoryBytes  int64  `json:"memory_bytes"`
	DiskBytes    int64  `json:"disk_bytes"` // of the state directory's file system
	figures.Figures
	Interfaces  []Interface `json:"interfaces,omitempty"`
	Unsupported []string    `json:"unsupported,omitempty"` // "lxc: liblxc.so.1 is missing": a feature and why
	Degraded    string      `json:"degraded,omitempty"`    // why it accepts nothing new
	Policy      *PolicyInfo `json:"policy,omitempty"`
	Rules       *RulesInfo  `json:"rules,omitempty"` // of alerts, from the coordinator
}

// PolicyInfo is the policy in force on a host.
type PolicyInfo struct {
	Source string `json:"source"`           // builtin, file (of the host's root) or document (signed)
	Number uint64 `json:"number,omitzero"`  // of a document
	Digest Digest `json:"digest,omitzero"`  // of its text
	Bypass bool   `json:"bypass,omitzero"`  // it accepts its holes
	Broken string `json:"broken,omitempty"` // why it cannot be used: then no request is allowed
}

// Interface is a network interface of a host.
type Interface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac"`
	Up        bool     `json:"up"`
	Addresses []string `json:"addresses,omitempty"` // CIDR
}

// Container is a container as its host sees it.
type Container struct {
	CTID     CTID   `json:"ctid,omitzero"` // none for a foreign one
	Name     string `json:"name"`
	Runtime  string `json:"runtime"`  // lxc or podman
	State    string `json:"state"`    // stopped, starting, running, stopping, frozen
	Intended string `json:"intended"` // running, stopped, or empty for a foreign one
	Class    string `json:"class"`    // pinned, unique, cloned; empty for a foreign one
	Offline  string `json:"offline"`  // keep or stop-after=8h; empty for a foreign one
	Broken   string `json:"broken,omitempty"`
	Failures int    `json:"failures,omitzero"` // failed starts in a row
	ContainerStatus
	// Privileged tells that root in it is root of its host.
	Privileged bool     `json:"privileged,omitzero"`
	Addresses  []string `json:"addresses,omitempty"`
	Labels     []string `json:"labels,omitempty"` // k=v, sorted
	// Volumes and Mounts are what it has from outside of its root directory, as package
	// mount writes them.
	Volumes []string `json:"volumes,omitempty"`
	Mounts  []string `json:"mounts,omitempty"`
}

// AlertInfo is an alert that is raised.
type AlertInfo struct {
	ID       string `json:"id"` // stable: "container.broken/<ctid>"
	Severity string `json:"severity"`
	Text     string `json:"text"`
	SinceMS  int64  `json:"since_ms"`
}
