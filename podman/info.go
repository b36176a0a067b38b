package podman

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/hostler-io/hostler/container"
)

// The labels of a container of ours.
const (
	labelCTID     = "hostler.ctid"
	labelTemplate = "hostler.template"
	labelNetwork  = "hostler.network" // container.Network in JSON; none without an interface
	labelIDs      = "hostler.ids"     // the first of its ids of the host; none of a privileged one
	labelUpgrade  = "hostler.upgrade" // the key of the upgrade that has made it
)

// Words of podman for the states of a container.
const (
	statusInitialized = "initialized" // its namespaces are there, and nothing of it runs
)

// stateOf translates podman's word.
func stateOf(status string) container.State {
	switch status {
	case "created", "configured", "stopped", "exited", "removing":
		// One whose removal was cut short runs no more, and can be removed again.
		return container.StateStopped
	case statusInitialized:
		return container.StateStarting
	case "running":
		return container.StateRunning
	case "paused":
		return container.StateFrozen
	case "stopping":
		return container.StateStopping
	}
	return container.StateUnknown
}

// listed is a container as the list has it.
type listed struct {
	ID     string `json:"Id"`
	Names  []string
	State  string
	PID    int `json:"Pid"`
	Labels map[string]string
}

func (l listed) name() string {
	if len(l.Names) == 0 {
		return ""
	}
	return l.Names[0]
}

// info is what a container of ours is; it has labels for all that the list lacks.
func (l listed) info() container.Info {
	return infoOf(l.name(), l.State, l.PID, l.Labels)
}

// infoOf is what the labels tell of a container.
func infoOf(name, status string, pid int, labels map[string]string) container.Info {
	i := container.Info{
		Name: name, Kind: container.KindPodman, CTID: container.CTID(labels[labelCTID]), State: stateOf(status),
		Template: labels[labelTemplate], Privileged: labels[labelIDs] == "",
	}
	if i.State == container.StateRunning || i.State == container.StateFrozen {
		i.InitPID = pid
	}
	if first, err := firstID(labels); err == nil && first != 0 {
		i.IDs = container.IDRange{First: first, Count: idsEach}
	}
	n := networkOf(labels)
	i.MAC = n.MAC
	if n.Address.IsValid() {
		i.Addresses = []netip.Addr{n.Address.Addr()}
	}
	return i
}

func networkOf(labels map[string]string) (n container.Network) {
	if err := json.Unmarshal([]byte(labels[labelNetwork]), &n); err != nil {
		return container.Network{}
	}
	return n
}

// details is a container as podman has it on request.
type details struct {
	ID   string `json:"Id"`
	Name string
	madeOf
	OCIConfigPath string
	OCIRuntime    string
	StaticDir     string // of files that go with it
	Pod           string
	State         struct {
		Status    string
		PID       int `json:"Pid"`
		ConmonPID int `json:"ConmonPid"` // of its monitor
		ExitCode  int
	}
	Path   string // what runs in it, and its arguments
	Args   []string
	Config struct {
		Labels           map[string]string
		Env, Cmd         []string
		User, WorkingDir string
		StopSignal       json.RawMessage // a number, or since podman 5 a name
	}
	GraphDriver storage
	mark        *mark // of one that was adopted
	HostConfig  hostConfig

	NetworkSettings struct {
		address
		Networks map[string]address
	}
}

// madeOf is the image of a container: its id, its name, and the digest of its manifest.
type madeOf struct{ Image, ImageName, ImageDigest string }

// hostConfig is what podman was asked for when it made a container.
type hostConfig struct {
	AutoRemove    bool
	CgroupManager string
	RestartPolicy struct{ Name string }
	IDMappings    *struct {
		UIDMap []string `json:"UidMap"`
		GIDMap []string `json:"GidMap"`
	}
}

// address is that of an interface which podman has made.
type address struct {
	IPAddress         string
	GlobalIPv6Address string
	MacAddress        string
}

func (d details) ctid() container.CTID { return container.CTID(d.Config.Labels[labelCTID]) }

func (d details) network() container.Network { return networkOf(d.Config.Labels) }

