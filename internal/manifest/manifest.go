// Package manifest reads manifests: files that say which containers there should be on
// which hosts, and profiles that several of them share.
//
// A manifest is YAML, of which JSON is a part. It is read strictly: a member that is not
// known or stands twice is an error that names its line, and all such errors are told at
// once. It is pure.
package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/internal/yamlfile"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// Bounds of a manifest.
const (
	MaxBytes      = 1 << 20
	MaxContainers = 1000
	version       = 1
)

// ErrInvalid tells that a file is no manifest, or no profile.
var ErrInvalid = errors.New("not a manifest")

// Shape is what a container should be like, as a container or a profile says it. What is
// not given is zero: the default of a new container, and left as it is in one that is
// there.
type Shape struct {
	Image      string            `yaml:"image"`
	Runtime    string            `yaml:"runtime"`
	Class      string            `yaml:"class"`
	Offline    string            `yaml:"offline"`
	Hostname   string            `yaml:"hostname"`
	Labels     map[string]string `yaml:"labels"`
	Limits     map[string]string `yaml:"limits"`
	Env        map[string]string `yaml:"env"`
	Command    []string          `yaml:"command"`
	Network    string            `yaml:"network"`
	Ports      []string          `yaml:"ports"`
	Volumes    []string          `yaml:"volumes"`
	Mounts     []string          `yaml:"mounts"`
	Files      []File            `yaml:"files"`
	Health     *Health           `yaml:"health"`
	Backup     *Schedule         `yaml:"backup"`
	Snapshot   *Schedule         `yaml:"snapshot"`
	Start      *bool             `yaml:"start"`
	Privileged *bool             `yaml:"privileged"`
}

// Health is how a container is looked at, as [contract.Check] has it. Off alone takes a
// check away.
type Health struct {
	Off      bool          `yaml:"off"`
	Cmd      []string      `yaml:"cmd"`
	TCP      int64         `yaml:"tcp"`
	HTTP     string        `yaml:"http"`
	Interval time.Duration `yaml:"interval"`
	Timeout  time.Duration `yaml:"timeout"`
	Retries  int64         `yaml:"retries"`
	Start    time.Duration `yaml:"start"`
	Action   string        `yaml:"action"`
}

// Check is it in the words of the host; nil is none.
func (h *Health) Check() *contract.Check {
	if h == nil {
		return nil
	}
	return &contract.Check{
		Off: h.Off, Cmd: h.Cmd, TCP: h.TCP, HTTP: h.HTTP, Retries: h.Retries, Action: h.Action,
		IntervalMS: h.Interval.Milliseconds(), TimeoutMS: h.Timeout.Milliseconds(), StartMS: h.Start.Milliseconds(),
	}
}

// Schedule is how often something is made of a container, as [contract.Schedule] has it.
// Off alone takes a schedule away.
type Schedule struct {
	Off         bool     `yaml:"off"`
	Every       Duration `yaml:"every"`
	KeepDaily   int64    `yaml:"keep_daily"`
	KeepWeekly  int64    `yaml:"keep_weekly"`
	Target      string   `yaml:"target"`
	Incremental int64    `yaml:"incremental"`
	Pause       bool     `yaml:"pause"`
}

// Schedule is it in the words of the host; nil is none.
func (s *Schedule) Schedule() *contract.Schedule {
	if s == nil {
		return nil
	}
	return &contract.Schedule{Off: s.Off, EveryMS: time.Duration(s.Every).Milliseconds(), KeepDaily: s.KeepDaily, KeepWeekly: s.KeepWeekly, Target: s.Target, Incremental: s.Incremental, Pause: s.Pause}
}

// Duration is a time with a unit, days included: 6h, 1d.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(b []byte) error {
	t, err := contract.ParseDuration(string(b))
	*d = Duration(t)
	return err
}

// Schedules are those of the shape.
func (s Shape) Schedules() contract.Schedules {
	return contract.Schedules{Backup: s.Backup.Schedule(), Snapshot: s.Snapshot.Schedule()}
}

// Container is a container of a manifest, with what its profiles say.
type Container struct {
	Host     string   `yaml:"host"`
	Name     string   `yaml:"name"`
	Profiles []string `yaml:"profiles"`
	Shape    `yaml:",inline"`
}

// Where is HOST/NAME.
func (c *Container) Where() string { return c.Host + "/" + c.Name }

