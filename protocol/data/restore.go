package data

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
)

// Restore asks for a container that is made from a backup.
type Restore struct {
	BackupName
	Start bool `json:"start,omitzero" doc:"Start it too."`
	Arrival
}

// Arrival is how a container is kept that comes from another host and goes there. What gives
// it power over its host stands in what is asked for, and is not taken from the backup.
type Arrival struct {
	KeepIdentity bool     `json:"keep_identity,omitzero" doc:"It is the container that was backed up, which goes from its host: its id, hardware address, machine id and keys stay. Its id is that of the backup. If it is there already, it is started."`
	Privileged   bool     `json:"privileged,omitzero" doc:"Root in it is root of its host. Else it has users of its own."`
	Hostname     string   `json:"hostname,omitzero" example:"\"web\"" doc:"The name that it calls itself. Empty is the name of the container."`
	Network      string   `json:"network,omitzero" example:"\"back\"" doc:"The network of the host that it is attached to. Left out: its first one."`
	Volumes      []string `json:"volumes,omitempty" example:"[\"data:/srv\"]" doc:"Its volumes, each NAME:/path or NAME:/path:ro. Their files are in the backup, and no volume of these names is on the host."`
	Mounts       []string `json:"mounts,omitempty" example:"[\"/etc/ssl/certs:/etc/ssl/certs:ro\"]" doc:"Files and directories of the host, each /host/path:/path or /host/path:/path:ro."`
	Expose       []string `json:"expose,omitempty" example:"[\"8080:80/tcp\"]" doc:"Ports of the host that lead to it, each HOST-PORT:CONTAINER-PORT/tcp or /udp."`
	StartOrder   int64    `json:"start_order,omitzero" min:"-1" max:"1000" example:"10" doc:"When it is started, should several be: those of a lower number first, those without one last."`
	WaitMS       int64    `json:"wait_ms,omitzero" min:"0" max:"3000000" example:"120000" doc:"How long it may take until it is healthy, in milliseconds. 0 is as long as its check allows. One without a check has to run for 10 seconds."`
}

// Departure notes that a container is stopped because it goes to another host.
type Departure struct {
	MovingTo string `json:"moving_to,omitzero" example:"\"edge-02\"" doc:"The host that the container is moved to. It is noted with whether the container was to run, until a person starts or stops it. A removal that names it is made while that is noted, and else refused."`
}

// word is a name of a container, and of a host.
var word = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check reports what is wrong with it.
func (r *Restore) Check() error {
	switch {
	case !r.KeepIdentity && !reflect.ValueOf(r.Arrival).IsZero():
		return errors.New("keep_identity: how a container is kept comes from its backup; to say it, ask for its identity, too")
	case r.Hostname != "" && !word.MatchString(r.Hostname):
		return fmt.Errorf("hostname: %.80q: want 1 to 63 of a-z, 0-9 and inner hyphens", r.Hostname)
	}
	return r.BackupName.Check()
}

// Check reports what is wrong with it.
func (d *Departure) Check() error {
	if d.MovingTo != "" && !word.MatchString(d.MovingTo) {
		return fmt.Errorf("moving_to: %.80q is no name of a host", d.MovingTo)
	}
	return nil
}
