package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/agent/bridges"
	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/metrics"
	"github.com/hostler-io/hostler/metrics/influx"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/protocol"
)

// config is the configuration file, /etc/hostler/agent.toml. Everything has a
// default; a key that is not listed here is an error.
type config struct {
	Host     string         `toml:"host" takes:"reload" default:"the short host name" does:"The id that the host asks for when it joins a fleet, and has while it is in none. A member keeps its id."`
	StateDir string         `toml:"state_dir" takes:"restart" does:"The directory of keys, of the agent's memory, and of the output of commands. Only the agent may read it."`
	Socket   string         `toml:"socket" takes:"reload" does:"Where the people of the host speak to the agent: root, and the group hostler if there is one."`
	Policy   string         `toml:"policy" takes:"reload" does:"Root's own file of which action needs whose approval on this host. If it is there, it is in force over every policy that is signed."`
	HTTP     httpConfig     `toml:"http"`
	Commands commandsConfig `toml:"commands"`
	Sessions sessionsConfig `toml:"sessions"`
	LXC      lxcConfig      `toml:"lxc"`
	Podman   podmanConfig   `toml:"podman"`
	Images   imagesConfig   `toml:"images"`
	Backups  backupsConfig  `toml:"backups"`
	Network  networkConfig  `toml:"network"`
	Metrics  metricsConfig  `toml:"metrics"`
	Alerts   alertsConfig   `toml:"alerts"`
	Unique   uniqueConfig   `toml:"unique"`
	Fence    fenceConfig    `toml:"fence"`

	path string // of the file that was named; empty for the usual one
}

type commandsConfig struct {
	Supervisor string `toml:"supervisor" takes:"reload" default:"hostler-run beside hostler-agent, or in /usr/libexec/hostler if that is in /usr/bin" does:"The program that supervises one command."`
	Parallel   int    `toml:"parallel" takes:"reload" does:"How many commands of the host run at a time."`
	Lanes      int    `toml:"lanes" takes:"reload" does:"How many actions on containers run at a time. 1 makes one queue of all actions, commands of the host among them: one after the other, in the order in which they were accepted."`
	OutputMiB  int    `toml:"output_mib" takes:"reload" unit:"MiB" does:"How much of the disk the output of all commands may take. What ended first goes first, and nothing of what runs."`
	OutputDays int    `toml:"output_days" takes:"reload" unit:"days" does:"For how long the output of a command is kept after its end."`
}

// The values of sessions.unrecorded.
const (
	unrecordedContinue = "continue"
	unrecordedEnd      = "end"
)

type sessionsConfig struct {
	Parallel   int    `toml:"parallel" takes:"reload" does:"How many interactive sessions there are at a time, on the host and in its containers. Another is refused."`
	Record     bool   `toml:"record" takes:"reload" does:"Record every session, and not only those whose people ask for it. They are told when it begins. What is printed is recorded, and not what is typed: passwords are typed unseen."`
	RecordMiB  int    `toml:"record_mib" takes:"reload" unit:"MiB" does:"How long a recording may become, 64 at most."`
	Unrecorded string `toml:"unrecorded" takes:"reload" does:"What becomes of a session whose recording cannot go on, because the disk is full or the recording as long as it may be: continue, or end."`
}

type lxcConfig struct {
	Path    string `toml:"path" takes:"reload" does:"The directory of the containers."`
	Helper  string `toml:"helper" takes:"reload" default:"hostler-lxc beside hostler-agent, or in /usr/libexec/hostler if that is in /usr/bin" does:"The program that does one operation of LXC."`
	Rootfs  string `toml:"rootfs" takes:"reload" does:"What new containers of an image have as their root directory: copy is a copy of the image's files; auto shares these files between all unprivileged containers of the image where the kernel and the file system can (then lxc.overlay is among the features of the host), and is a copy elsewhere. Containers keep what they were made with."`
	FirstID uint32 `toml:"first_id" takes:"reload" does:"The first of the users and groups of the host that belong to unprivileged containers. Nothing else may use them."`
	IDs     uint32 `toml:"ids" takes:"reload" does:"How many users and groups belong to unprivileged containers: 65536 for each of them."`
}

// The values of lxc.rootfs.
const (
	rootfsAuto = "auto"
	rootfsCopy = "copy"
)

// The values of podman.use.
const (
	podmanAuto = "auto"
	podmanOn   = "on"
	podmanOff  = "off"
)

