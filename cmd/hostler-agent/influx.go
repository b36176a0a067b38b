package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/metrics/influx"
	"github.com/hostler-io/hostler/protocol"
)

type influxConfig struct {
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

const (
	maxSecret = 4096
	maxCA     = 1 << 20
	// awayFor is how long a database takes nothing until people are told.
	awayFor = 5 * time.Minute
)

// sink makes the way to the database, nil if none is configured. credentials is the
// directory of those that systemd gives.
func (c influxConfig) sink(s state, tags map[string]string, credentials string, log *slog.Logger) (*influx.Sink, error) {
	if c.URL == "" {
		return nil, nil
	}
	cfg := influx.Config{
		URL: c.URL, API: influx.API(c.API), Org: c.Org, Bucket: c.Bucket, User: c.User, Tags: tags,
		Dir: s.sink(), Limit: int64(c.SpoolMiB) << 20, Every: time.Duration(c.Seconds) * time.Second, Log: log,
	}
	if c.SecretFile != "" {
		cfg.Secret = func() (string, error) { return c.secret(credentials) }
	}
	if c.CAFile != "" {
		b, err := durable.ReadFile(c.CAFile, maxCA)
		if err != nil {
			return nil, fmt.Errorf("metrics.influx.ca_file: %w", err)
		}
		cfg.CA = x509.NewCertPool()
		if !cfg.CA.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("metrics.influx.ca_file: %s has no certificate in PEM", c.CAFile)
		}
	}
	sink, err := influx.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("metrics.influx.%w", err)
	}
	return sink, nil
}

// secret reads the token or password.
func (c influxConfig) secret(credentials string) (string, error) {
	path := c.SecretFile
	if !strings.Contains(path, "/") {
		if credentials == "" {
			return "", fmt.Errorf("systemd has given the agent no credentials; add LoadCredential=%s:PATH to its unit, or name a file with its path", path)
		}
		path = filepath.Join(credentials, path)
	} else if err := durable.CheckOwner(path); err != nil {
		return "", err
	}
	b, err := durable.ReadFile(path, maxSecret)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" || strings.ContainsAny(secret, "\r\n\x00") {
		return "", fmt.Errorf("%s has no secret of one line", path)
	}
	return secret, nil
}

// check reports what is wrong with the settings, as far as they tell by themselves.
func (c influxConfig) check() error {
	if c.Seconds < 1 || c.SpoolMiB < 1 {
		return fmt.Errorf("metrics.influx.seconds = %d and spool_mib = %d: want 1 at least of each", c.Seconds, c.SpoolMiB)
	}
	if c.SecretFile != "" && strings.Contains(c.SecretFile, "/") && !filepath.IsAbs(c.SecretFile) || c.SecretFile == ".." || c.SecretFile == "." {
		return fmt.Errorf("metrics.influx.secret_file: %q is neither an absolute path nor the name of a credential", c.SecretFile)
	}
	if c.URL == "" {
		return nil
	}
	cfg := influx.Config{URL: c.URL, API: influx.API(c.API), Org: c.Org, Bucket: c.Bucket, User: c.User}
	if c.SecretFile != "" {
		cfg.Secret = func() (string, error) { return "", errors.New("it is not asked for") }
	}
	if err := cfg.Check(); err != nil {
		return fmt.Errorf("metrics.influx.%w", err)
	}
	return nil
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
	away := !s.Since.IsZero() && time.Since(s.Since) >= awayFor
	set(warnings.SinkAway, away, fmt.Sprintf("the database of measurements has taken nothing for %s: %s", awayFor, s.Cause), "no samples wait for the database of measurements any more")
	set(warnings.SinkLost, s.Losing, "samples for the database of measurements are lost: the spool is full, or the disk takes nothing", "no samples for the database of measurements are lost any more")
	return changes
}

// scrape writes how the sink does for Prometheus.
func (o outlet) scrape(s *prom.Scrape) {
	if o.sink == nil {
		return
	}
	n := o.sink.Stats()
	s.Counter("sink_lines_sent_total", "Lines of samples that the database took.", float64(n.Sent))
	s.Counter("sink_lines_refused_total", "Lines of samples that the database refused for good.", float64(n.Refused))
	s.Counter("sink_lines_lost_total", "Lines of samples that had no place to wait.", float64(n.Lost))
	s.Counter("sink_failures_total", "Writes to the database that failed.", float64(n.Failures))
	s.Gauge("sink_lines_waiting", "Lines of samples that wait on the disk.", float64(n.Waiting))
	s.Gauge("sink_spool_bytes", "What they take of the disk.", float64(n.Bytes))
}
