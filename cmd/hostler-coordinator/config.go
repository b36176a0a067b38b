package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// config is the configuration file, /etc/hostler/coordinator.toml. Everything
// has a default; a key that is not listed here is an error.
type config struct {
	// StateDir holds keys, database and output. Only the coordinator may read
	// it.
	StateDir string     `toml:"state_dir"`
	HTTP     httpConfig `toml:"http"`
	MQTT     mqttConfig `toml:"mqtt"`
}

type httpConfig struct {
	// Listen is where the API and enrolment are served, with TLS.
	Listen string `toml:"listen"`
	// Addresses are how hosts and people reach Listen, as host:port. Join codes
	// carry them and the certificate names them. Default: the host name with
	// the port of Listen, or Listen itself if it names an address.
	Addresses []string `toml:"addresses"`
	// OpenMetrics answers /metrics to clients on this machine without a token.
	// It must stay off behind a reverse proxy on the same machine, for which
	// everybody comes from here.
	OpenMetrics bool `toml:"open_metrics"`
}

type mqttConfig struct {
	// Listen is where the embedded broker is served, with TLS.
	Listen string `toml:"listen"`
	// Addresses are how hosts reach Listen. Default: as with http.
	Addresses []string `toml:"addresses"`
}

func defaults() config {
	return config{
		StateDir: "/var/lib/hostler/coordinator",
		HTTP:     httpConfig{Listen: ":8443"},
		MQTT:     mqttConfig{Listen: ":8883"},
	}
}

// defaultConfigPath is read if it is there and no other file was named.
const defaultConfigPath = "/etc/hostler/coordinator.toml"

// maxConfig bounds each configuration file, in bytes.
const maxConfig = 1 << 20

// origin tells where each setting came from, by its name.
type origin map[string]string

// load reads the file, then the *.toml files of the directory beside it whose
// name is the file's with ".d" for ".toml", in order, then the environment.
// A file that was named must be there.
func load(path string, environ []string) (config, origin, error) {
	c, from := defaults(), origin{}
	named := path != ""
	if !named {
		path = defaultConfigPath
	}
	files := []string{path}
	more, err := filepath.Glob(strings.TrimSuffix(path, ".toml") + ".d/*.toml")
	if err != nil {
		return c, nil, fmt.Errorf("find configuration beside %s: %w", path, err)
	}
	slices.Sort(more)
	for _, f := range append(files, more...) {
		if err := c.read(f, from); err != nil && (named || !errors.Is(err, os.ErrNotExist)) {
			return c, nil, err
		}
	}
	if err := c.environment(environ, from); err != nil {
		return c, nil, err
	}
	return c, from, c.complete()
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
	list := func(name string, p *[]string) setting {
		return setting{name, func() string { return strings.Join(*p, ",") }, func(s string) error { *p = strings.Split(s, ","); return nil }}
	}
	return []setting{
		text("state_dir", &c.StateDir),
		text("http.listen", &c.HTTP.Listen),
		list("http.addresses", &c.HTTP.Addresses),
		{"http.open_metrics", func() string { return strconv.FormatBool(c.HTTP.OpenMetrics) }, func(s string) (err error) {
			c.HTTP.OpenMetrics, err = strconv.ParseBool(s)
			return err
		}},
		text("mqtt.listen", &c.MQTT.Listen),
		list("mqtt.addresses", &c.MQTT.Addresses),
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
		key := "HOSTLER_" + strings.ToUpper(strings.NewReplacer(".", "_").Replace(s.name))
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, key+"="); ok {
				if err := s.set(v); err != nil {
					return fmt.Errorf("$%s: %w", key, err)
				}
				from[s.name] = "$" + key
			}
		}
	}
	return nil
}

// complete checks the settings and fills in what follows from others.
func (c *config) complete() error {
	if !filepath.IsAbs(c.StateDir) {
		return fmt.Errorf("state_dir: %q is not an absolute path", c.StateDir)
	}
	var err error
	if c.HTTP.Addresses, err = addresses("http", c.HTTP.Listen, c.HTTP.Addresses); err != nil {
		return err
	}
	c.MQTT.Addresses, err = addresses("mqtt", c.MQTT.Listen, c.MQTT.Addresses)
	return err
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
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("%s.addresses: none is set, and this machine has no name: %w", section, err)
		}
	}
	return []string{net.JoinHostPort(host, port)}, nil
}
