package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
)

// What a caller may branch on. Runtimes wrap them with the path of what they
// were doing; test with errors.Is.
var (
	// ErrNotFound: no container of that name, or one whose creation never finished.
	ErrNotFound = errors.New("container not found")
	// ErrExists: the name or the CTID belongs to another container.
	ErrExists = errors.New("container exists")
	// ErrNotRunning: the operation needs a running container.
	ErrNotRunning = errors.New("container not running")
	// ErrUnsupported: this host, runtime or container cannot do it; trying again is no use.
	ErrUnsupported = errors.New("unsupported")
	// ErrTimeout: the operation did not end within its deadline and was
	// killed. Whether it took effect is unknown: look again.
	ErrTimeout = errors.New("deadline exceeded")
	// ErrBusy: another operation holds the container, or it is in a state
	// (running, for Destroy) that must be left first. Trying again may help.
	ErrBusy = errors.New("container busy")
	// ErrUnavailable: the runtime's service does not answer. Nothing was done; it may
	// be back at any time.
	ErrUnavailable = errors.New("unavailable")
	// ErrInterrupted: who did the operation was killed under it, by no doing of
	// the caller. How far it came is unknown; asking again goes on from there.
	ErrInterrupted = errors.New("operation interrupted")
)

// Runtime is one container technology on this host.
//
// All methods may be called concurrently, for the same container as well: a
// runtime serializes what must not overlap. Every method ends soon after its
// context does, with an error that matches ErrTimeout if the runtime did not
// answer, and leaves no process behind that it would have to wait for.
// A name that is not well formed (CheckReference) is ErrNotFound.
type Runtime interface {
	// Kind tells which technology this is.
	Kind() Kind
	// List returns all containers, foreign ones included, sorted by name.
	// A container that does not answer is listed with StateUnknown: one that
	// hangs never hides the others.
	List(ctx context.Context) ([]Info, error)
	// Inspect returns what List would say of one container.
	Inspect(ctx context.Context, name string) (Info, error)
	// Start brings the container to running; it is no error if it runs already.
	// It returns what Inspect would say then, or the zero Info if that is not
	// known.
	Start(ctx context.Context, name string) (Info, error)
	// Stop brings the container to stopped; it is no error if it is stopped
	// already. Its init is asked first and killed when grace is over; a grace of
	// zero or less kills at once. Unless there is an error, none of its
	// processes is left. It returns what Start does.
	Stop(ctx context.Context, name string, grace time.Duration) (Info, error)
	// Exec names the supervisor for a command inside a running container. It
	// starts nothing.
	Exec(ctx context.Context, name string) (Supervisor, error)
	// Close ends the runtime's own helpers. Containers go on.
	Close() error
}

// Creator is a runtime that can make and remove containers.
type Creator interface {
	// Create makes a stopped container. It is idempotent by CTID: the same
	// name and CTID again is nil if the creation was completed, and is begun
	// anew if it was interrupted. A name or CTID of another container is
	// ErrExists. When Create returns nil the container survives a power cut.
	Create(ctx context.Context, spec CreateSpec) error
	// Destroy removes a stopped container and all it stored. One that runs is
	// ErrBusy, one that is not there ErrNotFound, a foreign one ErrUnsupported.
	Destroy(ctx context.Context, name string) error
}

// Renamer is a runtime that can give a container another name.
type Renamer interface {
	// Rename gives the stopped container of that CTID another name; everything
	// else stays as it is. One that has the new name already is nil, so that it
	// can be done again after an interruption, whenever that was: a container
	// has one of the two names and is whole under it. One that runs is ErrBusy,
	// a taken name ErrExists, one that is not there ErrNotFound, a foreign one
	// ErrUnsupported.
	Rename(ctx context.Context, name, to string, id CTID) error
}

// Rehoster is a runtime that can change what a container calls itself.
type Rehoster interface {
	// Rehost has the stopped container of that CTID call itself hostname from its next
	// start on, or by its name if that is empty. It may be done again. One that runs is
	// ErrBusy, one that is not there ErrNotFound, a foreign one ErrUnsupported.
	Rehost(ctx context.Context, name, hostname string, id CTID) error
}

// Cloner is a runtime that can copy its containers.
type Cloner interface {
	// Clone makes a stopped container with the files of another one of ours, from, as
	// they are now; of one that runs, as they are read, one after the other. The rest of
	// its identity is its own: what the specification says, ids, keys of its ssh server
	// and machine id. Template, Image, Pull and Privileged are those of from. What
	// Create says of names, CTIDs, interruptions and durability holds, but that a clone
	// may get the files once more if it is asked for again: it must not run before.
	// A source that is not there is ErrNotFound, a foreign one ErrUnsupported. It returns
	// what Inspect would say of the clone then, or the zero Info if that is not known.
	Clone(ctx context.Context, from string, spec CreateSpec) (Info, error)
}

