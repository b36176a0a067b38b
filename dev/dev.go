//go:build linux

package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/durable"
)

var (
	// ErrUp: a fleet of that name is up, or what was left of one is there.
	ErrUp = errors.New("the fleet is up already")
	// ErrNotUp: there is no fleet of that name.
	ErrNotUp = errors.New("the fleet is not up")
	// ErrBusy: another Up or Down of the same fleet is at work.
	ErrBusy = errors.New("another command is at work on it")
	// ErrRoot: namespaces, links and control groups need root.
	ErrRoot = errors.New("it takes root")
	// ErrNoNode: the fleet has no node of that name.
	ErrNoNode = errors.New("no such host")
	// ErrTaken: the name belongs to a fleet or a context of the operator's own.
	ErrTaken = errors.New("the name is in use")
	// ErrUnsupported: this machine lacks what nodes are made of.
	ErrUnsupported = errors.New("not supported here")
)

const (
	// Coordinator is the name of the node that the coordinator runs on.
	Coordinator = "coordinator"
	// MaxHosts bounds the hosts of a fleet, far below the addresses of a /24.
	MaxHosts = 64

	defaultRoot = "/var/lib/hostler-dev"
	httpPort    = "8443"
	mqttPort    = "8883"
	// patience is how long one step may take. A quiet machine needs a hundredth.
	patience = 60 * time.Second
)

