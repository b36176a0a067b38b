package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// kilobyte is a report of 1 KiB, sealed.
func kilobyte(b *testing.B) *vector {
	b.Helper()
	for n := 1; ; n++ {
		m := newBuilder(sampleNamed("report"))
		setItem("detail", `"`+strings.Repeat("x", n)+`"`)(m)
		if v := m.vector("kilobyte", ""); len(v.Message) >= 1024 {
			return v
		}
	}
}

// BenchmarkOpen is everything that a coordinator does with a report before it
// touches a database; BenchmarkVerify is the one part of it that must cost.
func BenchmarkOpen(b *testing.B) {
	v := kilobyte(b)
	raw, x := v.raw(), newWorld(protocol.Coordinator).expect(v)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		m, err := protocol.Open(raw, x)
		if err != nil {
			b.Fatal(err)
		}
		var r protocol.Report
		if err := m.DecodeItem(&r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	e, err := protocol.Split(kilobyte(b).raw())
	if err != nil {
		b.Fatal(err)
	}
	k := newFakeKey("edge-07")
	for b.Loop() {
		if err := k.Verify(e.Sig, e.Body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckJSON(b *testing.B) {
	h := sampleHeartbeat()
	for len(h.Containers) < 60 {
		h.Containers = append(h.Containers, h.Containers[0])
	}
	body := must(json.Marshal(h))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := protocol.CheckJSON(body); err != nil {
			b.Fatal(err)
		}
	}
}