// Adopter is a runtime that can take over containers that it did not make.
type Adopter interface {
	// Adopt makes a foreign container one of ours under a CTID, running or stopped. It
	// changes nothing of its files, and has nothing but Start start it from then on. One
	// that has that CTID already is nil, so that it can be done again after an
	// interruption. One of ours is ErrExists, one that cannot be kept as ours
	// ErrUnsupported, one that is not there ErrNotFound. It returns what Inspect would
	// say then.
	Adopt(ctx context.Context, name string, id CTID) (Info, error)
	// Disown takes back what Adopt has done under that CTID: the container is foreign
	// again, and is started as it was before. It is nil if there is nothing to take back.
	Disown(ctx context.Context, name string, id CTID) error
}

// Adopted is the template of a container that was made in a way that nobody has written
// down.
const Adopted = "adopted"

// Freezer is a runtime that can keep all processes of a container from running for
// a while.
type Freezer interface {
	// Freeze brings a running container to frozen; it is no error if it is frozen
	// already. One that is stopped is ErrNotRunning. It returns what Start does.
	Freeze(ctx context.Context, name string) (Info, error)
	// Unfreeze brings a frozen container to running; it is no error if it runs
	// already. One that is stopped is ErrNotRunning. It returns what Start does.
	Unfreeze(ctx context.Context, name string) (Info, error)
}

// Starter is a runtime that can start a container on terms.
type Starter interface {
	// StartOn is Start, but that the terms hold when the first process of the container
	// begins. One that runs already is left as it is.
	StartOn(ctx context.Context, name string, terms Terms) (Info, error)
}

// Terms are those of one start of a container.
type Terms struct {
	// Groups are files of its control groups, which are written.
	Groups []GroupFile `json:",omitzero"`
	// Epoch is that under which a unique container runs from this start on, as the
	// container is told it by [EpochVariable] and in [EpochFile]. Empty: the container is
	// not unique.
	Epoch string `json:",omitzero"`
	// UntilMS is when the start is allowed no more, by the boot clock in milliseconds; it
	// is read only with an Epoch.
	UntilMS int64 `json:",omitzero"`
}

// How the processes of a unique container learn the epoch under which they run.
const (
	// EpochVariable is a variable of its first process.
	EpochVariable = "HOSTLER_EPOCH"
	// EpochFile is a file in the container, which it cannot change: the epoch and the end of
	// a line. It is not in /run, over which the init of many a container mounts.
	EpochFile = "/etc/hostler/epoch"
)

// Holder is a runtime whose containers can be unique: it tells them their epoch, has
// nothing but StartOn start them, and knows by which name all their processes are killed.
type Holder interface {
	Starter
	// Group returns the component of a control group's path that all processes of a
	// container have, before it is started as well.
	Group(ctx context.Context, name string) (string, error)
}

// GroupFile is what is written into a file of a control group. A file may be written
// several times.
type GroupFile struct {
	Name, Value string
	// V2 tells that the file is one of the second version of control groups.
	V2 bool `json:",omitzero"`
}

// Logger is a runtime that keeps what its containers print.
type Logger interface {
	// Log copies what a container has printed to stdout and stderr, of which the
	// second may stay empty. It ends with the log, or, if it is to follow, with the
	// container or ctx, whichever a runtime notices. A question that the runtime
	// cannot answer is ErrUnsupported.
	Log(ctx context.Context, name string, q LogQuery, stdout, stderr io.Writer) error
}

// ConsoleLog is the name of the file that holds what a container of LXC printed on its
// console.
const ConsoleLog = "console.log"

// LogQuery says what of a log is wanted.
type LogQuery struct {
	// Runtime asks for what the runtime said at the last start, in place of what the
	// container printed.
	Runtime bool
	// Tail is how many lines of the end are wanted.
	Tail int
	// Since leaves out what was printed before; zero leaves out nothing.
	Since time.Time
	// Follow goes on with what comes.
	Follow bool
}

// Watcher is a runtime that tells of changes, also of those that others caused.
type Watcher interface {
	// Watch calls handle for each change until ctx ends, then returns
	// context.Cause(ctx). Any other return means that this host cannot be
	// watched. ready is called once, when every later change will be told:
	// a List made after it misses nothing. The two functions are never called
	// at the same time, not after Watch returned, and must not block.
	Watch(ctx context.Context, ready func(), handle func(Event)) error
}

// Busy is a runtime whose operations can be looked at while they are under way.
type Busy interface {
	// Operations returns those that change a container, in no order.
	Operations() []Operation
}

// Operation is an operation on a container that is under way.
type Operation struct {
	Verb, Name string // as start and web, for the start of container web
	PID        int    // of the process that carries it out
	Since      time.Time
	Until      time.Time // when it is killed at the latest
	// Note replaces all that with the progress, as a text; empty if it is unknown.
	Note string
}

