package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/metrics/influx"
	"github.com/hostler-io/hostler/metrics/influx/destination"
	"github.com/hostler-io/hostler/protocol"
)

type influxConfig struct {
	Via        string `toml:"via" takes:"reload" does:"How samples leave the host: coordinator gives them to the coordinator of the fleet, which brings them to the database of its own configuration, for hosts that reach nothing else. Then url is left out. Empty: the host writes to url."`
	URL        string `toml:"url" takes:"reload" does:"The database that samples are sent to, such as https://influx.example:8086. Empty: they stay on the host."`
	API        string `toml:"api" takes:"reload" does:"How it is written to: v2, for InfluxDB from 1.8 on and for VictoriaMetrics; or v1, for older ones."`
	Org        string `toml:"org" takes:"reload" does:"The organization, of InfluxDB 2."`
	Bucket     string `toml:"bucket" takes:"reload" does:"The bucket. With v1 the database, or DATABASE/POLICY to name a retention policy. The host makes neither."`
	User       string `toml:"user" takes:"reload" does:"The user, if the database wants a name and a password. Empty: it wants a token, or nothing."`
	SecretFile string `toml:"secret_file" takes:"reload" does:"The file with the token, or with the password of the user. Root alone may be able to write it. A name without a slash is a credential that systemd gives the agent (LoadCredential=). It is read for each write, so that a change counts at once. A secret goes over https only, or to this machine."`
	CAFile     string `toml:"ca_file" takes:"reload" default:"the authorities of the system" does:"The certificates, in PEM, of the authorities that may vouch for the database."`
	Seconds    int    `toml:"seconds" takes:"reload" unit:"s" does:"For how long samples are gathered before they are sent."`
	SpoolMiB   int    `toml:"spool_mib" takes:"reload" unit:"MiB" does:"How much of the disk samples may take that wait while the database takes nothing. The oldest go first."`
}

// viaCoordinator is the value of metrics.influx.via.
const viaCoordinator = "coordinator"

// byCoordinator is the most that goes to the coordinator together, in bytes: what waits is
// sent a few messages at a time.
const byCoordinator = 64 << 10

func (c influxConfig) settings() destination.Settings {
	return destination.Settings{URL: c.URL, API: c.API, Org: c.Org, Bucket: c.Bucket, User: c.User, SecretFile: c.SecretFile, CAFile: c.CAFile, SpoolMiB: c.SpoolMiB}
}

// sink makes the way to the database, nil if none is configured. write gives samples to the
// coordinator, which knows whose they are.
func (c influxConfig) sink(s state, tags map[string]string, write func(context.Context, []byte) error, log *slog.Logger) (*influx.Sink, error) {
	p := destination.Program{Tags: tags, Dir: s.sink(), Every: time.Duration(c.Seconds) * time.Second, Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Log: log}
	if c.Via == viaCoordinator {
		p.Write, p.Tags, p.Dir, p.MaxBatch = write, nil, s.sink()+"-coordinator", byCoordinator
	}
	return c.settings().Sink(p)
}

// check reports what is wrong with the settings, as far as they tell by themselves.
func (c influxConfig) check() error {
	if c.Via != "" && c.Via != viaCoordinator {
		return fmt.Errorf("metrics.influx.via = %q: want %s, or leave it out", c.Via, viaCoordinator)
	}
	if c.Via != "" && c.URL != "" {
		return errors.New("metrics.influx: via and url exclude each other: with via the coordinator knows the database; remove one of them")
	}
	if c.Seconds < 1 {
		return fmt.Errorf("metrics.influx.seconds = %d: want 1 at least", c.Seconds)
	}
	return c.settings().Check()
}

// writeSamples gives samples to the coordinator.
func (n *node) writeSamples(ctx context.Context, lines []byte) error {
	err := agent.WriteSamples(ctx, n.agent, lines)
	if errors.Is(err, relay.ErrRefusedSamples) {
		return fmt.Errorf("%w: %w", influx.ErrRefused, err)
	}
	return err
}

// outlet is the meter's side of the database: it hands samples over, and tells people
// when they do not arrive. It belongs to the goroutine of the meter.
type outlet struct {
	sink   *influx.Sink // nil: none
	raised map[string]bool
}

// newOutlet takes up the alerts that are raised. Without a sink they are cleared.
func newOutlet(sink *influx.Sink, raised []string) outlet {
	o := outlet{sink: sink, raised: make(map[string]bool)}
	for _, code := range []warnings.Code{warnings.SinkAway, warnings.SinkLost} {
		o.raised[string(code)] = slices.Contains(raised, string(code))
	}
	return o
}

// run sends until ctx ends.
func (o outlet) run(ctx context.Context, log *slog.Logger) {
	if o.sink == nil {
		return
	}
	if err := o.sink.Run(ctx); err != nil {
		log.Warn("no samples are sent to the database", "error", err)
	}
}

// lost is how many lines had no place to wait.
func (o outlet) lost() uint64 {
	if o.sink == nil {
		return 0
	}
	return o.sink.Stats().Lost
}

// alerts are the changes since they were last asked for.
func (o outlet) alerts(atMS int64) (changes []protocol.Alert) {
	var s influx.Stats
	if o.sink != nil {
		s = o.sink.Stats()
	}
	set := func(code warnings.Code, is bool, bad, good string) {
		if is == o.raised[string(code)] {
			return
		}
		text := good
		if is {
			text = bad
		}
		changes = append(changes, protocol.Alert{Raised: is, AlertInfo: warnings.New(code, "", text, atMS)})
	}
	away := destination.Away(s)
	set(warnings.SinkAway, away != nil, fmt.Sprint(away), "no samples wait for the database of measurements any more")
	set(warnings.SinkLost, s.Losing, "samples for the database of measurements are lost: the spool is full, or the disk takes nothing", "no samples for the database of measurements are lost any more")
	return changes
}

// scrape writes how the sink does for Prometheus.
func (o outlet) scrape(s *prom.Scrape) {
	if o.sink == nil {
		return
	}
	destination.Scrape(s, o.sink.Stats())
}
