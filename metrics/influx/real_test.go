package influx_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/dbtest"
	"github.com/hostler-io/hostler/metrics"
	"github.com/hostler-io/hostler/metrics/influx"
)

// samples are one each 15 s, up to now.
func samples(n int) (all []metrics.Sample) {
	now := time.Now().Truncate(time.Millisecond)
	for i := range n {
		s := metrics.Sample{At: now.Add(time.Duration(i-n+1) * metrics.Interval), Span: metrics.Interval}
		set := func(of metrics.Series, v float64) {
			s.Values = append(s.Values, metrics.Value{Series: of, Mean: v, Max: v})
		}
		for _, m := range metrics.Metrics() {
			part := map[string]string{"mount point": "/srv/with space, and=more", "disk": "sda", "interface": "eth0", "zone": "x86_pkg/0"}[m.Part]
			if m.OfHost {
				set(metrics.Series{Metric: m.Metric, Part: part}, float64(i))
			}
			if m.OfContainer {
				if m.Part == "mount point" || m.Part == "disk" {
					part = ""
				}
				set(metrics.Series{Container: "web", Metric: m.Metric, Part: part}, float64(i)+0.5)
			}
		}
		all = append(all, s)
	}
	return all
}

// run runs a sink beside a test, until end.
func run(t *testing.T, c influx.Config) (sink *influx.Sink, end func()) {
	t.Helper()
	sink, err := influx.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sink.Run(ctx) }()
	end = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return sink, end
}

func config(t *testing.T, d *dbtest.DB, way influx.API) influx.Config {
	return influx.Config{
		URL: d.URL, API: way, Bucket: "hostler", User: dbtest.User, Secret: func() (string, error) { return dbtest.Password, nil }, CA: d.Pool,
		Tags: map[string]string{"host": "edge-07", "fleet": "lab"}, Dir: t.TempDir(), Limit: 1 << 20, Every: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
}

// await looks at a sink until it is as it should be.
func await(t *testing.T, s *influx.Sink, what string, is func(influx.Stats) bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); !is(s.Stats()); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: %+v", what, s.Stats())
		}
	}
}

// TestVictoria writes by the client of InfluxData, over TLS with an authority of its
// own and a password, to the real VictoriaMetrics. It is away for a time and has
// everything when it is back.
func TestVictoria(t *testing.T) {
	t.Parallel()
	db := dbtest.Victoria(t)
	all := samples(8)
	c := config(t, db, influx.APIModern)
	sink, end := run(t, c)
	sink.Offer(all[0])
	await(t, sink, "the first is sent", func(s influx.Stats) bool { return s.Sent > 0 })
	db.Down()
	for _, s := range all[1:4] {
		sink.Offer(s)
	}
	await(t, sink, "the others wait", func(s influx.Stats) bool { return s.Waiting > 0 && s.Failures > 0 && s.Cause != "" })
	end()
	// Another process takes up what waits.
	sink, end = run(t, c)
	defer end()
	for _, s := range all[4:] {
		sink.Offer(s)
	}
	await(t, sink, "all wait", func(s influx.Stats) bool { return s.Failures > 0 && s.Waiting > 0 })
	db.Up(t)
	await(t, sink, "nothing waits any more", func(s influx.Stats) bool { return s.Waiting == 0 && s.Sent > 0 && s.Since.IsZero() })
	if s := sink.Stats(); s.Lost+s.Refused > 0 {
		t.Errorf("lines are lost: %+v", s)
	}
	at := func(q string) string { return "/api/v1/export?match[]=" + url.QueryEscape(q) }
	db.Await(t, at(`hostler_host_cpu{host="edge-07"}`), `0,1,2,3,4,5,6,7`)
	db.Await(t, at(`hostler_container_memory{container="web",fleet="lab"}`), `0.5,1.5,2.5,3.5,4.5,5.5,6.5,7.5`)
	db.Await(t, at(`hostler_host_fs_disk{mount="/srv/with space, and=more"}`), `0,1,2,3,4,5,6,7`)
	runDashboard(t, "victoria-metrics.json", func(query string) bool {
		var answer struct{ Data struct{ Result []any } }
		q := url.Values{"query": {query}, "time": {all[7].At.Format(time.RFC3339)}}
		if err := json.Unmarshal(db.Get(t, "/api/v1/query?"+q.Encode()), &answer); err != nil {
			t.Fatal(err)
		}
		return len(answer.Data.Result) > 0
	})
}

// TestNotTrusted: a database whose certificate nobody vouches for, or that does not know
// the password, is sent nothing that it takes.
func TestNotTrusted(t *testing.T) {
	t.Parallel()
	db := dbtest.Victoria(t)
	for name, tc := range map[string]struct {
		change func(*influx.Config)
		says   string
	}{
		"no authority": {func(c *influx.Config) { c.CA = nil }, "certificate"},
		"password":     {func(c *influx.Config) { c.Secret = func() (string, error) { return "guessed", nil } }, "401"},
		"no secret":    {func(c *influx.Config) { c.Secret = func() (string, error) { return "", errors.New("no such file") } }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, db, influx.APIModern)
			tc.change(&c)
			sink, end := run(t, c)
			defer end()
			sink.Offer(samples(1)[0])
			await(t, sink, "it waits", func(s influx.Stats) bool { return s.Waiting > 0 })
			if s := sink.Stats(); s.Sent > 0 || !strings.Contains(s.Cause, tc.says) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestClassic writes to the real InfluxDB 1.x by its own path.
func TestClassic(t *testing.T) {
	t.Parallel()
	db := dbtest.Influx(t, "hostler")
	all := samples(8)
	sink, end := run(t, config(t, db, influx.APIClassic))
	defer end()
	for _, s := range all[:4] {
		sink.Offer(s)
	}
	await(t, sink, "they are sent", func(s influx.Stats) bool { return s.Sent > 0 })
	for _, s := range all[4:] {
		sink.Offer(s)
	}
	query := func(q string) []byte {
		return db.Get(t, "/query?"+url.Values{"db": {"hostler"}, "epoch": {"ms"}, "q": {q}}.Encode())
	}
	db.Await(t, "/query?"+url.Values{"db": {"hostler"}, "q": {`SELECT count(cpu) FROM hostler_host WHERE host = 'edge-07'`}}.Encode(), `,8]`)
	if got := query(`SELECT last(disk) FROM hostler_host_fs WHERE mount = '/srv/with space, and=more'`); !strings.Contains(string(got), ",7]") {
		t.Errorf("%s", got)
	}
	runDashboard(t, "influxdb.json", func(q string) bool { return strings.Contains(string(query(q)), `"values"`) })
	// A database that is not there may come to be: samples wait. A retention policy too.
	for _, bucket := range []string{"none", "hostler/none"} {
		c := config(t, db, influx.APIClassic)
		c.Bucket = bucket
		lost, end := run(t, c)
		lost.Offer(all[0])
		await(t, lost, "it waits or is refused", func(s influx.Stats) bool { return s.Failures > 0 })
		if s := lost.Stats(); s.Sent > 0 || s.Cause == "" {
			t.Errorf("%s: %+v", bucket, s)
		}
		end()
	}
}
