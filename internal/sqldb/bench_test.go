package sqldb_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/sqldb"
)

// BenchmarkUpdate measures updates of one row of about 600 bytes, as a heartbeat
// or a transition makes, for callers that each wait for their answer. The time of
// an operation is the inverse of the throughput; p50 and p99 are what a caller
// waits. fsyncs/op tells how well callers share.
func BenchmarkUpdate(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { benchUpdate(b, callers) })
	}
}

func benchUpdate(b *testing.B, callers int) {
	cfg := config(b)
	cfg.Migrations = migrations(`CREATE TABLE host (id TEXT PRIMARY KEY, at INTEGER NOT NULL, doc BLOB NOT NULL) STRICT;
		CREATE INDEX host_at ON host (at);`)
	db := create(b, cfg)
	doc := make([]byte, 600)
	var next atomic.Int64
	waits := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				start := time.Now()
				err := db.Update(b.Context(), func(tx *sqldb.Tx) error {
					_, err := tx.Exec(`INSERT INTO host (id, at, doc) VALUES ($1, $2, $3)
						ON CONFLICT (id) DO UPDATE SET at = excluded.at, doc = excluded.doc`, fmt.Sprint("host-", n%10_000), n, doc)
					return err
				})
				if err != nil {
					b.Error(err)
					return
				}
				waits[c] = append(waits[c], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Sorted(slices.Values(slices.Concat(waits...)))
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(db.Stats().Commits)/float64(b.N), "fsyncs/op")
}

// BenchmarkView measures a look-up by key.
func BenchmarkView(b *testing.B) {
	db := create(b, config(b))
	if err := db.Update(b.Context(), put("a")); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		err := db.View(b.Context(), func(tx *sqldb.Tx) error {
			return tx.QueryRow("SELECT n FROM item WHERE id = $1", "a").Scan(new(int))
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLimit measures a look-up whose limit is an argument.
func BenchmarkLimit(b *testing.B) {
	db := create(b, config(b))
	if err := db.Update(b.Context(), put("a")); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		err := db.View(b.Context(), func(tx *sqldb.Tx) error {
			return tx.QueryRow("SELECT n FROM item WHERE id >= $1 ORDER BY id LIMIT $2", "a", 1).Scan(new(int))
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
