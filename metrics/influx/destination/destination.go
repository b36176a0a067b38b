// Package destination is how a program is told of a database of measurements, and how it tells
// people how that does: hosts and coordinators have the same settings, and the same counters.
package destination

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/metrics/influx"
)

// Settings are metrics.influx of a configuration. What each means stands there.
type Settings struct {
	URL, API, Org, Bucket, User, SecretFile, CAFile string
	SpoolMiB                                        int
}

// Program is what a program brings along to its settings.
type Program struct {
	// Write brings samples on their way in place of the settings; see [influx.Config].
	Write func(ctx context.Context, lines []byte) error
	// MaxBatch, Every, Tags and Dir are those of [influx.Config].
	MaxBatch int
	Every    time.Duration
	Tags     map[string]string
	Dir      string
	// Credentials is the directory of those that systemd gives, empty for none.
	Credentials string
	Log         *slog.Logger
}

const (
	maxSecret = 4096
	maxCA     = 1 << 20
	// AwayFor is how long a database takes nothing until people are told.
	AwayFor = 5 * time.Minute
)

// Sink makes the way to the database, nil if none is configured.
func (s Settings) Sink(p Program) (*influx.Sink, error) {
	if s.URL == "" && p.Write == nil {
		return nil, nil
	}
	cfg := influx.Config{
		Write: p.Write, URL: s.URL, API: influx.API(s.API), Org: s.Org, Bucket: s.Bucket, User: s.User, Tags: p.Tags,
		Dir: p.Dir, Limit: int64(s.SpoolMiB) << 20, Every: p.Every, MaxBatch: p.MaxBatch, Log: p.Log,
	}
	if s.SecretFile != "" {
		cfg.Secret = func() (string, error) { return s.secret(p.Credentials) }
	}
	if s.CAFile != "" {
		b, err := durable.ReadFile(s.CAFile, maxCA)
		if err != nil {
			return nil, fmt.Errorf("metrics.influx.ca_file: %w", err)
		}
		cfg.CA = x509.NewCertPool()
		if !cfg.CA.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("metrics.influx.ca_file: %s has no certificate in PEM", s.CAFile)
		}
	}
	sink, err := influx.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("metrics.influx.%w", err)
	}
	return sink, nil
}

// secret reads the token or password.
func (s Settings) secret(credentials string) (string, error) {
	path := s.SecretFile
	if !strings.Contains(path, "/") {
		if credentials == "" {
			return "", fmt.Errorf("systemd has given no credentials; add LoadCredential=%s:PATH to the unit, or name a file with its path", path)
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

// Check reports what is wrong with the settings, as far as they tell by themselves.
func (s Settings) Check() error {
	if s.SpoolMiB < 1 {
		return fmt.Errorf("metrics.influx.spool_mib = %d: want 1 at least", s.SpoolMiB)
	}
	if s.SecretFile != "" && strings.Contains(s.SecretFile, "/") && !filepath.IsAbs(s.SecretFile) || s.SecretFile == ".." || s.SecretFile == "." {
		return fmt.Errorf("metrics.influx.secret_file: %q is neither an absolute path nor the name of a credential", s.SecretFile)
	}
	if s.URL == "" {
		return nil
	}
	cfg := influx.Config{URL: s.URL, API: influx.API(s.API), Org: s.Org, Bucket: s.Bucket, User: s.User}
	if s.SecretFile != "" {
		cfg.Secret = func() (string, error) { return "", errors.New("it is not asked for") }
	}
	if err := cfg.Check(); err != nil {
		return fmt.Errorf("metrics.influx.%w", err)
	}
	return nil
}

// Away is why the database has taken nothing for [AwayFor], nil if it takes samples.
func Away(s influx.Stats) error {
	if s.Since.IsZero() || time.Since(s.Since) < AwayFor {
		return nil
	}
	return fmt.Errorf("the database of measurements has taken nothing for %s: %s", AwayFor, s.Cause)
}

// Scrape writes how a sink does for Prometheus.
func Scrape(s *prom.Scrape, n influx.Stats) {
	s.Counter("sink_lines_sent_total", "Lines of samples that the database took.", float64(n.Sent))
	s.Counter("sink_lines_refused_total", "Lines of samples that the database refused for good.", float64(n.Refused))
	s.Counter("sink_lines_lost_total", "Lines of samples that had no place to wait.", float64(n.Lost))
	s.Counter("sink_failures_total", "Writes to the database that failed.", float64(n.Failures))
	s.Gauge("sink_lines_waiting", "Lines of samples that wait on the disk.", float64(n.Waiting))
	s.Gauge("sink_spool_bytes", "What they take of the disk.", float64(n.Bytes))
}