// Filer is a runtime whose containers' files can be reached from the host.
type Filer interface {
	// Files tells where the files of a container are, running or stopped. It opens
	// nothing.
	Files(ctx context.Context, name string) (Files, error)
}

// Files is where the files of a container are. The owner of the container decides
// what is there: nothing below Root may be opened by a path, but by openat2 with
// RESOLVE_IN_ROOT.
type Files struct {
	// Root is the root directory as the host sees it.
	Root string
	// InitPID is the container's first process, through which Root leads; 0 if it
	// is stopped.
	InitPID int
	// InitTicks is when that process started, in ticks since boot: its number may be
	// another process's later.
	InitTicks int64
	// UIDs and GIDs are the maps of its users and groups in the form of
	// /proc/PID/uid_map; empty is no map.
	UIDs, GIDs string
	// Shared tells, of a container that is stopped, that Root is empty until somebody puts its
	// files over those that it shares; nil if all files are its own.
	Shared *SharedFiles
	// Stored tells the same of a container whose layers are those of its runtime.
	Stored *StoredFiles
}

// Sharer is a runtime whose containers may share the files of their image.
type Sharer interface {
	// Alone returns why new ones do not, as the last Probe has found; empty if they do.
	Alone() string
}

// SharedFiles are those of a container that shares the files of its image with others.
type SharedFiles struct {
	// Lower is the directory with the files of the image, and Dir that of the container.
	Lower string `json:"lower"`
	Dir   string `json:"dir"`
	// IDs of the host that the users of the container have.
	IDs IDRange `json:"ids"`
}

// StoredFiles are the layers of a stopped container in the storage of its runtime.
type StoredFiles struct {
	// Lower are the directories of the image, the topmost first. Changes is what the container
	// has changed, and Work the directory beside it that the kernel needs.
	Lower   []string `json:"lower"`
	Changes string   `json:"changes"`
	Work    string   `json:"work"`
	// Shown are the ids of the host that the files of the image are to have; none if they have
	// them.
	Shown IDRange `json:"shown"`
}

// Event is a change of one container's state.
type Event struct {
	// Name of the container; empty if changes may have been missed, so that
	// only a fresh List tells the truth.
	Name string
	// State that was entered; empty when Name is.
	State State
}

// Info describes one container as it was seen.
type Info struct {
	Name string
	// CTID given at creation; empty for a foreign container.
	CTID  CTID
	Kind  Kind
	State State
	// InitPID is the process id, seen from this host, of the container's first
	// process; 0 unless it runs.
	InitPID int
	// Addresses that the container has on its interfaces, without loopback
	// and link-local ones; for a stopped container those it was given.
	Addresses []netip.Addr
	// MAC of the first interface, if the runtime gave it one.
	MAC string
	// Template the container was made from; empty if foreign.
	Template string
	// Digest of the image it was made from, such as sha256:…; empty if it was made
	// from no image, or if the runtime does not know it. List may leave it empty, if the runtime
	// would have to be asked once for each container.
	Digest string `json:",omitzero"`
	// Privileged tells that root in the container is root of the host.
	Privileged bool
	// Shared tells that it shares the files of its image with others, below what it has changed.
	Shared bool `json:",omitzero"`
	// IDs of the host that its users have; none if that is not so, or not known.
	IDs IDRange `json:",omitzero"`
}

// CreateSpec says what Create makes.
type CreateSpec struct {
	// Name of the container, see CheckName.
	Name string
	// CTID is its lasting identity.
	CTID CTID
	// Template names what it is made from: an image, such as
	// "registry.example/debian:12", or for LXC a template of the installation, such as
	// "busybox".
	Template string
	// Pull says when the image is fetched; empty is PullMissing.
	Pull string `json:",omitzero"`
	// Network is the one interface it gets; zero means none but loopback.
	Network Network
	// Privileged makes root in the container root of the host. Else the container
	// gets ids of the host that no other one has.
	Privileged bool `json:",omitzero"`
	// Unique tells that only a start under an epoch may start it; see [Holder].
	Unique bool `json:",omitzero"`
	// Image is what it is made from, if that is no template: then Template is a name.
	Image *Image `json:",omitzero"`
	// Hostname is the name that it calls itself; empty is Name.
	Hostname string `json:",omitzero"`
	// Env are variables of its first process, each NAME=VALUE. They go before those of
	// its image.
	Env []string `json:",omitzero"`
	// Mounts are what it has from outside of its root directory, in the order in which
	// they are mounted.
	Mounts []Mount `json:",omitzero"`
	// Command runs in it in place of the command of its image, after the entrypoint of
	// that. A template of LXC has an init of its own: ErrUnsupported.
	Command []string `json:",omitzero"`
}