type podmanConfig struct {
	Use     string `toml:"use" takes:"reload" does:"Whether containers are made by podman: on, also while its service does not answer; off; or auto, if the socket is there when the agent starts."`
	Socket  string `toml:"socket" takes:"reload" does:"The socket of podman's service."`
	FirstID uint32 `toml:"first_id" takes:"reload" does:"As lxc.first_id, for containers of podman. No user and no group belongs to both."`
	IDs     uint32 `toml:"ids" takes:"reload" does:"As lxc.ids, for containers of podman."`
}

type imagesConfig struct {
	Insecure    []string `toml:"insecure" takes:"reload" does:"Registries and other servers, each HOST[:PORT], that may be asked for images of LXC containers without TLS. What they send is still held against its digests. Podman has settings of its own for this and for mirrors, in registries.conf."`
	Mirrors     []string `toml:"mirrors" takes:"reload" does:"Where images of LXC containers are asked for first, each REGISTRY=MIRROR, for example \"docker.io=mirror.example:5000\". Where a mirror has nothing, the next one is asked, and at last the registry."`
	Proxy       string   `toml:"proxy" takes:"reload" default:"HTTPS_PROXY of the agent's environment" does:"The URL of the proxy by which registries are reached."`
	Servers     []string `toml:"servers" takes:"reload" does:"The image servers for LXC, each NAME=URL, so that NAME:debian/12 is an image of it. They speak simplestreams. One without https has to be among images.insecure."`
	Debootstrap string   `toml:"debootstrap" takes:"reload" does:"The mirror of Debian of whose packages images for LXC are made, such as debootstrap:bookworm. The keys of Debian on this host verify what it sends, so it needs no TLS. Empty makes none."`
	Logins      []string `toml:"logins" takes:"reload" does:"Who the host is to registries and mirrors that ask, each REGISTRY=FILE. The file, which root alone should read, holds USER:PASSWORD."`
	MaxGiB      int      `toml:"max_gib" takes:"reload" unit:"GiB" does:"How large an image may be, as its registry has it. A larger one is refused before anything of it is fetched."`
	KeepGiB     int      `toml:"keep_gib" takes:"reload" unit:"GiB" does:"How much of the disk images for LXC may take together. Those that were used longest ago are removed first; what was used within an hour stays, and so does what was made on a host, for no server has it. Containers need no image once they are made. 0 is no limit."`
	KeepDays    int      `toml:"keep_days" takes:"reload" unit:"days" does:"For how long an image for LXC is kept after a container was made of it last. 0 is no limit."`
}

// autoPool has the host choose the IPv6 network of its bridge.
const autoPool = "auto"

// prefix6 is the bridge's IPv6 network; zero for none.
func (n networkConfig) prefix6(s state) (netip.Prefix, error) {
	switch n.IPv6 {
	case "":
		return netip.Prefix{}, nil
	case autoPool:
		return bridges.OwnPool(text("/etc/machine-id") + string(s) + n.Bridge), nil
	}
	p, err := netip.ParsePrefix(n.IPv6)
	if err != nil || !p.Addr().Is6() || !p.Addr().IsPrivate() || p != p.Masked() || p.Bits() > 112 {
		return netip.Prefix{}, fmt.Errorf("network.subnet6: %q is no private IPv6 network with room for containers: want auto, or one like fd5a:17:42::/64", n.IPv6)
	}
	return p, nil
}

func (c imagesConfig) registries() image.Registries {
	return image.Registries{Insecure: c.Insecure, Mirrors: c.Mirrors, Proxy: c.Proxy, Servers: c.Servers, Logins: c.Logins, Debootstrap: c.Debootstrap}
}