func (d details) info() container.Info {
	i := infoOf(d.Name, d.State.Status, d.State.PID, d.Config.Labels)
	i.Digest = d.ImageDigest
	if i.CTID != "" && d.mark == nil {
		return i
	}
	// What was not made by us has no labels of ours that mean anything.
	i.Template, i.MAC, i.Addresses = d.ImageName, "", nil
	i.Privileged = d.HostConfig.IDMappings == nil || len(d.HostConfig.IDMappings.UIDMap) == 0
	all := []address{d.NetworkSettings.address}
	for _, a := range d.NetworkSettings.Networks {
		all = append(all, a)
	}
	for _, a := range all {
		if i.MAC == "" {
			i.MAC = a.MacAddress
		}
		for _, s := range []string{a.IPAddress, a.GlobalIPv6Address} {
			if ip, err := netip.ParseAddr(s); err == nil && !contains(i.Addresses, ip) {
				i.Addresses = append(i.Addresses, ip)
			}
		}
	}
	return i
}

func contains(all []netip.Addr, ip netip.Addr) bool {
	for _, a := range all {
		if a == ip {
			return true
		}
	}
	return false
}

// list returns the containers that match the filters of podman, without those that are the
// other one of two.
func (r *Runtime) list(ctx context.Context, filters map[string][]string) ([]listed, error) {
	all, err := r.listAll(ctx, filters)
	return slices.DeleteFunc(all, listed.aside), err
}

// listAll returns these, too.
func (r *Runtime) listAll(ctx context.Context, filters map[string][]string) (all []listed, err error) {
	query := url.Values{"all": {"true"}}
	if filters != nil {
		b, err := json.Marshal(filters)
		if err != nil {
			return nil, err
		}
		query.Set("filters", string(b))
	}
	err = r.api.call(ctx, http.MethodGet, "/containers/json", query, nil, &all)
	return all, err
}

// endsMet is how often an inspection is tried while processes end under it. A container
// has one first process: the second try finds that it is gone.
const endsMet = 3

// inspect returns one container, by its name or whole id. Podman takes the beginning of
// an id for it, too.
func (r *Runtime) inspect(ctx context.Context, name string) (d details, err error) {
	for range endsMet {
		err = r.api.call(ctx, http.MethodGet, "/containers/"+url.PathEscape(name)+"/json", nil, nil, &d)
		// A process that ends while podman reads of it in /proc fails the whole answer.
		if p, ok := errors.AsType[*problem](err); !ok || p.Cause != syscall.ESRCH.Error() {
			break
		}
	}
	if err == nil && d.Name != name && d.ID != name {
		err = container.ErrNotFound
	}
	if err == nil {
		err = d.readMark()
	}
	if errors.Is(err, container.ErrNotFound) {
		return details{}, container.ErrNotFound
	}
	return d, err
}

// What is told of a container's last words.
const (
	lastLines = "10"
	maxWords  = 4 << 10
)

// lastWords are the last lines of a container's log, for an error message.
func (r *Runtime) lastWords(ctx context.Context, id string) string {
	query := url.Values{"stdout": {"true"}, "stderr": {"true"}, "tail": {lastLines}}
	body, err := r.api.open(ctx, http.MethodGet, "/containers/"+id+"/logs", query, nil)
	if err != nil {
		return "; its log cannot be read: " + err.Error()
	}
	defer body.Close()
	words := strings.ToValidUTF8(strings.TrimSpace(string(frames(io.LimitReader(body, maxProblem)))), "\uFFFD")
	if words == "" {
		return "; its log is empty"
	}
	return fmt.Sprintf("; its last words: %s", words[max(0, len(words)-maxWords):])
}

// frames takes apart what podman sends of several streams in one: 8 bytes, the last
// four of which are the length of what follows.
func frames(from io.Reader) (text []byte) {
	var head [8]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return text
		}
		b, err := io.ReadAll(io.LimitReader(from, int64(binary.BigEndian.Uint32(head[4:]))))
		if text = append(text, b...); err != nil {
			return text
		}
	}
}
