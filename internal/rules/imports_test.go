package rules

import (
	"go/ast"
	"slices"
	"strings"
)

// An allowance is one line of the picture of the tree: what the package may
// import beside the standard library, and what of the standard library it may
// not. "x/..." stands for x and everything below it. Paths of ours are relative
// to the module. Test files are free, but for programs, which nobody imports;
// packages that support tests are free to use the libraries for tests.
type allowance struct {
	pkg   string
	may   []string
	never []string
	why   string
}

// effects are the parts of the standard library that touch the world.
var effects = []string{"os/...", "net", "net/http/...", "database/sql/...", "log/...", "syscall"}

// small is what a supervisor does without, being a process for each running
// command.
var small = []string{"encoding/json", "fmt", "log/...", "net/...", "database/sql/..."}

// allowed has one line for each package of the tree, from the floor upwards.
var allowed = []allowance{
	// The floor: no third party, no I/O.
	{"protocol/ijson", nil, effects, "the form of all that is signed or hashed"},
	{"protocol/ident", nil, effects, "how identifiers are written; each value has one text, whoever reads it"},
	{"protocol/envelope", []string{"protocol/ident"}, effects, "how the bytes of an envelope lie; nothing of them is verified yet, so it knows no key"},
	{"protocol/merkle", nil, effects, "a tree of digests as the world knows it; it knows no target"},
	{"protocol/form", []string{"protocol/ijson"}, effects, "what structs declare of themselves; it knows no kind"},
	{"protocol/hostcmd", []string{"protocol/data", "protocol/setting"}, effects, "what the agent's own commands are asked for: arguments that need nothing else of the protocol"},
	{"protocol", []string{"protocol/contract", "protocol/data", "protocol/envelope", "protocol/figures", "protocol/form", "protocol/hostcmd", "protocol/ident", "protocol/ijson", "protocol/limit", "protocol/merkle", "protocol/port", "protocol/setting", "protocol/mount"}, effects, "both sides and every tool build on it; it is data and rules, and time is an argument"},
	{"protocol/mount", nil, effects, "what is written of volumes and mounts; both sides and the command line read it alike"},
	{"protocol/port", nil, effects, "what is written of ports that lead to containers; both sides and the command line read it alike"},
	{"protocol/limit", nil, effects, "what is written of limits of containers; both sides and the command line read it alike"},
	{"protocol/contract", nil, effects, "what is decided while a host is cut off, and told before; both sides and the command line decide it alike"},
	{"protocol/data", nil, effects, "what is asked for about the data of containers: arguments that need nothing else of the protocol"},
	{"protocol/secret", []string{"protocol"}, effects, "what is sealed to a host; sealing and opening is done by the keys"},
	{"protocol/san", []string{"protocol"}, effects, "the names in TLS certificates; what is signed needs no trust in the connection that carried it"},
	{"protocol/setting", []string{"protocol/contract", "protocol/limit", "protocol/mount", "protocol/port"}, effects, "what is written of settings of containers; both sides and the command line read it alike"},
	{"protocol/enrol", []string{"protocol"}, effects, "what both sides of an enrolment say and compute, over any transport"},
	{"protocol/audit", []string{"protocol"}, effects, "a log is verified by whoever doubts it, on any machine and without the fleet"},
	{"protocol/fresh", []string{"protocol"}, effects, "what was heard before is memory of one conversation, which both ends have and no message needs"},
	{"protocol/stream", []string{"protocol"}, effects, "delivery is decided by pure code, so that every interleaving can be tested"},
	{"protocol/samples", nil, effects, "the text of samples on their way to the coordinator: it comes from hosts, so it is read strictly, and in one place"},
	{"protocol/figures", nil, effects, "figures of a host, and when they have moved: numbers alone, which the protocol carries"},
	{"protocol/beat", []string{"protocol", "protocol/figures"}, effects, "what of a host's state has changed is made and applied by pure code, whose digests show that both sides agree"},
	{"protocol/window", []string{"protocol"}, effects, "credit and what is sent again are decided by pure code, for output and input on both sides alike"},
	{"policy", []string{"internal/settings", "protocol"}, effects, "what takes whose approval, for hosts, coordinators and people alike; settings reads its TOML, and time and keys are arguments"},
	{"container", nil, []string{"os/...", "net/http/...", "database/sql/...", "log/..."}, "a leaf of types and one interface: runtimes and the agent meet here"},
	{"terminal", nil, append([]string{"os/...", "syscall"}, small...), "both ends of an interactive session and everybody between them; supervisors link it"},
	{"runner/rundir", []string{"golang.org/x/sys/..."}, small, "the run directory is a contract between processes; it is linked into each supervisor"},
	{"runner/supervise", []string{"internal/clock", "internal/failpoint", "internal/space", "runner/rundir", "terminal", "golang.org/x/sys/..."}, small, "the process side: one process for each running command"},
	{"runner", []string{"internal/clock", "internal/failpoint", "internal/space", "internal/spread", "runner/rundir", "golang.org/x/sys/..."}, []string{"net/http/...", "database/sql/..."}, "the watching side: starts supervisors and reads what they leave"},

	{"api", []string{"protocol/contract"}, []string{"os/...", "net/...", "database/sql/...", "log/..."}, "the JSON of the HTTP API: both ends and the agent's socket share it"},
	{"internal/buildinfo", nil, []string{"os/...", "net/...", "database/sql/..."}, "which build this is; programs and what they offer tell it"},
	{"internal/clock", []string{"golang.org/x/sys/..."}, append([]string{"os/exec"}, small...), "the clocks of all programs, which tests move"},
	{"internal/failpoint", nil, append([]string{"os/exec"}, small...), "names of the moments at which tests kill; empty in what is shipped"},
	{"internal/brief", nil, effects, "what an error repeats of what was sent is cut at one length, by all who print errors"},
	{"internal/warnings", []string{"protocol"}, effects, "what alerts mean and what to do about them: a table that hosts and the command line read"},
	{"internal/throttle", nil, effects, "both sides write one line a second about refused messages; it counts, and the log is the caller's"},
	{"internal/lobby", nil, []string{"os/...", "net/http/...", "database/sql/...", "log/..."}, "the places of strangers are counted over all listeners of a program; it knows connections, and nothing of what is said on them"},
	{"internal/cgroup", []string{"container", "protocol/limit", "runner/rundir", "runner/supervise"}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "limits of containers in the files of the kernel, whatever the runtime"},
	{"internal/witness", []string{"golang.org/x/sys/..."}, append([]string{"os/exec"}, small...), "how processes end that are not our children; it knows the kernel, and nothing of containers"},
	{"internal/space", []string{"golang.org/x/sys/..."}, append([]string{"os/exec"}, small...), "how full the disk may become by both sides and the supervisors; it knows sizes, and nothing of what takes them"},
	{"internal/spread", []string{"golang.org/x/sys/..."}, append([]string{"os/exec"}, small...), "one wish to the file systems of both sides: it knows directories, and nothing of what is in them"},
	{"internal/files", []string{"internal/clock", "internal/failpoint", "runner/rundir", "runner/supervise", "golang.org/x/sys/..."}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "trees of files that somebody else may be changing: the agent's program that moves them and who fetches from a host share it"},
	{"internal/blob", []string{"internal/durable", "internal/failpoint", "internal/space", "protocol"}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "large files under their digest; both sides keep what commands read in one"},
	{"internal/permit", []string{"internal/clock", "runner/rundir"}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "who may start a unique container, and until when; it starts nothing"},
	{"internal/release", []string{"internal/durable", "github.com/cavaliergopher/cpio"}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "packages from outside, verified before they are read; who may sign is told to it"},
	{"internal/durable", []string{"internal/failpoint"}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "small files that survive a crash; it knows bytes, and nothing of what they say"},

	// Adapters: each the one importer of its library, none knowing another.
	{"internal/yamlfile", []string{"internal/brief", "go.yaml.in/yaml/v3"}, effects, "files that people write come from outside: one strict reader says in plain words what is wrong with them"},
	{"internal/batchfile", []string{"api", "internal/yamlfile", "go.yaml.in/yaml/v3"}, effects, "files of operations come from outside: reading them is pure, and fuzzed"},
	{"internal/manifest", []string{"protocol", "protocol/contract", "protocol/mount", "internal/yamlfile"}, effects, "manifests come from outside: reading them is pure, and fuzzed"},
	{"internal/sqldb", []string{"internal/durable", "internal/failpoint", "modernc.org/sqlite/...", "modernc.org/libc/..."}, nil, "owns the SQL drivers and nothing of the schema"},
	{"alerts", []string{"metrics"}, append([]string{"log/..."}, effects...), "when something measured is worth telling is decided by pure code"},
	{"metrics/influx/destination", []string{"internal/durable", "internal/prom", "metrics/influx"}, []string{"os/exec", "net/...", "database/sql/..."}, "what both programs are told of a database of measurements, and tell of it"},
	{"metrics/influx", []string{"internal/durable", "metrics", "github.com/influxdata/influxdb-client-go/v2/..."}, []string{"os/exec", "database/sql/..."}, "owns the client of InfluxDB: samples on their way out, and on the disk while they wait"},
	{"metrics", []string{"github.com/prometheus/procfs", "golang.org/x/sys/..."}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "owns the reader of the kernel's counters; it knows containers by their first process only"},
	{"internal/notify", nil, []string{"database/sql/...", "log/..."}, "notifications on their way out: HTTP, mail and commands; it knows no store, and tries once"},
	{"internal/prom", nil, []string{"os/exec", "database/sql/...", "log/..."}, "owns the format of metrics, so that an engine's counters stay plain"},
	{"internal/settings", []string{"internal/durable", "github.com/pelletier/go-toml/v2"}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "owns the layers of what a daemon is told; the values are the program's own business"},
	{"internal/attach", []string{"terminal", "github.com/coder/websocket"}, []string{"os/...", "database/sql/..."}, "owns websockets: both ends of the connection of one who types; it knows no session"},
	{"internal/webapi", []string{"api", "internal/brief", "protocol", "protocol/contract"}, []string{"os/...", "database/sql/..."}, "what both HTTP APIs do alike; it knows records and answers, not who keeps the records"},
	{"certs", []string{"internal/clock", "internal/durable", "protocol/...", "github.com/ProtonMail/go-crypto/..."}, []string{"net/http/...", "database/sql/..."}, "keys, rings and TLS, and the files of keys; it knows messages only as things to sign"},
	{"mqtt", []string{"github.com/eclipse/paho.mqtt.golang/...", "golang.org/x/sync/...", "golang.org/x/sys/..."}, []string{"database/sql/..."}, "bytes in, bytes out: it must not know what it carries"},
	{"broker", []string{"internal/lobby", "internal/throttle", "protocol", "github.com/mochi-mqtt/server/v2/...", "golang.org/x/sync/...", "golang.org/x/time/...", "protocol/san"}, []string{"database/sql/..."}, "knows topics for its access list and nothing else of the protocol"},
	{"network", []string{"container", "internal/failpoint", "github.com/google/nftables/...", "github.com/vishvananda/netlink/...", "golang.org/x/sys/..."}, []string{"os/exec", "net/http/...", "database/sql/..."}, "owns netlink: links, addresses and rules of the packet filter are made by calls, not by running ip or nft"},
	{"network/names", []string{"golang.org/x/sys/..."}, []string{"net", "net/http/...", "database/sql/..."}, "runs the program that serves names, one process for each network; it knows no container, and speaks no protocol itself"},
	{"image", []string{"container", "image/debootstrap", "image/rootfs", "internal/blob", "internal/durable", "internal/failpoint", "internal/frame", "protocol", "github.com/google/go-containerregistry/...", "golang.org/x/sync/..."}, []string{"os/exec", "database/sql/...", "log/..."}, "owns the library for registries: what it fetches is verified, and unpacked by others"},
	{"image/debootstrap", []string{"container"}, []string{"net/...", "database/sql/...", "log/..."}, "runs one program of Debian; what it makes is packed by others"},
	{"image/rootfs", []string{"container", "internal/tree", "github.com/klauspost/compress/...", "golang.org/x/sys/...", "github.com/ulikunitz/xz"}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "unpacks what strangers made, below one directory"},
	{"internal/layers", []string{"container", "golang.org/x/sys/..."}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "one file tree over another, by the kernel; it knows no runtime"},
	{"internal/tree", []string{"runner/rundir", "golang.org/x/sys/..."}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "walks and copies trees that others change, below one directory"},
	{"backup/bucket", []string{"container", "internal/durable", "github.com/minio/minio-go/v7/..."}, []string{"os/exec", "database/sql/...", "log/..."}, "owns the client of S3: files as objects of a store on another machine, whose answers are bounded; it knows no backup"},
	{"backup", []string{"backup/bucket", "container", "image/rootfs", "internal/clock", "internal/durable", "internal/failpoint", "internal/tree", "protocol", "protocol/mount", "protocol/setting", "runner/rundir", "golang.org/x/sys/...", "internal/frame"}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "archives of containers: a file from anybody, verified before it is read"},
	{"volume", []string{"container", "image/rootfs", "internal/durable", "internal/failpoint", "internal/tree", "protocol/mount", "golang.org/x/sys/..."}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "directories that outlive the containers which mount them; it knows no runtime"},
	{"snapshot", []string{"container", "internal/failpoint", "internal/tree", "runner/rundir", "golang.org/x/sys/..."}, []string{"os/exec", "net/...", "database/sql/...", "log/..."}, "earlier states of a tree; it knows no runtime"},
	{"internal/frame", nil, []string{"os/...", "net/...", "database/sql/...", "log/..."}, "the signed end of archives; it knows no key"},
	{"image/imagetest", nil, nil, "images for tests, also such as no tool would make"},
	{"lxc", []string{"image/rootfs", "internal/clock", "internal/layers", "internal/failpoint", "internal/tree", "container", "lxc/internal/wire", "runner/...", "snapshot", "golang.org/x/sync/...", "golang.org/x/sys/..."}, []string{"net/http/...", "database/sql/..."}, "a runtime that runs the helper program; liblxc is never in its address space"},
	{"podman", []string{"image/rootfs", "internal/cgroup", "internal/clock", "internal/permit", "internal/durable", "internal/failpoint", "internal/layers", "internal/tree", "container", "network", "runner/rundir", "runner/supervise", "snapshot", "golang.org/x/sys/..."}, []string{"database/sql/..."}, "a runtime behind a socket, and the supervisor of its commands"},
	{"lxc/internal/wire", []string{"container"}, []string{"os/...", "net/http/...", "database/sql/..."}, "what lxc and its helper say to each other"},
	{"lxc/helper", []string{"internal/clock", "internal/layers", "internal/permit", "internal/tree", "internal/failpoint", "container", "image/rootfs", "lxc/internal/wire", "runner/...", "snapshot", "github.com/lxc/go-lxc", "golang.org/x/sys/..."}, []string{"net/http/...", "database/sql/..."}, "the cgo side: it lives for one operation"},

	// Engines: they see the world through interfaces of their own.
	{"agent", []string{"internal/warnings", "internal/blob", "internal/failpoint", "internal/files", "internal/space", "policy", "protocol/...", "container", "runner", "runner/rundir", "terminal", "agent/actions", "agent/commands", "agent/containers", "agent/drill", "agent/fencing", "agent/lease", "agent/loop", "agent/queue", "agent/relay", "agent/rights", "agent/uplink", "agent/upgrade", "agent/wire", "golang.org/x/sync/..."}, []string{"os/exec", "net", "net/http/...", "database/sql/..."}, "decides what a host does; adapters are handed to it"},
	{"agent/commands", []string{"protocol/secret", "agent/actions", "agent/loop", "internal/failpoint", "internal/files", "internal/space", "protocol", "container", "runner", "runner/rundir", "terminal", "agent/queue"}, []string{"os/...", "net", "net/http/...", "database/sql/..."}, "how commands are run, followed and ended; it stores nothing, and its outcomes are values"},
	{"agent/containers", []string{"internal/warnings", "agent/actions", "agent/loop", "agent/queue", "agent/retry", "container", "protocol/...", "golang.org/x/time/..."}, []string{"os/...", "net", "net/http/...", "database/sql/..."}, "containers as their users want them; what is to be stored of them is stored by others"},
	{"agent/relay", []string{"agent/actions", "agent/commands", "agent/loop", "agent/queue", "agent/wire", "internal/blob", "protocol/...", "runner", "terminal"}, []string{"os/...", "net", "net/http/...", "database/sql/..."}, "the bytes of actions, up and down; it knows how an action stands, and decides nothing about it"},
	{"agent/queue", []string{"internal/durable", "internal/failpoint", "protocol/...", "internal/sqldb"}, []string{"os/exec", "net", "net/http/..."}, "the agent's memory; it knows rows, not workers"},
	{"agent/actions", []string{"agent/loop", "agent/queue", "protocol"}, append([]string{"os/...", "net/..."}, "os/exec", "database/sql/..."), "when actions begin, and what becomes of them; what each kind does is said by handlers that are handed to it"},
	{"agent/backups", []string{"agent/containers", "backup", "container", "protocol", "protocol/setting"}, []string{"os/exec", "net/...", "database/sql/..."}, "the backups that containers are made of, those of other hosts among them"},
	{"agent/probe", []string{"agent/containers", "protocol/contract", "runner", "runner/rundir"}, []string{"os/exec", "database/sql/..."}, "looks at containers as their users do: by commands, connections and requests; what comes of it is decided by others"},
	{"agent/lease", []string{"agent/wire", "protocol", "protocol/fresh"}, append([]string{"os/...", "net/..."}, "os/exec", "database/sql/..."), "must be in time whatever hangs: it touches neither the loop nor the disk"},
	{"agent/rights", []string{"agent/actions", "agent/loop", "agent/queue", "agent/wire", "policy", "protocol/..."}, []string{"os/...", "net/...", "os/exec", "database/sql/..."}, "holds requests against the policy in force; it keeps what that rests on by a function that is handed to it"},
	{"agent/uplink", []string{"internal/warnings", "agent/actions", "agent/lease", "agent/loop", "agent/queue", "agent/relay", "agent/wire", "internal/throttle", "protocol/...", "golang.org/x/sync/..."}, []string{"os/...", "net/...", "os/exec", "database/sql/..."}, "the conversation with the coordinator: it carries orders, and decides nothing about them"},
	{"agent/upgrade", []string{"agent/actions", "agent/loop", "agent/queue", "internal/durable", "internal/failpoint", "internal/release", "protocol"}, []string{"os/exec", "net/...", "database/sql/..."}, "how far an upgrade of the agent has come; the new agent is tried by who runs the agent"},
	{"agent/drill", []string{"agent/actions", "agent/loop", "agent/queue", "protocol"}, []string{"os/...", "net/...", "os/exec", "database/sql/..."}, "when a drill begins and ends; the faults themselves are handed to it"},
	{"agent/fencing", []string{"agent/actions", "agent/loop", "agent/queue", "protocol", "protocol/data"}, []string{"os/...", "net/...", "os/exec", "database/sql/..."}, "when a fence device of the host is asked; the asking itself is handed to it"},
	{"agent/retry", nil, []string{"os/...", "net/...", "database/sql/..."}, "when a container that does not stay up is started again; pure"},
	{"agent/oom", []string{"internal/warnings", "metrics", "protocol"}, []string{"os/...", "net/...", "database/sql/..."}, "whether a kill for want of memory is an alert; pure"},
	{"agent/facts", []string{"agent/containers", "agent/queue", "metrics"}, []string{"os/...", "net/...", "os/exec", "database/sql/..."}, "what the agent knows, as values by which rules of alerts are judged; pure"},
	{"agent/faults", []string{"internal/clock", "golang.org/x/sys/..."}, []string{"net/http/...", "database/sql/..."}, "the faults of drills, which end by themselves; they need nothing of the agent"},
	{"agent/trial", []string{"agent/queue", "agent/uplink", "agent/wire", "protocol", "protocol/fresh"}, []string{"os/...", "net/...", "database/sql/..."}, "the one word of a new agent that is not trusted yet: it hears no order"},
	{"agent/wire", []string{"protocol", "protocol/fresh"}, append([]string{"os/...", "net/..."}, "os/exec", "database/sql/...", "log/..."), "how a host signs, numbers and judges messages, whatever they are about"},
	{"agent/loop", []string{"agent/queue", "protocol"}, append([]string{"os/...", "net/..."}, "os/exec", "database/sql/..."), "the one goroutine that decides, as its rooms see it; it knows none of them"},
	{"agent/local", []string{"agent", "agent/commands", "agent/containers", "agent/queue", "agent/relay", "api", "internal/attach", "container", "protocol/...", "internal/lobby", "internal/prom", "internal/webapi", "golang.org/x/sync/...", "golang.org/x/sys/..."}, []string{"os/exec", "database/sql/..."}, "the agent's HTTP on a unix socket, and three paths of it for other machines; it asks the agent and decides nothing"},
	{"guard", []string{"internal/clock", "runner/supervise", "golang.org/x/sys/..."}, []string{"net/http/...", "database/sql/..."}, "a process that outlives the agent: it knows deadlines and control groups, and nothing that could hold it up"},
	{"unique", []string{"protocol"}, effects, "what coordinator, simulator and tests decide alike; time is an argument"},
	{"fence", []string{"protocol"}, effects, "what is switched off, in which order, and when: decided alike by coordinator, simulator and tests"},
	{"fence/agents", []string{"fence"}, []string{"net/...", "database/sql/...", "log/..."}, "owns the programs of fence-agents: it runs them, and decides nothing"},
	{"fence/devices", []string{"fence", "fence/agents", "internal/durable", "internal/settings", "protocol/data"}, []string{"net/...", "database/sql/...", "log/..."}, "the fence devices of a host, as files of root describe them"},
	{"placement", nil, effects, "where workloads go: hosts and workloads in, a plan out"},
	{"sim", []string{"fence", "placement", "protocol", "unique"}, effects, "plays the code that decides on virtual time"},
	{"coordinator/fencing", []string{"coordinator/core", "fence", "fence/agents", "internal/failpoint", "internal/warnings", "protocol/...", "golang.org/x/sync/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: fence devices, and the fences that are carried out; programs are run by an adapter that is handed to it"},
	{"coordinator/workloads", []string{"fence", "coordinator/core", "internal/failpoint", "internal/warnings", "placement", "protocol/...", "unique"}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: which host holds a unique workload, and where it goes"},
	{"agent/bridges", []string{"agent/actions", "agent/containers", "agent/queue", "container", "internal/warnings", "network", "network/names", "protocol", "protocol/port"}, []string{"os/exec", "net", "net/http/...", "database/sql/..."}, "the networks of a host, made of what package network does to the kernel and network/names serves; the program alone imports it"},
	{"agent/fsck", []string{"agent/queue", "container", "protocol", "runner", "runner/rundir", "runner/supervise"}, []string{"os/exec", "net", "net/http/...", "database/sql/..."}, "what is left of runs and of containers; the container technologies say of theirs what is debris"},
	{"agent/hostcmd", []string{"protocol/data", "volume", "runner/rundir", "agent/commands", "api", "backup", "client", "container", "image", "internal/clock", "internal/daemon", "internal/files", "internal/layers", "lxc", "metrics", "network", "podman", "protocol", "protocol/hostcmd", "protocol/setting", "volume", "github.com/spf13/cobra", "golang.org/x/sys/..."}, []string{"os/exec", "net/http/...", "database/sql/...", "log/..."}, "the agent's own commands: each is a process that asks an adapter itself, so that it goes on while the agent restarts; the program alone imports it"},
	{"agent/checkup", []string{"api", "internal/durable", "internal/space", "golang.org/x/sys/..."}, []string{"os/exec", "net/...", "database/sql/..."}, "what keeps a host from doing its work; the program brings what it asks of other parts"},
	{"agent/join", []string{"api", "certs", "protocol/..."}, []string{"os/exec", "database/sql/..."}, "the enrolment client, done before there is an agent"},
	{"coordinator/core", []string{"fence", "unique", "internal/failpoint", "protocol/...", "placement"}, []string{"os/...", "net", "net/http/...", "database/sql/...", "syscall"}, "what all rooms of the coordinator build on: records, the Store, who asks, clocks and wake-ups; it decides nothing"},
	{"coordinator/access", []string{"coordinator/core", "internal/failpoint", "internal/throttle", "protocol/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: tokens, viewers, and what goes on by them"},
	{"coordinator/journal", []string{"coordinator/core", "internal/failpoint", "protocol/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: the audit log is sealed and read, events are kept, what ended long ago is forgotten"},
	{"coordinator/wire", []string{"coordinator/core", "internal/throttle", "protocol/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: makes, signs and publishes its messages, and counts them"},
	{"coordinator/mirror", []string{"coordinator/core", "protocol/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: what is known of hosts as plain JSON"},
	{"coordinator/presence", []string{"protocol"}, []string{"os/...", "net/...", "database/sql/...", "log/...", "context"}, "whether a host is there: pure"},
	{"coordinator/hostlink", []string{"coordinator/core", "coordinator/presence", "coordinator/wire", "internal/failpoint", "protocol/...", "golang.org/x/sync/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: leads the conversation with each host, and decides in pure functions what its words lead to"},
	{"coordinator/relay", []string{"coordinator/core", "terminal", "internal/blob", "internal/durable", "internal/failpoint", "internal/space", "internal/spread", "protocol/..."}, []string{"os/exec", "net/...", "database/sql/..."}, "a room of the coordinator: carries output up, and what commands read and people type down; it keeps the files of both"},
	{"coordinator/samples", []string{"coordinator/core", "protocol/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: brings what hosts have measured to the sink that it is given, which knows the database"},
	{"coordinator/explain", []string{"coordinator/core", "protocol/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: it says why actions wait"},
	{"coordinator/recovery", []string{"coordinator/core", "internal/failpoint", "protocol/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: what a restored store must not do, and what its hosts are asked"},
	{"coordinator/policies", []string{"coordinator/core", "internal/failpoint", "policy", "protocol/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: what operators and hosts ask for before something is sent"},
	{"coordinator/alerting", []string{"internal/warnings", "alerts", "api", "coordinator/core", "internal/failpoint", "internal/notify", "protocol/...", "golang.org/x/sync/..."}, []string{"os/...", "net", "net/http/...", "database/sql/..."}, "a room of the coordinator: the rules of alerts, and which host is to have which; of the API it knows how labels are selected"},
	{"coordinator/actions", []string{"placement", "coordinator/core", "internal/failpoint", "protocol/...", "golang.org/x/sync/..."}, []string{"os/...", "net/...", "database/sql/..."}, "a room of the coordinator: what people ask for, and who approves it"},
	{"coordinator/members", []string{"api", "coordinator/core", "internal/failpoint", "protocol/..."}, []string{"os/...", "net", "net/http/...", "database/sql/..."}, "a room of the coordinator: which hosts belong to the fleet; of the API it knows how labels are selected, of the network how addresses are written"},
	{"coordinator", []string{"coordinator/workloads", "coordinator/fencing", "fence", "unique", "coordinator/core", "coordinator/members", "coordinator/mirror", "coordinator/actions", "coordinator/alerting", "coordinator/policies", "coordinator/access", "coordinator/journal", "coordinator/explain", "coordinator/hostlink", "coordinator/recovery", "coordinator/relay", "coordinator/samples", "coordinator/wire", "internal/failpoint", "protocol/...", "golang.org/x/sync/..."}, []string{"os/exec", "net", "net/http/...", "database/sql/..."}, "decides what is allowed, and collects the approvals that hosts will want; store, wire and keys are handed to it"},
	{"coordinator/sqlstore", []string{"fence", "coordinator/core", "protocol/...", "internal/sqldb"}, []string{"net", "net/http/...", "os/exec"}, "the Store in SQL; it never sees a request"},
	{"coordinator/archive", []string{"protocol"}, []string{"os/...", "net/...", "database/sql/...", "log/..."}, "the form of a backup: a file from anybody, read strictly; it opens no files itself"},
	{"coordinator/wording", nil, []string{"os/...", "net/...", "database/sql/...", "log/..."}, "what is wrong with the form of a request, in our words"},
	{"coordinator/scrape", []string{"container", "coordinator/core", "coordinator/members", "internal/prom", "internal/warnings", "protocol"}, []string{"os/...", "database/sql/..."}, "metrics of the fleet for Prometheus, bounded; of a host it knows what that last told"},
	{"coordinator/wishes", []string{"api", "placement"}, []string{"os/...", "net/...", "database/sql/...", "log/..."}, "where a container may be, as the API has it"},
	{"coordinator/web", []string{"coordinator/wishes", "coordinator/scrape", "coordinator/wording", "coordinator/workloads", "coordinator/fencing", "fence", "unique", "internal/attach", "coordinator", "coordinator/core", "coordinator/actions", "coordinator/alerting", "coordinator/members", "coordinator/policies", "coordinator/journal", "coordinator/access", "coordinator/explain", "coordinator/recovery", "coordinator/relay", "api", "protocol/...", "internal/prom", "internal/warnings", "internal/webapi", "container", "github.com/danielgtaylor/huma/v2/...", "golang.org/x/time/...", "internal/lobby", "internal/throttle", "internal/brief", "placement"}, []string{"database/sql/...", "os/exec"}, "handlers call the Coordinator, never the Store; of containers they know the words of their states"},
	{"client", []string{"terminal", "internal/attach", "api", "protocol/..."}, []string{"database/sql/...", "os/exec"}, "what others may import to speak to a coordinator"},

	{"dev", []string{"api", "client", "internal/buildinfo", "internal/durable", "network", "runner/rundir", "golang.org/x/sync/...", "golang.org/x/sys/..."}, []string{"database/sql/...", "log/..."}, "a fleet of the built programs on one machine: it starts them and asks the public API"},

	// Support for tests.
	{"broker/brokertest", []string{"broker", "certs", "protocol", "github.com/mochi-mqtt/server/v2/...", "protocol/san"}, nil, "the real broker on an in-memory listener"},
	{"internal/dbtest", nil, []string{"database/sql/..."}, "databases of measurements for tests, with data of their own"},
	{"internal/podmantest", nil, []string{"database/sql/..."}, "podman's service for tests, with a store of its own"},
	{"internal/btrfstest", nil, []string{"database/sql/..."}, "a file system for tests, on a loop device"},
	{"internal/linetest", []string{"golang.org/x/sys/..."}, []string{"database/sql/..."}, "a line for tests on which packets are late"},
	{"internal/limiter", []string{"container", "internal/cgroup", "internal/tree", "network", "protocol/limit"}, []string{"database/sql/...", "os/exec", "net/http/..."}, "what the kernel limits, in one place; it knows no records"},
	{"internal/s3test", []string{"internal/builttest"}, []string{"database/sql/..."}, "a store that speaks S3 for tests, over a directory"},
	{"internal/builttest", nil, nil, "the programs that tests run, built once; it runs the go command"},
	{"internal/pagetest", []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}, []string{"net/...", "os/exec", "database/sql/...", "log/..."}, "the command lines that pages show are held to the commands of every program; tests alone import it"},
	{"container/containertest", []string{"container"}, nil, "what each runtime must pass"},
	{"coordinator/coordtest", []string{"fence", "fence/agents", "coordinator", "coordinator/access", "coordinator/core", "coordinator/storetest", "protocol/...", "terminal"}, nil, "a whole fleet in memory, with hosts that speak the real protocol"},
	{"coordinator/samples/samplestest", []string{"coordinator/samples"}, nil, "what each sink of samples must pass, and a fake that does"},
	{"coordinator/storetest", []string{"fence", "unique", "coordinator/core", "protocol/...", "placement"}, nil, "what each Store must pass"},
	{"runner/runnertest", []string{"runner/...", "terminal", "golang.org/x/sys/..."}, nil, "what each supervisor must pass"},
	{"integration/historytest", []string{"protocol"}, effects, "judges histories; it asks nobody"},
	{"integration/copiestest", []string{"protocol"}, effects, "judges what copies of a unique container wrote; it reads no file"},
	{"integration", []string{"internal/failpoint", "internal/sqldb", "protocol/..."}, nil, "everything else goes through the built programs, but for who changes a database behind their back"},
	{"internal/chaos", nil, nil, "tests alone: both engines on a broker that is not to be trusted"},
	{"internal/rules", nil, nil, "these tests; they need the go command alone"},

	{"internal/manual", []string{"github.com/spf13/cobra"}, []string{"net/...", "os/exec", "database/sql/...", "log/..."}, "the pages of man(1): they follow from the commands of every program"},
	{"internal/cmdline", []string{"internal/brief", "github.com/spf13/cobra", "github.com/spf13/pflag"}, effects, "what is wrong with a command line is said in the same words by every program"},
	{"internal/daemon", []string{"internal/brief", "internal/buildinfo", "internal/cmdline", "internal/manual", "internal/settings", "github.com/spf13/cobra"}, []string{"net/http/...", "database/sql/..."}, "the command line of a program that serves"},

	// The operator's command line, from its floor upwards. Areas do not know each other.
	{"internal/cli/term", []string{"api", "client", "internal/brief", "internal/clock", "internal/cmdline", "protocol", "terminal", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"}, []string{"database/sql/...", "log/..."}, "how the command line speaks with its user; errors of the other end become exit codes and hints here"},
	{"internal/cli/show", []string{"client", "internal/cli/term", "github.com/ohler55/ojg/jp", "github.com/spf13/cobra", "go.yaml.in/yaml/v3"}, []string{"database/sql/...", "log/..."}, "every list and show is printed in the same forms"},
	{"internal/cli/conn", []string{"api", "certs", "client", "internal/cli/term", "internal/durable", "protocol/...", "github.com/pelletier/go-toml/v2", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "who the other end is, and what more than one area asks of it"},
	{"internal/cli/keyring", []string{"certs", "internal/cli/conn", "internal/cli/show", "internal/cli/term", "internal/durable", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "the keys of people: it signs bytes and knows no action"},
	{"internal/cli/doctor", []string{"api", "internal/buildinfo", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "it judges what others tell and what hosts find when they look, and changes nothing"},
	{"internal/cli/dispatch", []string{"api", "client", "internal/cli/conn", "internal/cli/show", "internal/cli/term", "protocol", "terminal", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "asking for one action and following it, below all areas that do so"},
	{"internal/cli/transfer", []string{"api", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "internal/files", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "push and pull; a batch of operations moves files with it"},
	{"internal/cli/batch", []string{"api", "client", "internal/batchfile", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "internal/cli/transfer", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "one thing in many places, and many things from a file"},
	{"internal/cli/run", []string{"protocol/secret", "api", "client", "internal/cli/batch", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "protocol", "terminal", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "commands and sessions, in one place or many"},
	{"internal/cli/actions", []string{"api", "certs", "protocol/contract", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/keyring", "internal/cli/show", "internal/cli/term", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "looks at actions and signs approvals; the commands of sessions are handed to it"},
	{"internal/cli/hosts", []string{"api", "client", "internal/cli/conn", "internal/cli/show", "internal/cli/term", "protocol", "github.com/spf13/cobra", "internal/warnings"}, []string{"database/sql/...", "log/..."}, "which hosts there are, and which belong to the fleet"},
	{"internal/cli/containers", []string{"api", "internal/cli/batch", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/placements", "internal/cli/show", "internal/cli/term", "protocol", "protocol/hostcmd", "protocol/limit", "github.com/spf13/cobra", "protocol/contract", "protocol/mount", "protocol/port", "protocol/data", "internal/manifest", "protocol/setting"}, []string{"database/sql/...", "log/..."}, "containers, in one place or many"},
	{"internal/cli/networks", []string{"api", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "protocol", "protocol/port", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "the networks of hosts, which hosts themselves list and change"},
	{"internal/cli/backups", []string{"api", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "protocol", "protocol/data", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "the backups of hosts, which hosts themselves make and verify"},
	{"internal/cli/move", []string{"api", "internal/cli/backups", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/placements", "internal/cli/show", "internal/cli/term", "protocol", "protocol/contract", "protocol/data", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "brings containers to other hosts, by backups that travel; what is left to do is decided purely"},
	{"internal/cli/images", []string{"api", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "protocol", "protocol/data", "protocol/hostcmd", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "the images of hosts, which hosts themselves list and change"},
	{"internal/cli/fleet", []string{"api", "certs", "internal/cli/conn", "internal/cli/keyring", "internal/cli/show", "internal/cli/term", "protocol/...", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "makes and changes rings, which the owners sign"},
	{"internal/cli/policies", []string{"api", "certs", "internal/cli/batch", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/keyring", "internal/cli/show", "internal/cli/term", "internal/durable", "policy", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "policies are signed here and set on many hosts"},
	{"internal/cli/access", []string{"api", "certs", "client", "internal/cli/conn", "internal/cli/show", "internal/cli/term", "protocol/enrol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "tokens, viewers and contexts"},
	{"internal/cli/auditlog", []string{"api", "certs", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "internal/durable", "mqtt", "protocol/...", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "verifies what was signed, captured or as the broker brings it, with the keys that this machine has"},
	{"internal/cli/upgrade", []string{"api", "certs", "internal/cli/batch", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "internal/release", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "upgrades hosts wave by wave; each host decides for itself"},
	{"internal/cli/fences", []string{"api", "internal/cli/conn", "internal/cli/keyring", "internal/cli/show", "internal/cli/term", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "fence devices, fences, and the signed word that a host is off"},
	{"internal/cli/placements", []string{"api", "internal/cli/conn", "internal/cli/show", "internal/cli/term", "protocol/contract", "protocol/limit", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "where unique containers run, and where they would"},
	{"internal/cli/drill", []string{"api", "client", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "protocol", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "has a host make a fault, and holds what was seen against what was promised"},
	{"internal/cli/simulate", []string{"internal/cli/term", "sim", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "plays a file and prints what happens"},
	{"internal/cli/measure", []string{"api", "internal/cli/conn", "internal/cli/dispatch", "internal/cli/show", "internal/cli/term", "protocol", "protocol/hostcmd", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "draws what hosts print of their samples"},
	{"internal/cli/devfleet", []string{"dev", "internal/cli/conn", "internal/cli/show", "internal/cli/term", "github.com/spf13/cobra"}, []string{"database/sql/...", "log/..."}, "the commands of a fleet on one machine"},

	// Programs: they wire, and nothing imports them.
	{"cmd/hostler", []string{"internal/buildinfo", "internal/cli/...", "internal/manual", "github.com/spf13/cobra"}, []string{"database/sql/...", "net/..."}, "signs, and speaks HTTP: the areas are in internal/cli"},
	{"cmd/hostler-agent", []string{"fence/agents", "fence/devices", "guard", "unique", "alerts", "internal/blob", "client", "internal/files", "internal/clock", "internal/failpoint", "agent/...", "api", "internal/buildinfo", "internal/daemon", "certs", "container", "image", "internal/durable", "internal/prom", "internal/release", "internal/cgroup", "internal/limiter", "internal/settings", "internal/space", "internal/warnings", "internal/witness", "lxc", "metrics", "metrics/influx/...", "mqtt", "network", "network/names", "podman", "policy", "protocol/...", "runner/...", "github.com/spf13/cobra", "golang.org/x/sync/...", "golang.org/x/sys/...", "backup", "volume"}, []string{"database/sql/..."}, "hosts carry the client of the broker, not the broker"},
	{"cmd/hostler-coordinator", []string{"fence", "fence/agents", "unique", "agent/checkup", "api", "internal/clock", "internal/failpoint", "internal/lobby", "broker", "certs", "coordinator/...", "internal/buildinfo", "internal/daemon", "internal/durable", "internal/notify", "internal/prom", "internal/settings", "internal/space", "internal/warnings", "mqtt", "metrics/influx/...", "policy", "protocol/...", "github.com/spf13/cobra", "golang.org/x/sync/...", "golang.org/x/sys/...", "coordinator/workloads", "placement"}, nil, "the one program with a broker in it"},
	{"cmd/hostler-run", []string{"runner/...", "golang.org/x/sys/..."}, small, "one process per running command: it must stay small"},
	{"cmd/hostler-lxc", []string{"lxc/helper", "runner/...", "golang.org/x/sys/..."}, nil, "the one program with cgo"},
	{"integration/cmd/bench/bare", []string{"internal/sqldb"}, nil, "does the work of an order and nothing else, for comparison"},
	{"integration/cmd/bench/proc", nil, nil, "reads what /proc tells of a process"},
	{"integration/cmd/bench/sealing", []string{"certs", "protocol"}, nil, "what a signed message takes, measured inside"},
	{"integration/cmd/bench", []string{"certs", "coordinator/core", "coordinator/sqlstore", "golang.org/x/sync/...", "github.com/influxdata/influxdb-client-go/v2", "integration/cmd/bench/bare", "integration/cmd/bench/proc", "integration/cmd/bench/sealing", "metrics", "metrics/influx", "placement", "protocol/...", "sim", "unique"}, []string{"database/sql/..."}, "measures the built programs from outside; floors, signatures and what is pure are measured inside, and a fleet of thousands is not let in one by one"},
	{"integration/cmd/barelease", []string{"certs", "protocol", "protocol/san"}, nil, "what leases take that are checked and answered, and no more: a floor"},
	{"integration/cmd/barelxc", []string{"github.com/lxc/go-lxc"}, nil, "what liblxc alone takes: a floor"},
	{"integration/cmd/barerun", nil, nil, "the smallest honest supervisor: a floor"},
	{"integration/cmd/lonely", []string{"guard", "internal/clock", "golang.org/x/sys/..."}, nil, "the first program of a machine that a test boots, and with the guard the only one"},
	{"integration/cmd/pulse", []string{"golang.org/x/sys/..."}, nil, "runs in a container of a test, with nothing else in it"},
	{"integration/cmd/roundtrip", nil, nil, "measures as a stranger would, with the standard library"},
}

// planned are the packages that have a line above and are still to be written.
// It must be empty when the tree is complete.
var planned = []string{}

// owners says who may import a library of another module, by module or, where
// a module is many things, by package.
var owners = []struct {
	library string
	owners  []string
	why     string
}{
	{"github.com/ProtonMail/go-crypto", []string{"certs"}, "keys are handled in one place"},
	{"github.com/danielgtaylor/huma/v2", []string{"coordinator/web"}, "the HTTP layer can be changed without the coordinator"},
	{"github.com/coder/websocket", []string{"internal/attach"}, "one owner for both ends of it"},
	{"github.com/creack/pty", nil, "tests alone"},
	{"github.com/eclipse/paho.mqtt.golang", []string{"mqtt"}, "its callbacks and options are traps to be known once"},
	{"github.com/google/go-containerregistry", []string{"image"}, "registries and their ways to be asked are known in one place"},
	{"github.com/influxdata/influxdb-client-go/v2", []string{"integration/cmd/bench", "metrics/influx"}, "the way into databases of measurements is known in one place; the bench compares it with the client alone"},
	{"github.com/cavaliergopher/cpio", []string{"internal/release"}, "the archive inside an rpm package"},
	{"github.com/klauspost/compress", []string{"image/rootfs"}, "zstd, and gzip at twice the speed of the standard library's"},
	{"github.com/lxc/go-lxc", []string{"integration/cmd/barelxc", "lxc/helper"}, "a program linked with liblxc does not start where it is missing"},
	{"github.com/minio/minio-go/v7", []string{"backup/bucket"}, "how stores that speak S3 are asked is known in one place"},
	{"github.com/mochi-mqtt/server/v2", []string{"broker/..."}, "hosts carry no broker"},
	{"github.com/ohler55/ojg", []string{"internal/cli/show"}, "a form of output; no other program reads paths"},
	{"github.com/pelletier/go-toml/v2", []string{"internal/cli/conn", "internal/settings"}, "both daemons are configured in the same way; the operator's file holds contexts, and is written as well"},
	{"github.com/prometheus/procfs", []string{"metrics"}, "the kernel's texts are read in one place"},
	{"github.com/spf13/cobra", []string{"agent/hostcmd", "cmd/...", "internal/cli/...", "internal/cmdline", "internal/daemon", "internal/manual", "internal/pagetest"}, "command lines are the programs' business"},
	{"github.com/spf13/pflag", []string{"internal/cli/term", "internal/cmdline", "internal/pagetest"}, "the words of cobra for what a flag cannot take, and the types of flags"},
	{"github.com/ulikunitz/xz", []string{"image/rootfs"}, "the archives of image servers"},
	{"github.com/vishvananda/netlink", []string{"network"}, "one owner of the host's links"},
	{"go.yaml.in/yaml/v3", []string{"internal/cli/show", "internal/batchfile", "internal/yamlfile"}, "a form of output of the one, the form of files of the others, which read them strictly"},
	{"github.com/google/nftables", []string{"network"}, "one owner of the host's packet filter"},
	{"modernc.org/sqlite", []string{"internal/sqldb"}, "pragmas and retries are set in one place"},
	{"modernc.org/libc", []string{"internal/sqldb"}, "the layer below SQLite is given C memory"},
	{"golang.org/x/sync", []string{"agent/...", "broker", "cmd/...", "coordinator/...", "dev", "image", "integration/cmd/bench", "lxc", "mqtt"}, "above the floor alone"},
	{"golang.org/x/sys", []string{"guard", "agent/...", "cmd/...", "dev", "internal/clock", "image/rootfs", "internal/linetest", "integration/cmd/lonely", "integration/cmd/pulse", "internal/files", "internal/layers", "internal/space", "internal/tree", "internal/spread", "internal/witness", "lxc/...", "metrics", "mqtt", "network/...", "podman", "runner/...", "snapshot", "backup", "volume"}, "system calls stay in the packages that are about the system"},
	{"golang.org/x/term", []string{"internal/cli/term"}, "only the CLI has a terminal"},
	{"golang.org/x/time", []string{"agent/containers", "broker", "coordinator/web"}, "limits stand where strangers come in, and where the events of a runtime do"},
	{"github.com/anishathalye/porcupine", nil, "tests alone"},
	{"github.com/google/go-cmp", nil, "tests alone"},
	{"github.com/rogpeppe/go-internal", nil, "tests alone"},
	{"pgregory.net/rapid", nil, "tests alone"},
}

// linked are programs that must not contain a package, by whatever way.
var linked = []struct {
	program string
	never   []string
	why     string
}{
	{"cmd/hostler-run", []string{"fmt", "net", "encoding/json", "log/slog"}, "at most 2 MB, one process for each running command"},
	{"cmd/hostler-agent", []string{module + "/broker", "github.com/mochi-mqtt/server/v2", "github.com/lxc/go-lxc"}, "hosts carry no broker and need no liblxc"},
	{"cmd/hostler", []string{"modernc.org/sqlite", "github.com/mochi-mqtt/server/v2"}, "the operator's program carries neither store nor broker"},
}

// match reports whether the path is the pattern, or below it if it ends in /...
func match(pattern, path string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, path) })
}

// local cuts the module off an import path of ours.
func local(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// standard reports whether the path is of the standard library: its first
// element has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// checkImports holds a package to its line.
func checkImports(c *check) {
	i := slices.IndexFunc(allowed, func(a allowance) bool { return a.pkg == c.pkg.path })
	if i < 0 {
		c.report(c.pkg.files[0].syntax.Name, "package %s has no line in the table of imports: add one, with its reason", c.pkg.path)
		return
	}
	line := allowed[i]
	eachImport(c.pkg, func(f *file, spec *ast.ImportSpec, path string) {
		own, ours := local(path)
		switch {
		case ours && strings.HasPrefix(own, "cmd/"):
			c.report(spec, "nothing imports a program")
		case f.test, c.pkg.support() && forTests(path):
		case ours && !matchAny(line.may, own), !ours && !standard(path) && !matchAny(line.may, path):
			c.report(spec, "%s may not import %s: %s", c.pkg.path, path, line.why)
		case standard(path) && matchAny(line.never, path):
			c.report(spec, "%s may not import %s: %s", c.pkg.path, path, line.why)
		}
	})
}

// checkLibraries holds a library to its owner. It repeats a part of the table
// of imports on purpose: a line there cannot give a library a second owner.
func checkLibraries(c *check) {
	eachImport(c.pkg, func(f *file, spec *ast.ImportSpec, path string) {
		if _, ours := local(path); f.test || ours || standard(path) {
			return
		}
		for _, o := range owners {
			switch {
			case !match(o.library+"/...", path):
			case c.pkg.support() && forTests(path), matchAny(o.owners, c.pkg.path):
				return
			case o.owners == nil:
				c.report(spec, "%s is for tests", o.library)
				return
			default:
				c.report(spec, "%s belongs to %s: %s", o.library, strings.Join(o.owners, ", "), o.why)
				return
			}
		}
		c.report(spec, "%s has no owner: add it to the table, with its reason", path)
	})
}

// forTests reports whether the path is of a library that nobody owns, being for
// tests.
func forTests(path string) bool {
	for _, o := range owners {
		if o.owners == nil && match(o.library+"/...", path) {
			return true
		}
	}
	return false
}

func eachImport(p *pkg, do func(f *file, spec *ast.ImportSpec, path string)) {
	for _, f := range p.files {
		for _, spec := range f.syntax.Imports {
			if path := importPath(spec); path != "C" {
				do(f, spec, path)
			}
		}
	}
}
