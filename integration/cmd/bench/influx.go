package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"

	"github.com/hostler-io/hostler/metrics"
	"github.com/hostler-io/hostler/metrics/influx"
)

// The batch that is written: samples of a host, as it gathers them in a minute, and the
// containers that they are of.
const (
	batchSamples    = 4
	batchContainers = 20
)

// writes compares the time in which the sink of samples brings a batch to a database with
// that of the client of InfluxData alone. The database is a server of this process that
// reads all and keeps nothing, so that both are compared and not a database with itself.
func (b inside) writes(ctx context.Context) (err error) {
	var requests atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	database := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = database.Serve(listener) }) // it ends with Close
	defer func() {
		err = errors.Join(err, database.Close())
		serving.Wait()
	}()
	url := "http://" + listener.Addr().String()
	lines, count := batch()
	sink, err := influx.New(influx.Config{URL: url, API: influx.APIModern, Org: "bench", Bucket: "bench", Dir: b.fleet.path("spool"), Limit: 1 << 20,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sink.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	client := influxdb2.NewClientWithOptions(url, "", influxdb2.DefaultOptions().SetUseGZip(true).SetPrecision(time.Millisecond))
	defer client.Close()
	bare := client.WriteAPIBlocking("bench", "bench")
	text := strings.TrimSuffix(string(lines), "\n")
	const n = 300
	if err := b.paired(ctx, pair{
		row: row{name: "influx_ratio", unit: shorter, target: 1.1}, n: n, way: "the sink", others: "the bare client", compare: quotient,
		ours: func(context.Context) (float64, error) {
			return median(1, func() error {
				done := make(chan bool, 1)
				if !sink.Forward(lines, count, func(taken bool) { done <- taken }) || !<-done {
					return errors.New("the sink does not take a batch")
				}
				return nil
			})
		},
		theirs: func(ctx context.Context) (float64, error) {
			return median(1, func() error { return bare.WriteRecord(ctx, text) })
		},
	}); err != nil {
		return err
	}
	if st := sink.Stats(); st.Sent != uint64(n*count) || requests.Load() != 2*n {
		return fmt.Errorf("the database had %d requests, and the sink has sent %d lines of %d", requests.Load(), st.Sent, n*count)
	}
	return nil
}

// batch is what a host writes in a minute.
func batch() (lines []byte, count int) {
	at := time.UnixMilli(1_795_489_097_966)
	for i := range batchSamples {
		s := metrics.Sample{At: at.Add(time.Duration(i) * metrics.Interval), Span: metrics.Interval}
		set := func(container string, m metrics.Metric, part string, v float64) {
			s.Values = append(s.Values, metrics.Value{Series: metrics.Series{Container: container, Metric: m, Part: part}, Mean: v, Max: v})
		}
		for j, m := range metrics.Metrics() {
			if part := map[string]string{"mount point": "/", "disk": "sda", "interface": "eth0", "zone": "x86_pkg/0"}[m.Part]; m.OfHost {
				set("", m.Metric, part, 1234.5+float64(i*j))
			}
			for c := range batchContainers {
				if m.OfContainer && m.Part == "" {
					set(fmt.Sprintf("web-%02d", c), m.Metric, "", 0.25+float64(i+j+c))
				}
			}
		}
		var n int
		lines, n = influx.Lines(lines, s, map[string]string{"host": hostName, "fleet": fleetName})
		count += n
	}
	return lines, count
}