// Parse reads a manifest. profile returns the text of a profile that the manifest does
// not have itself.
func Parse(b []byte, profile func(name string) ([]byte, error)) ([]Container, error) {
	var m struct {
		Version    int              `yaml:"version"`
		Profiles   map[string]Shape `yaml:"profiles"`
		Containers []Container      `yaml:"containers"`
	}
	if err := yamlfile.Decode(b, MaxBytes, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	switch {
	case m.Version != version:
		return nil, fmt.Errorf("%w: version is %d, want version: %d", ErrInvalid, m.Version, version)
	case len(m.Containers) == 0:
		return nil, fmt.Errorf("%w: containers is missing", ErrInvalid)
	case len(m.Containers) > MaxContainers:
		return nil, fmt.Errorf("%w: there are %d containers, at most %d are taken", ErrInvalid, len(m.Containers), MaxContainers)
	}
	seen := make(map[string]bool)
	for i := range m.Containers {
		c := &m.Containers[i]
		if err := c.complete(m.Profiles, profile); err != nil {
			return nil, fmt.Errorf("%w: container %d, %.130q: %w", ErrInvalid, i+1, c.Where(), err)
		}
		if seen[c.Where()] {
			return nil, fmt.Errorf("%w: container %d: %q stands there twice", ErrInvalid, i+1, c.Where())
		}
		seen[c.Where()] = true
	}
	return m.Containers, nil
}

// ParseProfile reads a file that is one profile.
func ParseProfile(b []byte) (s Shape, err error) {
	if err := yamlfile.Decode(b, MaxBytes, &s); err != nil {
		return s, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, nil
}

// complete adds what the profiles of a container say, and checks it.
func (c *Container) complete(own map[string]Shape, profile func(string) ([]byte, error)) error {
	shape := Shape{}
	for _, name := range c.Profiles {
		s, ok := own[name]
		if !ok {
			b, err := profile(name)
			if err != nil {
				return err
			}
			if s, err = ParseProfile(b); err != nil {
				return fmt.Errorf("profile %.60q: %w", name, err)
			}
		}
		shape = shape.With(s)
	}
	c.Shape = shape.With(c.Shape)
	if _, err := protocol.ParseHostID(c.Host); err != nil {
		return fmt.Errorf("host: %w", err)
	}
	if _, err := protocol.ParseContainerName(c.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if c.Hostname != "" {
		if _, err := protocol.ParseContainerName(c.Hostname); err != nil {
			return fmt.Errorf("hostname: %w", err)
		}
	}
	if c.Network != "" {
		if err := protocol.CheckNetwork(c.Network); err != nil {
			return err
		}
	}
	if c.Image == "" {
		return errors.New("image is missing")
	}
	return c.checkFiles()
}

// With is the shape with that of more in its place where more says something. Labels,
// limits and variables of both are there; ports, volumes, mounts, files, the command and the
// check are those of one of them.
func (s Shape) With(more Shape) Shape {
	for _, m := range []struct{ to, from *string }{
		{&s.Image, &more.Image}, {&s.Runtime, &more.Runtime}, {&s.Class, &more.Class}, {&s.Offline, &more.Offline}, {&s.Hostname, &more.Hostname}, {&s.Network, &more.Network},
	} {
		if *m.from != "" {
			*m.to = *m.from
		}
	}
	for _, m := range []struct{ to, from *map[string]string }{{&s.Labels, &more.Labels}, {&s.Limits, &more.Limits}, {&s.Env, &more.Env}} {
		*m.to = merged(*m.to, *m.from)
	}
	if len(more.Command) > 0 {
		s.Command = more.Command
	}
	for _, m := range []struct{ to, from *[]string }{{&s.Ports, &more.Ports}, {&s.Volumes, &more.Volumes}, {&s.Mounts, &more.Mounts}} {
		if *m.from != nil {
			*m.to = *m.from
		}
	}
	if more.Files != nil {
		s.Files = more.Files
	}
	if more.Health != nil {
		s.Health = more.Health
	}
	if more.Backup != nil {
		s.Backup = more.Backup
	}
	if more.Snapshot != nil {
		s.Snapshot = more.Snapshot
	}
	if more.Start != nil {
		s.Start = more.Start
	}
	if more.Privileged != nil {
		s.Privileged = more.Privileged
	}
	return s
}

// merged is nil if none of both says anything.
func merged(a, b map[string]string) map[string]string {
	if a == nil && b == nil {
		return nil
	}
	all := make(map[string]string, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// Pairs are the members of a map as NAME=VALUE, sorted.
func Pairs(m map[string]string) []string {
	var all []string
	for name, value := range m {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}

// Map is the other way: of pairs of one name, the last one counts.
func Map(pairs []string) map[string]string {
	var m map[string]string
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		m = merged(m, map[string]string{name: value})
	}
	return m
}

// Create is what a new container of the shape is asked for with, which says nothing of its
// files.
func (s Shape) Create() protocol.CreateArgs {
	health := s.Health.Check()
	if health != nil && health.Off {
		health = nil // as a new one has none
	}
	return protocol.CreateArgs{
		Expose: s.Ports, Health: health, Network: s.Network, Schedules: contract.Schedules{}.With(s.Schedules()),
		Template: s.Image, Runtime: s.Runtime, Class: s.Class, Offline: s.Offline, Hostname: protocol.ContainerName(s.Hostname),
		Volumes: s.Volumes, Mounts: s.Mounts,
		Labels: Pairs(s.Labels), Limits: Pairs(s.Limits), Env: Pairs(s.Env), Command: s.Command,
		Start: s.Start != nil && *s.Start, Privileged: s.Privileged != nil && *s.Privileged,
	}
}
