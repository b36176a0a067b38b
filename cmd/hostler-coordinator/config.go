package main

import (
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/hostler-io/hostler/coordinator/alerting"
	"github.com/hostler-io/hostler/coordinator/workloads"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/metrics/influx/destination"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// config is the configuration file, /etc/hostler/coordinator.toml. Everything
// has a default; a key that is not listed here is an error.
type config struct {
	StateDir   string        `toml:"state_dir" takes:"restart" does:"The directory of keys, database and output. Only the coordinator may read it."`
	MaxPayload int           `toml:"max_payload_mib" takes:"restart" unit:"MiB" does:"How large a file may be that a command reads or that is pushed. Files take the room of the state directory, and leave 1 GiB of it free."`
	HTTP       httpConfig    `toml:"http"`
	Output     outputConfig  `toml:"output"`
	Actions    actionsConfig `toml:"actions"`
	MQTT       mqttConfig    `toml:"mqtt"`
	Policy     policyConfig  `toml:"policy"`
	Notify     notifyConfig  `toml:"notify"`
	Lease      leaseConfig   `toml:"lease"`
	Unique     uniqueConfig  `toml:"unique"`
	Fence      fenceConfig   `toml:"fence"`
	Placement  placeConfig   `toml:"placement"`
	Metrics    metricsConfig `toml:"metrics"`

	own, hosts *policy.Policy   // what the files of Policy say
	notices    alerting.Notices // whom Notify names
}

type policyConfig struct {
	File      string `toml:"file" takes:"reload" does:"A file that says who may request what, and what waits for approvals before it is sent, in the language of the policies of hosts. Empty: operators and admins may request everything, and need no approval."`
	HostsFile string `toml:"hosts_file" takes:"reload" does:"A copy of the policy in force on hosts that have not told theirs. The approvals that a policy asks for are collected before an order is sent; the host refuses what is not approved as it wants, whatever is known here."`
	FourEyes  bool   `toml:"four_eyes" takes:"reload" does:"Count no approval of the person who made the request: the person to whom its token is bound. Requests that need approvals are refused to tokens that are bound to no person."`
}

// leaseConfig is about unique containers. Its times are those of [unique.Timing].
type leaseConfig struct {
	TTL      int    `toml:"ttl_seconds" takes:"restart" unit:"s" does:"For how long a host may run its unique containers without a word of the coordinator."`
	Kill     int    `toml:"kill_seconds" takes:"restart" unit:"s" does:"How long a host may take to kill them when that time is over."`
	Drift    int    `toml:"drift_permille" takes:"restart" unit:"‰" does:"By how much the clock of a host, or of the coordinator, may be too fast or too slow."`
	Margin   int    `toml:"margin_seconds" takes:"restart" unit:"s" does:"What is added to be safe."`
	Takeover int    `toml:"takeover_seconds" takes:"restart" unit:"s" does:"How long after a host was heard last its unique containers may start elsewhere. 0 is the least that is safe, (ttl + kill) × (1 + 2 × drift) + margin; less than that is refused."`
	Fence    string `toml:"min_self_fence" takes:"restart" does:"What must kill unique containers on a host whose agent is dead, so that the end of its lease is believed. guard: two processes of the host kill them; a process that waits for a disk which does not answer lives on, and then the container runs twice. reboot: the guard also restarts its machine if a kill fails (unique.reboot of the agent). watchdog: a watchdog resets the machine, also when both processes of the guard are dead. With reboot, kill_seconds is 12 at least, and with watchdog 15."`
}

// timing returns the times, checked.
func (c leaseConfig) timing() (unique.Timing, error) {
	t := unique.Timing{
		TTL: time.Duration(c.TTL) * time.Second, Kill: time.Duration(c.Kill) * time.Second, DriftPermille: int64(c.Drift),
		Margin: time.Duration(c.Margin) * time.Second, Wait: time.Duration(c.Takeover) * time.Second,
	}
	least, ok := map[unique.SelfFence]time.Duration{unique.FenceGuard: 0, unique.FenceReboot: unique.RebootTime, unique.FenceWatchdog: unique.ResetTime}[unique.SelfFence(c.Fence)]
	if !ok {
		return t, fmt.Errorf("lease.min_self_fence: %q: use guard, reboot or watchdog", c.Fence)
	}
	if t.Kill < least {
		return t, fmt.Errorf("lease.kill_seconds: %d is too short for lease.min_self_fence = %q: a machine that cannot kill a container is reset within %s; use at least that, or min_self_fence = %q if two copies may run where a kill fails", c.Kill, c.Fence, least, unique.FenceGuard)
	}
	return t, t.Check()
}

// uniqueConfig is about unique containers that run where they may not.
type uniqueConfig struct {
	Copies string `toml:"copies" takes:"restart" does:"What becomes of a unique container that a host runs although another host holds it, or none may: stop_stale stops all copies but that of the newest epoch; stop_all stops that one too, and a person starts one again; block stops none, and decides nothing about the container while there are several."`
}

// placeConfig is about where unique containers run. Its rules are [workloads.Placing].
type placeConfig struct {
	Strategy string `toml:"strategy" takes:"restart" does:"Which of the hosts that are equally good gets a container: spread takes the one with the fewest, binpack the one with the least room."`
	Reserve  int    `toml:"reserve_percent" takes:"restart" unit:"%" does:"What part of the processors, the memory and the disk of a host is kept free of unique containers."`
	Stays    int    `toml:"stickiness" takes:"restart" does:"The score of the host that a container is on. With the default no wish moves a container from a host that can go on with it."`
	Starts   int    `toml:"failed_starts" takes:"restart" does:"After how many failed starts in a row a container leaves its host, if another host can take it."`
	Minutes  int    `toml:"failure_minutes" takes:"restart" unit:"min" does:"For how long a container does not return to a host on which it failed."`
}

// placing returns the rules, checked.
func (c placeConfig) placing() (workloads.Placing, error) {
	p := workloads.Placing{Strategy: placement.Strategy(c.Strategy), Reserve: c.Reserve, Stays: c.Stays, Starts: c.Starts, Forgiven: time.Duration(c.Minutes) * time.Minute}
	return p, p.Check()
}

type outputConfig struct {
	TotalMiB int `toml:"total_mib" takes:"restart" unit:"MiB" does:"How much output of commands that have ended is kept, of all together. What ended first goes first."`
	Days     int `toml:"days" takes:"restart" unit:"days" does:"For how long the output of a command is kept after its end."`
}

// actionsConfig is how long what has ended is remembered. The audit log is not
// part of it.
type actionsConfig struct {
	Days  int `toml:"days" takes:"restart" unit:"days" does:"For how long actions are kept after their end, and decided enrolments and ended invites. The audit log is kept by number, and no setting shortens it."`
	Count int `toml:"count" takes:"restart" does:"How many actions that have ended are kept. What ended first goes first."`
}

type httpConfig struct {
	Listen      string   `toml:"listen" takes:"restart" does:"Where the API and enrolment are served, with TLS."`
	Addresses   []string `toml:"addresses" takes:"restart" default:"the address from which this machine speaks to other networks and its name, if that stands for it there too, with the port of http.listen, or http.listen itself if it names an address" does:"How hosts and people reach http.listen, as host:port. Join codes carry them, and the certificate names them."`
	OpenMetrics bool     `toml:"open_metrics" takes:"restart" does:"Answer /metrics and /metrics/fleet to clients on this machine without a token. It must stay off behind a reverse proxy on the same machine, for which every client is on this machine."`
}

type mqttConfig struct {
	Listen    string   `toml:"listen" takes:"restart" does:"Where the embedded broker is served, with TLS."`
	Addresses []string `toml:"addresses" takes:"restart" default:"as with http.addresses" does:"How hosts reach mqtt.listen, as host:port."`
	Reconnect int      `toml:"reconnect_seconds" takes:"restart" unit:"s" default:"-1" does:"Over which time the hosts come back when the broker closes all connections, as at a restart of the coordinator, 600 at most. 0: all at once; -1: 1 s for each 500 hosts, up to 20 s."`
	Plain     bool     `toml:"plain" takes:"restart" does:"Mirror the state of the hosts as plain JSON below hostler/v1/FLEET/plain, retained, for tools that cannot unwrap signed messages. These messages are not signed, so no program may act upon them."`
}

// reconnectByHosts has the reconnect window follow the number of hosts.
const reconnectByHosts = -1

// window is the reconnect window for so many hosts. Two cores take the handshakes of 2,000
// hosts a second, and people wait meanwhile: a quarter of that leaves them room.
func (c mqttConfig) window(hosts int) time.Duration {
	if c.Reconnect != reconnectByHosts {
		return time.Duration(c.Reconnect) * time.Second
	}
	return min(time.Duration(hosts)*time.Second/500, 20*time.Second)
}

func defaults() config {
	return config{
		StateDir:   "/var/lib/hostler/coordinator",
		HTTP:       httpConfig{Listen: ":8443"},
		MQTT:       mqttConfig{Listen: ":8883", Reconnect: reconnectByHosts},
		Output:     outputConfig{TotalMiB: 10 << 10, Days: 30},
		Actions:    actionsConfig{Days: 90, Count: 200_000},
		Notify:     notifyConfig{WaitSeconds: 30, RepeatMinutes: 240},
		Lease:      leaseConfig{TTL: 90, Kill: 15, Drift: 10, Margin: 10, Fence: string(unique.FenceReboot)},
		Unique:     uniqueConfig{Copies: string(unique.StopStale)},
		Fence:      defaultFence(),
		Placement:  placeConfig{Strategy: string(placement.Spread), Reserve: 10, Stays: placement.Infinity, Starts: 5, Minutes: 60},
		Metrics:    metricsConfig{Influx: defaultInflux()},
		MaxPayload: 10 << 10,
	}
}

// defaultConfigPath is read if it is there and no other file was named.
const defaultConfigPath = "/etc/hostler/coordinator.toml"

// load returns the configuration that is in force, and where each setting came
// from.
func load(path string, environ []string) (config, settings.Origin, error) {
	c := defaults()
	from, err := settings.Load(settings.Source{Path: path, Default: defaultConfigPath, Environ: environ}, &c)
	if err != nil {
		return c, nil, err
	}
	return c, from, c.complete()
}

// complete checks the settings and fills in what follows from others.
func (c *config) complete() error {
	if !filepath.IsAbs(c.StateDir) {
		return fmt.Errorf("state_dir: %q is not an absolute path", c.StateDir)
	}
	if c.Output.TotalMiB < 1 || c.Output.Days < 1 {
		return fmt.Errorf("output: total_mib = %d and days = %d: want 1 at least of each", c.Output.TotalMiB, c.Output.Days)
	}
	if c.Actions.Days < 1 || c.Actions.Count < 1 {
		return fmt.Errorf("actions: days = %d and count = %d: want 1 at least of each", c.Actions.Days, c.Actions.Count)
	}
	if n := c.MQTT.Reconnect; n < reconnectByHosts || n > protocol.MaxSpreadMS/1000 {
		return fmt.Errorf("mqtt.reconnect_seconds = %d: want 0 to %d, or -1", n, protocol.MaxSpreadMS/1000)
	}
	if c.MaxPayload < 1 || c.MaxPayload > protocol.MaxPayload>>20 {
		return fmt.Errorf("max_payload_mib: %d is not between 1 and %d", c.MaxPayload, protocol.MaxPayload>>20)
	}
	if _, err := c.Lease.timing(); err != nil {
		return err
	}
	if err := unique.Copies(c.Unique.Copies).Check(); err != nil {
		return err
	}
	if err := c.Fence.check(); err != nil {
		return err
	}
	if _, err := c.Placement.placing(); err != nil {
		return err
	}
	if err := destination.Settings(c.Metrics.Influx).Check(); err != nil {
		return err
	}
	var err error
	if c.notices, err = c.Notify.notices(); err != nil {
		return err
	}
	if c.HTTP.Addresses, err = addresses("http", c.HTTP.Listen, c.HTTP.Addresses); err != nil {
		return err
	}
	if c.MQTT.Addresses, err = addresses("mqtt", c.MQTT.Listen, c.MQTT.Addresses); err != nil {
		return err
	}
	if c.own, err = loadPolicy("policy.file", c.Policy.File); err != nil {
		return err
	}
	c.hosts, err = loadPolicy("policy.hosts_file", c.Policy.HostsFile)
	return err
}

// loadPolicy reads a policy, nil if there is none to read. One with holes is an
// error that lists them, as it is on a host, and so is one that others may write.
func loadPolicy(name, path string) (*policy.Policy, error) {
	if path == "" {
		return nil, nil
	}
	b, err := durable.ReadFile(path, policy.MaxText)
	if err == nil {
		err = durable.CheckOwner(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p, err := policy.Parse(path, b)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func addresses(section, listen string, given []string) ([]string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("%s.listen: %q is not of the form host:port or :port", section, listen)
	}
	for _, a := range given {
		if h, p, err := net.SplitHostPort(a); err != nil || h == "" || p == "" {
			return nil, fmt.Errorf("%s.addresses: %q is not of the form host:port", section, a)
		}
	}
	if len(given) > 0 {
		return given, nil
	}
	hosts := []string{host}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if hosts = thisMachine().hosts(); len(hosts) == 0 {
			return nil, fmt.Errorf("%s.addresses is not set, and this machine has neither an address nor a name", section)
		}
	}
	var all []string
	for _, h := range hosts {
		all = append(all, net.JoinHostPort(h, port))
	}
	return all, nil
}
