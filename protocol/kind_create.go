package protocol

import (
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/setting"
)

// KindCreate makes a container from a template or an image.
const KindCreate Kind = "container.create"

func kindCreate() KindInfo {
	i := lifecycle(KindCreate, "Create a container from a template or an image.", new(CreateArgs))
	i.Creates, i.RootEquivalent = true, true
	return i
}

// CreateArgs are the arguments of a create.
type CreateArgs struct {
	_        struct{} `required:"template"`
	Template string   `json:"template,omitzero" example:"\"busybox\"" doc:"What it is made from: an image such as registry.example/debian:12, or a template of the host."`
	// Empty is what can use the template: podman for an image where there is podman, and
	// else LXC.
	Runtime string   `json:"runtime,omitzero" enum:"lxc,podman" doc:"lxc or podman. The default is what can use the template: podman for an image, where there is podman."`
	Pull    string   `json:"pull,omitzero" enum:"missing,always,never" doc:"When its image is fetched: missing (the default), if the host does not have it; always, although it may; never."`
	Class   string   `json:"class,omitzero" enum:"pinned,cloned,unique" doc:"pinned (the default), cloned, or unique: at most one copy of it runs at any time."`
	Offline string   `json:"offline,omitzero" example:"\"stop-after=8h\"" doc:"What it does while its host is cut off: keep (the default) goes on, stop-after=DURATION stops after that time."`
	Labels  []string `json:"labels,omitempty" example:"[\"tier=web\"]" doc:"Labels, each NAME=VALUE."`
	Start   bool     `json:"start,omitzero" doc:"Start it too."`
	// What was asked for before there was this field is not privileged either.
	Expose     []string `json:"expose,omitempty" example:"[\"8080:80/tcp\"]" doc:"Ports of the host that lead to it, each HOST-PORT:CONTAINER-PORT/tcp or /udp."`
	Volumes    []string `json:"volumes,omitempty" example:"[\"data:/srv\"]" doc:"Volumes of the host, each NAME:/path or NAME:/path:ro. One that is not there is made; it stays when the container goes."`
	Mounts     []string `json:"mounts,omitempty" example:"[\"/etc/ssl/certs:/etc/ssl/certs:ro\"]" doc:"Files and directories of the host, each /host/path:/path or /host/path:/path:ro."`
	Privileged bool     `json:"privileged,omitzero" doc:"Root in it is root of its host. Else it has users of its own."`
	Limits     []string `json:"limits,omitempty" example:"[\"memory=256MiB\"]" doc:"What it may use at most, each RESOURCE=VALUE, as container.limit takes them."`
	Env        []string `json:"env,omitempty" example:"[\"LANG=C.UTF-8\"]" doc:"Variables of its first process, each NAME=VALUE, beside those of its image."`
	Data       string   `json:"data,omitzero" enum:"none,shared,local,backup" example:"\"none\"" doc:"Where a unique container keeps its data. One with local data, the default, is never started on another host; one with none or shared data is. One with backup is made of its newest backup when its host is lost."`
	// Restore is what the coordinator adds when a unique container with data=backup is made
	// anew: the hosts that have held it, whose backups of it count.
	Restore  []HostID        `json:"restore,omitempty" example:"[\"edge-07\"]" doc:"Make it of its newest backup at the targets of the host, signed by one of these hosts. Only for a unique container with data backup."`
	Epochs   []Epoch         `json:"epochs,omitempty" doc:"The highest epoch that each of the hosts in restore has had. What one has signed under a higher epoch is not taken."`
	Network  string          `json:"network,omitzero" example:"\"back\"" doc:"The network of the host that it is attached to. Left out: its first one."`
	Hostname ContainerName   `json:"hostname,omitzero" example:"\"web\"" doc:"The name that it calls itself. Empty is the name of the container."`
	Command  []string        `json:"command,omitempty" example:"[\"sleep\",\"infinity\"]" doc:"What runs in it, in place of the command of its image. A template has an init of its own and takes none."`
	Health   *contract.Check `json:"health,omitempty" doc:"How it is looked at while it runs."`
	contract.Schedules
}

// MaxRestore bounds the hosts whose backups of one container count.
const MaxRestore = 32

func (c *CreateArgs) check() error {
	if c.Data != "" && c.Class != contract.Unique {
		return errors.New("data: only a unique container can go to another host: create it with class unique")
	}
	if len(c.Restore) > 0 && c.Data != "backup" || len(c.Restore) > MaxRestore || len(c.Epochs) > 0 && len(c.Epochs) != len(c.Restore) {
		return fmt.Errorf("restore: name up to %d hosts, of a unique container with data backup, and the epochs of all or none", MaxRestore)
	}
	if err := CheckNetwork(c.Network); c.Network != "" && err != nil {
		return err
	}
	n := setting.New{Template: c.Template, Class: c.Class, Offline: c.Offline, Limits: c.Limits, Env: c.Env, Command: c.Command, Expose: c.Expose, Volumes: c.Volumes, Mounts: c.Mounts, Health: c.Health, Schedules: c.Schedules}
	if err := n.Check(); err != nil {
		return err
	}
	return checkPairs("labels", c.Labels)
}
