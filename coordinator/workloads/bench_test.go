package workloads

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// manyHosts is how many hosts have unique work, a workload each.
const manyHosts = 10_000

// nothingFenced is a room that fences nobody.
type nothingFenced struct{}

func (nothingFenced) Closed(protocol.HostID) string        { return "" }
func (nothingFenced) Off(protocol.HostID) (_, person bool) { return false, false }
func (nothingFenced) Offs() []protocol.HostID              { return nil }

// crowd is a room in which each of many hosts holds a workload, with the lease of each.
func crowd(b *testing.B) (r *Room, hosts []protocol.HostID, leases []*protocol.Lease, now *int64) {
	b.Helper()
	store, at := storetest.NewMem(storetest.Faults{}), int64(1_000_000)
	base := &core.Base{Store: store, Now: time.Now, Boot: func() int64 { return at }, Rand: rand.Reader, Log: slog.New(slog.DiscardHandler), Ctx: b.Context()}
	term := protocol.Term{Ring: 1, Counter: 1}
	if err := store.Update(b.Context(), func(tx core.Tx) error {
		for i := range manyHosts {
			host := protocol.HostID(fmt.Sprintf("h%05d", i))
			hosts = append(hosts, host)
			w := unique.Workload{Name: protocol.ContainerName(fmt.Sprintf("w%05d", i)), Host: host, Phase: unique.Held, Epoch: protocol.Epoch{Term: term, Counter: 1}, Data: unique.DataNone}
			binary.BigEndian.PutUint32(w.CTID[12:], uint32(i))
			known := core.Host{ID: host, State: core.HostApproved, Key: protocol.KeyID{1, byte(i >> 8), byte(i)}}
			known.Inventory.Containers = []protocol.Container{{CTID: w.CTID, Name: string(w.Name), State: running}}
			if err := errors.Join(tx.Hosts.Put(known), tx.Workloads.Put(core.Workload{Workload: w})); err != nil {
				return err
			}
			leases = append(leases, &protocol.Lease{Held: []protocol.LeaseHeld{{CTID: w.CTID, Epoch: w.Epoch, Running: true}}})
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	r = New(base, Config{
		Timing: unique.Default(), Min: unique.FenceGuard, Copies: unique.StopStale, Placing: DefaultPlacing(), Term: term,
		Reachable: func(protocol.HostID) bool { return true }, Left: func(protocol.HostID) bool { return false }, Fencing: nothingFenced{}, Removed: func() uint64 { return 0 },
	})
	if err := store.View(b.Context(), r.Load); err != nil {
		b.Fatal(err)
	}
	at += unique.Default().Takeover().Milliseconds()
	return r, hosts, leases, &at
}

// BenchmarkRenew takes the lease of one of many hosts.
func BenchmarkRenew(b *testing.B) {
	r, hosts, leases, _ := crowd(b)
	for n := 0; b.Loop(); n++ {
		i := n % manyHosts
		if held, _ := r.Renew(hosts[i], leases[i], protocol.Seq{Inc: 1, Conn: 1, K: uint64(n + 1)}); len(held) != 1 {
			b.Fatalf("%d workloads are granted", len(held))
		}
	}
}

// BenchmarkTick is the look each second at the workloads of many hosts. Every host is heard.
func BenchmarkTick(b *testing.B) {
	r, hosts, leases, now := crowd(b)
	for n := uint64(1); b.Loop(); n++ {
		b.StopTimer()
		for i, host := range hosts {
			r.Renew(host, leases[i], protocol.Seq{Inc: 1, Conn: 1, K: n})
		}
		*now += 1000
		r.changed = false // nothing is told
		b.StartTimer()
		r.Tick(b.Context())
	}
}