type backupsConfig struct {
	Targets       []string `toml:"targets" takes:"restart" does:"Where backups of containers can be kept beside this host: directories and buckets. NAME=DIRECTORY, for example \"nas=/mnt/nas/hostler\", is a directory in a file system of another machine. It has to be there: below a mount point, so that nothing is written while nothing is mounted. NAME=s3://HOST[:PORT]/BUCKET[/PREFIX], for example \"offsite=s3://s3.example:9000/backups/edge-07\", is a bucket of a store that speaks S3; ?region=REGION, style=path and style=dns may stand behind it, and s3+http:// before it leads to a store on this machine without TLS. Each host has a directory or prefix of its own."`
	S3Credentials []string `toml:"s3_credentials" takes:"restart" does:"Who the host is to the stores of its buckets, each TARGET=FILE. The file, which only root may read, holds ACCESS_KEY:SECRET_KEY. A name without a slash is a credential that systemd gives the agent (LoadCredential=). It is read for each command, so that a change counts at once."`
	S3CAFile      string   `toml:"s3_ca_file" takes:"restart" default:"those of the system" does:"A file of certificates in PEM. One of them must have signed the certificate of each store of buckets."`
	EncryptTo     string   `toml:"encrypt_to" takes:"restart" default:"none" does:"A file of public OpenPGP keys, as gpg --export writes it. New backups are encrypted to all of them; those that move a container to another host are not. Whether a key can be used is looked at for each backup, so that an expired key fails the backup and not the agent."`
	SecretKey     string   `toml:"secret_key" takes:"restart" default:"none" does:"A file with the secret OpenPGP keys, without a passphrase, that only root may read. Containers are made from encrypted backups only where it is."`
}

type networkConfig struct {
	Bridge string `toml:"bridge" takes:"reload" does:"The device that new containers are attached to. It is made when the first of them needs it. Empty: containers get no network."`
	Subnet string `toml:"subnet" takes:"reload" does:"The IPv4 network of the bridge. The host has its first address."`
	IPv6   string `toml:"subnet6" takes:"reload" does:"The IPv6 network of the bridge, in fd00::/8, for example fd5a:17:42::/64. The host has its first address. auto: the host chooses one that no other host is likely to have, the same at every start. Empty: none."`
	NAT    bool   `toml:"nat" takes:"reload" does:"Whether containers reach other machines, by the address of the host. The host forwards packets then."`
	Names  bool   `toml:"names" takes:"reload" does:"Whether containers of a network find each other by name. It needs the program dnsmasq, which the host starts for each network that has containers. False: a server of names of your own may listen at the address of the host there, and containers that are made from then on have a resolv.conf of their own."`
	DHCP   bool   `toml:"dhcp" takes:"reload" does:"Whether containers that ask for an address by DHCP are told the one that they have. Many images ask, and some take the address away that they have if nothing answers. It needs names = true."`
}

type uniqueConfig struct {
	Pausable string `toml:"pausable" takes:"restart" does:"Whether this machine can be stopped as a whole with its clocks, as a virtual machine that is paused or a container that is frozen: auto (a virtual machine can, and so can a container in which the agent runs), yes, or no. What runs on a machine that can goes on for a moment when it wakes, so the end of its lease proves nothing: its unique containers start elsewhere only when a fence device or a person says that it is off. Say no only if this machine is never paused, suspended or moved."`
	Guard    bool   `toml:"guard" takes:"reload" does:"Let this host hold unique containers. Two small processes of their own then kill such a container when the lease of the host ends, also when the agent is dead; the agent tests that when it starts."`
	Watchdog string `toml:"watchdog" takes:"reload" does:"The watchdog of this machine, for example /dev/watchdog. It resets the whole machine, with everything that runs on it, if unique containers do not end with their lease: if both processes of the guard are killed at once, if the guard is stopped or hangs, or if a kill does not come to its end. The guard arms it while the host holds unique containers. No other program may have it open; systemd has it if its RuntimeWatchdogSec is set. Empty: none."`
	Reboot   bool   `toml:"reboot" takes:"reload" does:"Let the guard restart this machine, with everything that runs on it and without writing anything to its disks first, if a unique container cannot be killed when its lease has ended, because it waits for a disk that does not answer. Without this, and without a watchdog, the end of the lease is no proof that the container does not run, so coordinators do not count on it: see min_self_fence there."`
}

type alertsConfig struct {
	Rules []string `toml:"rules" takes:"reload" does:"When something measured raises an alert: TARGET QUANTITY=THRESHOLD[/TIME][:SEVERITY]…, for example \"host disk=90%/5m\" or \"* ram=80%/60s ram=95%/60s:critical\". A target is host, the name of a container, or * for each container. Without rules nothing does."`
}

// parse reads the rules.
func (c alertsConfig) parse() (all []alerts.Rule, err error) {
	for _, text := range c.Rules {
		rules, err := alerts.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("alerts.rules: %w", err)
		}
		all = append(all, rules...)
	}
	for _, r := range all {
		if r.OfCoordinator() {
			return nil, fmt.Errorf("alerts.rules: %s is judged by the coordinator, and no host can measure it; use hostler alert rule set", r.Quantity)
		}
	}
	if len(all) > alerts.MaxRules {
		return nil, fmt.Errorf("alerts.rules: %d rules, want at most %d", len(all), alerts.MaxRules)
	}
	return all, nil
}