// Config says whose fleet it is and where it lives.
type Config struct {
	// Name of the fleet, and of the operator's context: a lower-case letter and
	// up to 7 letters or digits. Names of links are made from it. Default "dev".
	Name string
	// Bin is the directory of the programs, absolute. Its hostler is started as
	// process 1 of each node, with the arguments that Init takes.
	Bin string
	// Root is where fleets keep their files, absolute. Default
	// /var/lib/hostler-dev. The paths of sockets begin with it: keep it short.
	Root string
	// Environ is the operator's environment: HOME, or XDG_CONFIG_HOME, is where
	// the owner's key and the context go.
	Environ []string
	// Progress is called with each step, concurrently. Default: no function.
	Progress func(step string)
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,7}$`)

// Fleet is a fleet on this machine, up or not. Its methods exclude one another
// over all processes by a lock.
type Fleet struct {
	cfg Config
}

// New returns the fleet of that name. It looks at nothing yet.
func New(cfg Config) (*Fleet, error) {
	if cfg.Name == "" {
		cfg.Name = "dev"
	}
	if cfg.Root == "" {
		cfg.Root = defaultRoot
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	if !nameForm.MatchString(cfg.Name) {
		return nil, fmt.Errorf("name %q: want a lower-case letter and up to 7 letters or digits", cfg.Name)
	}
	if !filepath.IsAbs(cfg.Bin) || !filepath.IsAbs(cfg.Root) {
		return nil, errors.New("the directories of programs and fleets must be absolute")
	}
	return &Fleet{cfg: cfg}, nil
}

// record is what a fleet keeps of itself, in fleet.json.
type record struct {
	Subnet   netip.Prefix `json:"subnet"`
	Hosts    int          `json:"hosts"`
	Operator operator     `json:"operator"`
}

func (f *Fleet) dir() string             { return filepath.Join(f.cfg.Root, f.cfg.Name) }
func (f *Fleet) path(name string) string { return filepath.Join(f.dir(), name) }
func (f *Fleet) bridge() string          { return "hd-" + f.cfg.Name }
func (f *Fleet) cables() string          { return f.bridge() + "." }

func (f *Fleet) program(name string) string {
	if slices.Contains(helpers, name) {
		return buildinfo.Helper(f.cfg.Bin, name)
	}
	return filepath.Join(f.cfg.Bin, name)
}

// maxFile bounds the record of a fleet, in bytes.
const maxFile = 64 << 10

func (f *Fleet) load() (record, error) {
	var r record
	b, err := durable.ReadFile(f.path("fleet.json"), maxFile)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("fleet %q: %w", f.cfg.Name, ErrNotUp)
	}
	return r, err
}

func (f *Fleet) save(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(f.path("fleet.json"), b, 0o600, maxFile)
}

// lock keeps every other Up, Down, Kill, Partition and Heal out. It needs the
// directory: ErrNotUp if there is none.
func (f *Fleet) lock() (unlock func(), err error) {
	if os.Geteuid() != 0 {
		return nil, ErrRoot
	}
	unlock, err = lockDir(f.dir(), unix.LOCK_NB)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = ErrNotUp
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrBusy
	}
	if err != nil {
		return nil, fmt.Errorf("fleet %q: %w", f.cfg.Name, err)
	}
	return unlock, nil
}

// lockRoot makes the directory of all fleets and keeps others from adding to
// it and from removing it. It waits for its turn, which is short.
func (f *Fleet) lockRoot() (unlock func(), err error) {
	for {
		if err := os.MkdirAll(f.cfg.Root, 0o711); err != nil {
			return nil, err
		}
		unlock, err = lockDir(f.cfg.Root, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return unlock, err
		}
	}
}

// lockDir locks a directory that is there; fs.ErrNotExist if it goes away
// before it is locked.
func lockDir(path string, how int) (unlock func(), err error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(d.Fd()), unix.LOCK_EX|how)
	if err == nil {
		var there, held fs.FileInfo
		if there, err = os.Lstat(path); err == nil {
			if held, err = d.Stat(); err == nil && !os.SameFile(there, held) {
				err = fs.ErrNotExist
			}
		}
	}
	if err != nil {
		d.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { d.Close() }, nil
}

// node is the coordinator or a host.
type node struct {
	fleet *Fleet
	name  string
	index int
	addr  netip.Prefix // of its eth0, with the length of the network
}

// firstNode is the last octet of the coordinator; the hosts follow.
const firstNode = 10

func (f *Fleet) node(r record, index int) node {
	name := Coordinator
	if index > 0 {
		name = fmt.Sprintf("edge-%02d", index)
	}
	octets := r.Subnet.Addr().As4()
	octets[3] = byte(firstNode + index)
	return node{fleet: f, name: name, index: index, addr: netip.PrefixFrom(netip.AddrFrom4(octets), r.Subnet.Bits())}
}

// nodes are all of a fleet, the coordinator first.
func (f *Fleet) nodes(r record) []node {
	var all []node
	for i := range r.Hosts + 1 {
		all = append(all, f.node(r, i))
	}
	return all
}

// find takes the lock and finds a node by its name.
func (f *Fleet) find(name string) (node, func(), error) {
	unlock, err := f.lock()
	if err != nil {
		return node{}, nil, err
	}
	r, err := f.load()
	if err != nil {
		unlock()
		return node{}, nil, err
	}
	for _, n := range f.nodes(r) {
		if n.name == name {
			return n, unlock, nil
		}
	}
	unlock()
	return node{}, nil, fmt.Errorf("%w: %q of fleet %q", ErrNoNode, name, f.cfg.Name)
}

func (n node) cable() string  { return n.fleet.cables() + strconv.Itoa(n.index) }
func (n node) state() string  { return n.fleet.path(n.name) }
func (n node) config() string { return n.fleet.path(n.name + ".toml") }
func (n node) log() string    { return n.fleet.path(n.name + ".log") }
func (n node) socket() string { return filepath.Join(n.state(), "agent.sock") }

// daemon is what the node runs.
func (n node) daemon() string {
	if n.index == 0 {
		return "hostler-coordinator"
	}
	return "hostler-agent"
}

// url is where the API is served.
func (f *Fleet) url(r record) string {
	return "https://" + f.node(r, 0).addr.Addr().String() + ":" + httpPort
}

// Status is a fleet as it is.
type Status struct {
	Name    string `json:"name"`
	Address string `json:"address"` // of the API
	Dir     string `json:"dir"`     // its files
	Bridge  string `json:"bridge"`
	Nodes   []Node `json:"nodes"` // the coordinator first
}

// Node is the coordinator or a host of it.
type Node struct {
	Name    string `json:"name"`
	State   string `json:"state"`   // running, partitioned, dead
	Address string `json:"address"` // in the network of the fleet
	// PID is that of its process 1 as this machine counts: nsenter -a -t PID
	// goes there. 0 if it is dead.
	PID    int    `json:"pid,omitempty"`
	Cable  string `json:"cable"`            // this machine's end of its link
	Socket string `json:"socket,omitempty"` // of the agent
	Log    string `json:"log"`
}

// The states of a node.
const (
	Running     = "running"
	Partitioned = "partitioned"
	Dead        = "dead"
)

// Status looks at the fleet; ErrNotUp if there is none.
func (f *Fleet) Status() (Status, error) {
	r, err := f.load()
	if err != nil {
		return Status{}, err
	}
	s := Status{Name: f.cfg.Name, Address: f.url(r), Dir: f.dir(), Bridge: f.bridge()}
	for _, n := range f.nodes(r) {
		seen, err := n.look()
		if err != nil {
			return Status{}, err
		}
		s.Nodes = append(s.Nodes, seen)
	}
	return s, nil
}

// Kill is a power failure of a node: everything on it dies at once, in the
// middle of whatever it does. What it has written stays, synced or not.
func (f *Fleet) Kill(ctx context.Context, name string) error {
	n, unlock, err := f.find(name)
	if err != nil {
		return err
	}
	defer unlock()
	return n.kill(ctx)
}

// Partition cuts a node off: what it sends and what it is sent is lost from
// now on, and neither side is told.
func (f *Fleet) Partition(_ context.Context, name string) error {
	n, unlock, err := f.find(name)
	if err != nil {
		return err
	}
	defer unlock()
	return n.unplug()
}

// Heal ends what was done to a node: a dead one boots, one that is cut off is
// connected again. It does not wait until the coordinator has noticed.
func (f *Fleet) Heal(ctx context.Context, name string) error {
	n, unlock, err := f.find(name)
	if err != nil {
		return err
	}
	defer unlock()
	seen, err := n.look()
	switch {
	case err != nil:
		return err
	case seen.State == Dead:
		_, err = n.boot(ctx, nil)
		return err
	}
	return n.plug()
}
