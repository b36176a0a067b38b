package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// config is the configuration file, /etc/hostler/agent.toml. Everything has a
// default; a key that is not listed here is an error.
type config struct {
	// Host is the id that the host asks for when it joins, and goes by as long
	// as it is no member of a fleet. Afterwards it cannot be changed. Default:
	// the short host name.
	Host string `toml:"host"`
	// StateDir holds keys, memory and the output of commands. Only the agent may
	// read it.
	StateDir string `toml:"state_dir"`
	// Socket is where the people of the host speak to the agent: root, and the
	// group hostler if there is one.
	Socket   string         `toml:"socket"`
	Commands commandsConfig `toml:"commands"`
	LXC      lxcConfig      `toml:"lxc"`
	Network  networkConfig  `toml:"network"`
}

type commandsConfig struct {
	// Supervisor is the program hostler-run. Default: the one beside this
	// program.
	Supervisor string `toml:"supervisor"`
	// Parallel is how many commands of the host run at a time.
	Parallel int `toml:"parallel"`
	// Lanes is how many actions on containers run at a time; 1 makes one after
	// the other of them.
	Lanes int `toml:"lanes"`
}

type lxcConfig struct {
	// Path is the directory of the containers.
	Path string `toml:"path"`
	// Helper is the program hostler-lxc. Default: the one beside this program.
	Helper string `toml:"helper"`
}

type networkConfig struct {
	// Bridge is the device that new containers are attached to. It is made when
	// the first of them needs it. Empty: containers get no network.
	Bridge string `toml:"bridge"`
	// Subnet is the IPv4 network of the bridge; the host has its first address.
	Subnet string `toml:"subnet"`
}

func defaults() (config, error) {
	self, err := os.Executable()
	if err != nil {
		return config{}, fmt.Errorf("find the programs beside this one: %w", err)
	}
	beside := func(name string) string { return filepath.Join(filepath.Dir(self), name) }
	c := config{
		StateDir: "/var/lib/hostler/agent",
		Socket:   "/run/hostler/agent.sock",
		Commands: commandsConfig{Supervisor: beside("hostler-run"), Parallel: 16, Lanes: 32},
		LXC:      lxcConfig{Path: "/var/lib/lxc", Helper: beside("hostler-lxc")},
		Network:  networkConfig{Bridge: "hostler0", Subnet: "10.133.0.0/24"},
	}
	if name, err := os.Hostname(); err == nil {
		c.Host, _, _ = strings.Cut(strings.ToLower(name), ".")
	}
	return c, nil
}

// defaultConfigPath is read if it is there and no other file was named.
const defaultConfigPath = "/etc/hostler/agent.toml"

// maxConfig bounds each configuration file, in bytes.
const maxConfig = 1 << 20

// origin tells where each setting came from, by its name.
type origin map[string]string

// load reads the file, then the *.toml files of the directory beside it whose
// name is the file's with ".d" for ".toml", in order, then the environment. A
// file that was named must be there.
func load(path string, environ []string) (config, origin, error) {
	c, err := defaults()
	if err != nil {
		return c, nil, err
	}
	from, named := origin{}, path != ""
	if !named {
		path = defaultConfigPath
	}
	more, err := filepath.Glob(strings.TrimSuffix(path, ".toml") + ".d/*.toml")
	if err != nil {
		return c, nil, fmt.Errorf("find configuration beside %s: %w", path, err)
	}
	slices.Sort(more)
	for _, f := range append([]string{path}, more...) {
		if err := c.read(f, from); err != nil && (named || !errors.Is(err, os.ErrNotExist)) {
			return c, nil, err
		}
	}
	if err := c.environment(environ, from); err != nil {
		return c, nil, err
	}
	return c, from, c.check()
}

func (c *config) read(path string, from origin) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if len(b) > maxConfig {
		return fmt.Errorf("%s: %d bytes, at most %d are allowed", path, len(b), maxConfig)
	}
	d := toml.NewDecoder(strings.NewReader(string(b))).DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			return fmt.Errorf("%s: unknown setting:\n%s\nknown are: %s", path, strict.String(), strings.Join(settingNames(), ", "))
		}
		if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
			return fmt.Errorf("%s:\n%s", path, bad.String())
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	var set map[string]any
	if err := toml.Unmarshal(b, &set); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	from.note("", set, path)
	return nil
}

func (o origin) note(prefix string, set map[string]any, path string) {
	for k, v := range set {
		if table, ok := v.(map[string]any); ok {
			o.note(prefix+k+".", table, path)
			continue
		}
		o[prefix+k] = path
	}
}

// setting is one setting by name: how it is shown, and set from a text.
type setting struct {
	name string
	get  func() string
	set  func(string) error
}

func (c *config) settings() []setting {
	text := func(name string, p *string) setting {
		return setting{name, func() string { return *p }, func(s string) error { *p = s; return nil }}
	}
	number := func(name string, p *int) setting {
		return setting{name, func() string { return strconv.Itoa(*p) }, func(s string) (err error) {
			*p, err = strconv.Atoi(s)
			return err
		}}
	}
	return []setting{
		text("host", &c.Host),
		text("state_dir", &c.StateDir),
		text("socket", &c.Socket),
		text("commands.supervisor", &c.Commands.Supervisor),
		number("commands.parallel", &c.Commands.Parallel),
		number("commands.lanes", &c.Commands.Lanes),
		text("lxc.path", &c.LXC.Path),
		text("lxc.helper", &c.LXC.Helper),
		text("network.bridge", &c.Network.Bridge),
		text("network.subnet", &c.Network.Subnet),
	}
}

func settingNames() []string {
	var names []string
	for _, s := range new(config).settings() {
		names = append(names, s.name)
	}
	return names
}

// environment takes HOSTLER_<SECTION>_<KEY>, which overrides files.
func (c *config) environment(environ []string, from origin) error {
	for _, s := range c.settings() {
		key := "HOSTLER_" + strings.ToUpper(strings.ReplaceAll(s.name, ".", "_"))
		for _, kv := range environ {
			v, ok := strings.CutPrefix(kv, key+"=")
			if !ok {
				continue
			}
			if err := s.set(v); err != nil {
				return fmt.Errorf("$%s: %w", key, err)
			}
			from[s.name] = "$" + key
		}
	}
	return nil
}

func (c *config) check() error {
	for _, s := range c.settings() {
		switch s.name {
		case "state_dir", "socket", "commands.supervisor", "lxc.path", "lxc.helper":
			if !filepath.IsAbs(s.get()) {
				return fmt.Errorf("%s: %q is not an absolute path", s.name, s.get())
			}
		}
	}
	if _, err := protocol.ParseHostID(c.Host); err != nil {
		return fmt.Errorf("host: %q is no host id: %w", c.Host, err)
	}
	if c.Commands.Parallel < 1 || c.Commands.Lanes < 1 {
		return errors.New("commands: parallel and lanes are at least 1")
	}
	if c.Network.Bridge == "" {
		return nil
	}
	if err := container.CheckBridge(c.Network.Bridge); err != nil {
		return fmt.Errorf("network.bridge: %w", err)
	}
	_, err := c.Network.prefix()
	return err
}

// prefix is the bridge's network.
func (n networkConfig) prefix() (netip.Prefix, error) {
	p, err := netip.ParsePrefix(n.Subnet)
	if err != nil || !p.Addr().Is4() || p != p.Masked() || p.Bits() > 30 {
		return netip.Prefix{}, fmt.Errorf("network.subnet: %q is no IPv4 network with room for containers: want one like 10.133.0.0/24", n.Subnet)
	}
	return p, nil
}