type metricsConfig struct {
	MiB int `toml:"mib" takes:"reload" unit:"MiB" does:"How much of the disk the samples of the host and its containers may take. The oldest go first."`

	Influx influxConfig `toml:"influx"`
}

func defaults() (config, error) {
	self, err := os.Executable()
	if err != nil {
		return config{}, fmt.Errorf("find the programs beside this one: %w", err)
	}
	beside := func(name string) string { return buildinfo.Helper(filepath.Dir(self), name) }
	c := config{
		StateDir: "/var/lib/hostler/agent",
		Socket:   "/run/hostler/agent.sock",
		Policy:   "/etc/hostler/policy.toml",
		Commands: commandsConfig{Supervisor: beside("hostler-run"), Parallel: 16, Lanes: 32, OutputMiB: 2 << 10, OutputDays: 14},
		Sessions: sessionsConfig{Parallel: 16, RecordMiB: 32, Unrecorded: unrecordedContinue},
		LXC:      lxcConfig{Path: "/var/lib/lxc", Rootfs: rootfsCopy, Helper: beside("hostler-lxc"), FirstID: lxc.DefaultIDs.First, IDs: lxc.DefaultIDs.Count},
		Podman:   podmanConfig{Use: podmanAuto, Socket: "/run/podman/podman.sock", FirstID: podman.DefaultIDs.First, IDs: podman.DefaultIDs.Count},
		Images:   imagesConfig{MaxGiB: 64, KeepGiB: 64, KeepDays: 90, Servers: []string{"images=https://images.linuxcontainers.org"}, Debootstrap: "http://deb.debian.org/debian"},
		Unique:   uniqueConfig{Pausable: pausableAuto},
		Fence:    defaultFence(),
		Network:  networkConfig{Bridge: "hostler0", Subnet: "10.133.0.0/24", Names: true, DHCP: true},
		Metrics:  metricsConfig{MiB: metrics.DefaultLimit >> 20, Influx: influxConfig{API: string(influx.APIModern), Bucket: "hostler", Seconds: 60, SpoolMiB: 64}},
	}
	if name, err := os.Hostname(); err == nil {
		c.Host, _, _ = strings.Cut(strings.ToLower(name), ".")
	}
	return c, nil
}

// defaultConfigPath is read if it is there and no other file was named.
const defaultConfigPath = "/etc/hostler/agent.toml"

// load returns the configuration that is in force, and where each setting came
// from.
func load(path string, environ []string) (config, settings.Origin, error) {
	c, err := defaults()
	if err != nil {
		return c, nil, err
	}
	from, err := settings.Load(settings.Source{Path: path, Default: defaultConfigPath, Environ: environ}, &c)
	if err != nil {
		return c, nil, err
	}
	if path != "" {
		if c.path, err = filepath.Abs(path); err != nil {
			return c, nil, fmt.Errorf("find the configuration: %w", err)
		}
	}
	return c, from, c.check()
}

