package main

import (
	"context"
	"errors"
	"os"

	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/metrics/influx"
	"github.com/hostler-io/hostler/metrics/influx/destination"
)

// metricsConfig is where the samples of hosts go that reach no database themselves.
type metricsConfig struct {
	Influx influxConfig `toml:"influx"`
}

type influxConfig struct {
	URL        string `toml:"url" takes:"restart" does:"The database that gets the samples of hosts with metrics.influx.via = coordinator, such as https://influx.example:8086. Empty: none are taken, and they stay on these hosts."`
	API        string `toml:"api" takes:"restart" does:"How it is written to: v2, for InfluxDB from 1.8 on and for VictoriaMetrics; or v1, for older ones."`
	Org        string `toml:"org" takes:"restart" does:"The organization, of InfluxDB 2."`
	Bucket     string `toml:"bucket" takes:"restart" does:"The bucket. With v1 the database, or DATABASE/POLICY to name a retention policy. The coordinator makes neither."`
	User       string `toml:"user" takes:"restart" does:"The user, if the database wants a name and a password. Empty: it wants a token, or nothing."`
	SecretFile string `toml:"secret_file" takes:"restart" does:"The file with the token, or with the password of the user. Root and the coordinator alone may be able to write it. A name without a slash is a credential that systemd gives the coordinator (LoadCredential=). It is read for each write, so that a change counts at once. A secret goes over https only, or to this machine."`
	CAFile     string `toml:"ca_file" takes:"restart" default:"the authorities of the system" does:"The certificates, in PEM, of the authorities that may vouch for the database."`
	SpoolMiB   int    `toml:"spool_mib" takes:"restart" unit:"MiB" does:"How much of the disk samples may take that wait while the database takes nothing. The oldest go first."`
}

func defaultInflux() influxConfig {
	return influxConfig{API: string(influx.APIModern), Bucket: "hostler", SpoolMiB: 256}
}

// openSink makes the way to the database, which stays nil if none is configured.
func (s *server) openSink() (err error) {
	s.sink, err = destination.Settings(s.config.Metrics.Influx).Sink(destination.Program{
		Dir: s.state.sink(), Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Log: s.log,
	})
	return err
}

// bring brings samples to the database until ctx ends. The coordinator serves without it.
func (s *server) bring(ctx context.Context) error {
	if s.sink == nil {
		return nil
	}
	if err := s.sink.Run(ctx); err != nil {
		s.log.ErrorContext(ctx, "no samples of hosts are taken", "err", err)
	}
	return nil
}

// measured tells what keeps samples from the database.
func (s *server) measured() error {
	if s.sink == nil {
		return nil
	}
	n := s.sink.Stats()
	if n.Losing {
		return errors.New("samples for the database of measurements are lost: the spool is full, or the disk takes nothing")
	}
	return destination.Away(n)
}

// sinkMetrics is what the way to the database counts.
func (s *server) sinkMetrics(w *prom.Scrape) {
	if s.sink == nil {
		return
	}
	destination.Scrape(w, s.sink.Stats())
	n := s.coord.Samples().Counts()
	w.CounterBy("samples_messages_total", "Messages with samples of hosts, by what became of them.", "what", map[string]float64{
		"taken": float64(n.Taken), "malformed": float64(n.Malformed), "limited": float64(n.Limited), "full": float64(n.Full), "failed": float64(n.Failed),
	})
	w.Counter("samples_lines_total", "Lines of samples of hosts that were taken.", float64(n.Lines))
}