// Mount is a file or a directory of the host that a container has at a path. No link in the
// container leads it elsewhere.
type Mount struct {
	Source, Path string // both absolute, and of characters that no list of mounts escapes
	ReadOnly     bool   `json:",omitzero"`
	// Optional leaves it out of a container that has a link or something else of its own in
	// its place, as far as the runtime would mount nothing there.
	Optional bool `json:",omitzero"`
}

// When the image of a container is fetched: if the host does not have it, although it
// may have it, or not at all.
const (
	PullMissing = "missing"
	PullAlways  = "always"
	PullNever   = "never"
)

// IDRange is a range of user ids of the host, and of group ids.
type IDRange struct{ First, Count uint32 }

// Overlaps reports whether an id is in both ranges.
func (r IDRange) Overlaps(o IDRange) bool {
	return uint64(r.First) < uint64(o.First)+uint64(o.Count) && uint64(o.First) < uint64(r.First)+uint64(r.Count)
}

// Network is a container's interface on a bridge of the host.
type Network struct {
	// Bridge is the device that the interface is attached to.
	Bridge string
	// Address with the length of its network, for example 10.70.0.2/24.
	Address netip.Prefix
	// Gateway is the next hop of the default route; zero for none.
	Gateway netip.Addr
	// Address6 and Gateway6 are those of IPv6; zero for none.
	Address6 netip.Prefix `json:",omitzero"`
	Gateway6 netip.Addr   `json:",omitzero"`
	// MAC in the form 02:00:00:00:00:01; see MAC.
	MAC string
}

// IsZero reports whether n asks for no interface.
func (n Network) IsZero() bool { return n == Network{} }

// Check reports what is wrong with the specification, if anything.
func (s CreateSpec) Check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	if err := CheckCTID(string(s.CTID)); err != nil {
		return err
	}
	if err := CheckTemplate(s.Template); err != nil {
		return err
	}
	if s.Hostname != "" {
		if err := CheckName(s.Hostname); err != nil {
			return fmt.Errorf("host name: %w", err)
		}
	}
	for _, e := range s.Env {
		if strings.IndexByte(e, '=') < 1 || strings.ContainsAny(e, "\n\x00") {
			return fmt.Errorf("variable %.60q: want NAME=VALUE in one line", e)
		}
	}
	if len(s.Command) > 0 && s.Command[0] == "" || strings.ContainsRune(strings.Join(s.Command, ""), 0) {
		return errors.New("command: want a program, and no byte that is zero")
	}
	return s.Network.check()
}

// Called is the name that the container calls itself.
func (s CreateSpec) Called() string { return cmp.Or(s.Hostname, s.Name) }

func (n Network) check() error {
	if n.IsZero() {
		return nil
	}
	if err := CheckBridge(n.Bridge); err != nil {
		return err
	}
	if !n.Address.IsValid() || n.Address.Addr().IsUnspecified() {
		return errors.New("network without address")
	}
	if n.Gateway.IsValid() && !n.Address.Masked().Contains(n.Gateway) {
		return fmt.Errorf("gateway %s outside of %s", n.Gateway, n.Address.Masked())
	}
	if n.Address6.IsValid() && !n.Address6.Addr().Is6() {
		return fmt.Errorf("%s is no address of IPv6", n.Address6)
	}
	if n.Gateway6.IsValid() && !n.Address6.Masked().Contains(n.Gateway6) {
		return fmt.Errorf("gateway %s outside of %s", n.Gateway6, n.Address6.Masked())
	}
	return checkMAC(n.MAC)
}

// Supervisor names the program that runs, watches and records one command
// inside a container, and tells it which container.
type Supervisor struct {
	// Argv is the program, by absolute path, and its leading arguments; the
	// run directory follows as the last one.
	Argv []string
	// Target stands in the run directory's specification. It means something
	// to this supervisor alone, and pins the container's present incarnation:
	// a command that was meant for it never runs in a later one.
	Target map[string]string
}

// Kind is a container technology, in the word that stands in messages and on the
// command line.
type Kind string

// The kinds.
const (
	KindLXC    Kind = "lxc"
	KindPodman Kind = "podman"
)

// State is where a container is in its life, in the word that stands in messages
// and on the command line.
//
//	stopped → starting → running ⇄ frozen
//	   ↑                    ↓        ↓
//	   └────────────── stopping ←────┘
type State string

// The states.
const (
	StateStopped  State = "stopped"
	StateStarting State = "starting"
	StateRunning  State = "running"
	StateStopping State = "stopping"
	StateFrozen   State = "frozen"
	// StateUnknown says that the runtime did not answer in time.
	StateUnknown State = "unknown"
)

// States are all states.
func States() []State {
	return []State{StateStopped, StateStarting, StateRunning, StateStopping, StateFrozen, StateUnknown}
}
