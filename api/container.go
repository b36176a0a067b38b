package api

import (
	"time"

	"github.com/hostler-io/hostler/protocol/contract"
)

// Container is a container as its host last told.
type Container struct {
	Host       string     `json:"host" doc:"The host that it is on"`
	Name       string     `json:"name" example:"web" doc:"Its name, which no other on its host has"`
	CTID       string     `json:"ctid,omitempty" doc:"Its id, which stays when it is renamed; left out for a foreign container"`
	Runtime    string     `json:"runtime" example:"lxc" doc:"What runs it"`
	State      string     `json:"state" doc:"Where it is in its life"`
	Intended   string     `json:"intended,omitempty" enum:"running,stopped" doc:"What it is meant to be; left out for a foreign container"`
	Class      string     `json:"class,omitempty" enum:"pinned,unique,cloned" doc:"How many of it there may be: pinned belongs to its host, unique is once in the fleet, cloned is interchangeable"`
	Offline    string     `json:"offline,omitempty" example:"keep" doc:"What it does while its host is cut off: keep, or stop-after=DURATION"`
	Broken     string     `json:"broken,omitempty" doc:"Why the host does not try to start it any more"`
	Failures   int        `json:"failures,omitempty" doc:"How often it has failed to start since it last ran"`
	Waits      string     `json:"waits,omitempty" doc:"Why it is not started, though it is meant to run: its offline contract, or what it is started after"`
	StartOrder int64      `json:"start_order,omitempty" doc:"When it is started, should several be: those of a lower number first, those without one last"`
	StartAfter []string   `json:"start_after,omitempty" doc:"The containers that are to run before it is started"`
	Health     string     `json:"health,omitempty" enum:"starting,healthy,unhealthy" doc:"What its check says; left out without one"`
	Backup     string     `json:"backup,omitempty" doc:"The newest backup of it that was read as a whole and found good"`
	BackupAt   *time.Time `json:"backup_at,omitempty" doc:"When that backup was made"`
	Restored   string     `json:"restored,omitempty" doc:"The backup from which its host made it, because its data are in backups: the name of the backup, the host that signed it, and its age then"`
	Privileged bool       `json:"privileged,omitempty" doc:"Root in the container is root of its host"`
	Addresses  []string   `json:"addresses" doc:"Its addresses"`
	Labels     []string   `json:"labels" doc:"Labels, each NAME=VALUE"`
	Volumes    []string   `json:"volumes,omitempty" example:"[\"data:/srv\"]" doc:"Its volumes, each NAME:/path, or NAME:/path:ro if it cannot change it"`
	Mounts     []string   `json:"mounts,omitempty" doc:"What it has of its host's files, each /host/path:/path, or /host/path:/path:ro"`
}

// OfflineForecast is what becomes of a container while its host is cut off.
type OfflineForecast struct {
	Name    string `json:"name" example:"web" doc:"The name of the container"`
	Offline string `json:"offline" example:"stop-after=8h" doc:"Its offline contract"`
	Then    string `json:"then" enum:"running,stopped" doc:"What it is at the end"`
	StopsIn string `json:"stops_in,omitempty" example:"2h" doc:"How long from now its contract stops it; left out if it does not"`
	Why     string `json:"why,omitempty" doc:"Why; left out if its user wants it so"`
}

// ContainerDetails is what a host knows of a container beyond what it tells with its
// heartbeats. It is asked for by an action of the kind container.inspect.
type ContainerDetails struct {
	Name    string `json:"name"`
	CTID    string `json:"ctid"`
	Runtime string `json:"runtime"`
	// What it was made with.
	Image    string   `json:"image"`
	Digest   string   `json:"digest,omitempty"`   // of the image's manifest; none of a template
	Hostname string   `json:"hostname,omitempty"` // none if it goes by its name
	Network  string   `json:"network,omitempty"`  // that it is attached to; none: the first one of the host
	Env      []string `json:"env,omitempty"`      // each NAME=VALUE, beside those of its image
	Command  []string `json:"command,omitempty"`  // none if it is that of its image
	// What it has now.
	Class      string           `json:"class"`
	Epoch      string           `json:"epoch,omitempty"` // under which a unique one runs, or ran last
	Offline    string           `json:"offline"`
	Labels     []string         `json:"labels"`
	Privileged bool             `json:"privileged"`
	Rootfs     string           `json:"rootfs,omitempty"` // overlay: it shares the files of its image; copy: all files are its own; none if its runtime decides that
	Ends       []ContainerEnd   `json:"ends"`             // the last ten times that it ended, the newest first
	Limits     []ContainerLimit `json:"limits"`           // what it may use at most
	Health     *contract.Check  `json:"health,omitempty"`
	contract.Schedules
	Volumes []string `json:"volumes,omitempty"`
	Mounts  []string `json:"mounts,omitempty"`
	Ports   []string `json:"ports"` // of the host, that lead to it, each HOST-PORT:CONTAINER-PORT/tcp or /udp
	InitPID int      `json:"init_pid,omitempty"`
	// Moving is where it is moved to; left out if it stays.
	Moving *ContainerMove `json:"moving,omitempty"`
	// Snapshots are those of its files, the newest first; none if its runtime makes none.
	Snapshots []ContainerSnapshot `json:"snapshots,omitempty"`
}

// ContainerMove is that a container was stopped to be moved to another host.
type ContainerMove struct {
	To  string `json:"to"`
	Ran bool   `json:"ran,omitempty"` // it was to run
}

// ContainerSnapshot is an earlier state of the files of a container.
type ContainerSnapshot struct {
	Name    string    `json:"name"`
	Made    time.Time `json:"made"`    // by the clock of the host
	Entries int       `json:"entries"` // files, directories and links
	Bytes   int64     `json:"bytes"`   // of all files
	Shared  bool      `json:"shared"`  // the file system shared the data when it was made
	Paused  bool      `json:"paused"`  // the container did not run meanwhile
	Damaged bool      `json:"damaged"` // its record cannot be read
}

// NetworkPart is something that a host has of networks for its containers.
type NetworkPart struct {
	Kind    string `json:"kind"`              // bridge, names, dhcp, cable, port, rule
	Name    string `json:"name"`              // of the device; of names the address to ask; of dhcp the bridge; of a port 8080:80/tcp; what a rule is for
	Network string `json:"network,omitempty"` // that it belongs to, by name; the first one of a host is called as its bridge
	Owner   string `json:"owner,omitempty"`   // name of the container; empty: of the whole network, or foreign
	Detail  string `json:"detail,omitempty"`  // for people
	// Orphan tells why the host does not use it and it may be removed; empty if it is in use.
	Orphan string `json:"orphan,omitempty"`
}

// ContainerLimit is what a container may use of a resource at most.
type ContainerLimit struct {
	Resource  string `json:"resource"`
	Set       string `json:"set,omitempty"`       // as it was asked for; none if the limit is not ours
	Effective string `json:"effective,omitempty"` // as the kernel keeps it; none while it is stopped
}

// ContainerEnd is how a container ended.
type ContainerEnd struct {
	At     time.Time `json:"at"`
	Code   *int      `json:"code,omitempty"`   // the exit code of its first process; neither this nor signal: unknown
	Signal string    `json:"signal,omitempty"` // the signal that ended it
	OOM    bool      `json:"oom,omitempty"`    // the kernel has killed a process of it for want of memory
	Asked  bool      `json:"asked,omitempty"`  // it was stopped by an action
	Cause  string    `json:"cause,omitempty"`  // order, contract, health, agent, host, oom, exit or crash; left out if it is not known
	Log    string    `json:"log,omitempty"`    // its last lines
}