func (c *config) check() error {
	for _, s := range [][2]string{
		{"state_dir", c.StateDir}, {"socket", c.Socket}, {"policy", c.Policy},
		{"commands.supervisor", c.Commands.Supervisor}, {"lxc.path", c.LXC.Path}, {"lxc.helper", c.LXC.Helper}, {"podman.socket", c.Podman.Socket},
	} {
		if !filepath.IsAbs(s[1]) {
			return fmt.Errorf("%s: %q is not an absolute path", s[0], s[1])
		}
	}
	if err := c.HTTP.check(); err != nil {
		return err
	}
	if _, err := protocol.ParseHostID(c.Host); err != nil {
		return fmt.Errorf("host: %q is no host id: %w", c.Host, err)
	}
	if err := c.Fence.check(); err != nil {
		return err
	}
	if err := c.Unique.check(); err != nil {
		return err
	}
	if c.Commands.Parallel < 1 || c.Commands.Lanes < 1 {
		return errors.New("commands: parallel and lanes are at least 1")
	}
	if c.Commands.OutputMiB < 1 || c.Commands.OutputDays < 1 {
		return fmt.Errorf("commands: output_mib = %d and output_days = %d: want 1 at least of each", c.Commands.OutputMiB, c.Commands.OutputDays)
	}
	if err := errors.Join(checkIDs("lxc", c.LXC.ids()), checkIDs("podman", c.Podman.ids())); err != nil {
		return err
	}
	if c.LXC.ids().Overlaps(c.Podman.ids()) {
		return errors.New("lxc.first_id, lxc.ids, podman.first_id and podman.ids give ids to both: want two ranges that have none in common")
	}
	if r := c.LXC.Rootfs; r != rootfsAuto && r != rootfsCopy {
		return fmt.Errorf("lxc.rootfs = %q: want %s or %s", r, rootfsAuto, rootfsCopy)
	}
	if u := c.Podman.Use; u != podmanAuto && u != podmanOn && u != podmanOff {
		return fmt.Errorf("podman.use = %q: want %s, %s or %s", u, podmanAuto, podmanOn, podmanOff)
	}
	if c.Images.MaxGiB < 1 {
		return fmt.Errorf("images.max_gib = %d: want 1 at least", c.Images.MaxGiB)
	}
	if c.Images.KeepGiB < 0 || c.Images.KeepDays < 0 {
		return fmt.Errorf("images.keep_gib = %d, images.keep_days = %d: want 0, which is no limit, or more", c.Images.KeepGiB, c.Images.KeepDays)
	}
	if err := c.Images.registries().Check(); err != nil {
		return err
	}
	if _, err := backup.ParseTargets(c.Backups.Targets, c.Backups.access()); err != nil {
		return fmt.Errorf("backups.targets: %w", err)
	}
	for name, file := range map[string]string{"encrypt_to": c.Backups.EncryptTo, "secret_key": c.Backups.SecretKey, "s3_ca_file": c.Backups.S3CAFile} {
		if file != "" && !filepath.IsAbs(file) {
			return fmt.Errorf("backups.%s: %q is not an absolute path", name, file)
		}
	}
	if c.Metrics.MiB < 1 {
		return fmt.Errorf("metrics.mib = %d: want 1 at least", c.Metrics.MiB)
	}
	if err := c.Metrics.Influx.check(); err != nil {
		return err
	}
	if _, err := c.Alerts.parse(); err != nil {
		return err
	}
	if err := c.Sessions.check(); err != nil {
		return err
	}
	if c.Network.Bridge == "" {
		return nil
	}
	if err := container.CheckBridge(c.Network.Bridge); err != nil {
		return fmt.Errorf("network.bridge: %w", err)
	}
	if _, err := c.Network.prefix6(""); err != nil {
		return err
	}
	_, err := c.Network.prefix()
	return err
}

func (c lxcConfig) ids() container.IDRange {
	return container.IDRange{First: c.FirstID, Count: c.IDs}
}

func (c podmanConfig) ids() container.IDRange {
	return container.IDRange{First: c.FirstID, Count: c.IDs}
}

func checkIDs(section string, r container.IDRange) error {
	if r.First < 1<<16 || r.Count < 1<<16 || uint64(r.First)+uint64(r.Count) >= 1<<32 {
		return fmt.Errorf("%s.first_id = %d and %s.ids = %d: want 65536 ids at least, all of them above 65535", section, r.First, section, r.Count)
	}
	return nil
}

// maxRecordMiB is what a coordinator keeps of one stream.
const maxRecordMiB = 64

func (s sessionsConfig) check() error {
	switch {
	case s.Parallel < 1:
		return fmt.Errorf("sessions.parallel = %d: want at least 1; use the policy to forbid sessions", s.Parallel)
	case s.RecordMiB < 1 || s.RecordMiB > maxRecordMiB:
		return fmt.Errorf("sessions.record_mib = %d: want 1 to %d", s.RecordMiB, maxRecordMiB)
	case s.Unrecorded != unrecordedContinue && s.Unrecorded != unrecordedEnd:
		return fmt.Errorf("sessions.unrecorded = %q: want %s or %s", s.Unrecorded, unrecordedContinue, unrecordedEnd)
	}
	return nil
}

// prefix is the bridge's network.
func (n networkConfig) prefix() (netip.Prefix, error) {
	p, err := netip.ParsePrefix(n.Subnet)
	if err != nil || !p.Addr().Is4() || p != p.Masked() || p.Bits() > 30 {
		return netip.Prefix{}, fmt.Errorf("network.subnet: %q is no IPv4 network with room for containers: want one like 10.133.0.0/24", n.Subnet)
	}
	return p, nil
}
