package audit_test

import (
	"fmt"
	"testing"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// hostLog is the log of edge-07: records without checkpoints.
type hostLog struct {
	lines     [][]byte
	positions []protocol.Position // at which each record is the newest
}

func newHostLog(t *testing.T, records int) hostLog {
	t.Helper()
	l := hostLog{}
	at := protocol.Position{Store: store, Stream: protocol.StreamAudit}
	for i := range records {
		stored, err := audit.Record{AtMS: int64(i), Actor: "host", Verb: fmt.Sprintf("container.start-%d", i)}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		line := audit.Line(uint64(i)+1, stored)
		at.N, at.H = at.N+1, audit.Fold(at.H, audit.Leaf(line))
		l.lines, l.positions = append(l.lines, line), append(l.positions, at)
	}
	return l
}

// export exports the records behind record base, up to head.
func (l hostLog) export(t *testing.T, base, head int) [][]byte {
	t.Helper()
	from := protocol.Position{Store: store, Stream: protocol.StreamAudit}
	if base > 0 {
		from = l.positions[base-1]
	}
	var out [][]byte
	sign := func(after uint64, at protocol.Position) ([]byte, error) {
		return sealBy("edge-07", protocol.Checkpoint{
			Type: protocol.TypeCheckpoint, Fleet: fleet, Log: protocol.HostParty("edge-07"), Store: at.Store,
			After: after, N: at.N, H: at.H, Ring: 2, AtMS: 5,
		}), nil
	}
	e, err := audit.NewExporter(from, l.positions[head-1], sign, func(line []byte) error { out = append(out, line); return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range l.lines[base:] {
		if err := e.Record(line); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestExporter holds exports of many lengths to what Verify makes of them.
func TestExporter(t *testing.T) {
	const longest = 2*audit.MaxSealed + 5
	l := newHostLog(t, longest)
	for _, base := range []int{0, 1, 7, audit.MaxSealed, audit.MaxSealed + 1} {
		for _, records := range []int{1, 2, audit.MaxSealed - 1, audit.MaxSealed, audit.MaxSealed + 1} {
			head := base + records
			lines := l.export(t, base, head)
			r := verify(lines)
			if len(r.Faults) > 0 || r.Records != records || r.After != uint64(base) || r.Newest.N != uint64(head) || r.Log != protocol.HostParty("edge-07") {
				t.Errorf("records %d to %d: %+v", base+1, head, r)
			}
			if records < 3 {
				continue
			}
			// A record that is missing is named.
			without := append(append([][]byte{}, lines[:3]...), lines[4:]...)
			if r := verify(without); len(r.Faults) == 0 {
				t.Errorf("records %d to %d: a missing record was not found", base+1, head)
			}
		}
	}
}

// TestExporterRefuses holds it to what it must not export.
func TestExporterRefuses(t *testing.T) {
	l := newHostLog(t, 3)
	none := func(uint64, protocol.Position) ([]byte, error) { return nil, nil }
	drop := func([]byte) error { return nil }
	if _, err := audit.NewExporter(l.positions[2], l.positions[2], none, drop); err == nil {
		t.Error("an empty log was exported")
	}
	head := l.positions[2]
	head.H[0] ^= 1
	e, err := audit.NewExporter(protocol.Position{Store: store}, head, none, drop)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range l.lines {
		if err := e.Record(line); (err != nil) != (i == 2) {
			t.Errorf("record %d: %v", i+1, err)
		}
	}
}
