package audit

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// Exporter writes a log whose keeper signs checkpoints only when it is asked for
// an export, as a host does. The result has the form that [Verify] reads: the
// newest checkpoint, the checkpoint before the first record if earlier records
// were forgotten, then records, their leaves and the checkpoint that seals them,
// at most [MaxSealed] records to a checkpoint.
//
// It is used by one goroutine: [NewExporter], then [Exporter.Record] for every
// record from base to head.
type Exporter struct {
	head  protocol.Position
	sign  func(after uint64, at protocol.Position) ([]byte, error)
	write func(line []byte) error

	at     protocol.Position // newest record that was written
	sealed uint64            // number of the newest checkpoint that was written
	leaves []byte            // of the records since
}

// NewExporter begins the export of the records behind base, up to head. sign
// makes the checkpoint of a position whose previous checkpoint is after; write
// takes each line, without its end. A log without records is an error.
func NewExporter(base, head protocol.Position, sign func(after uint64, at protocol.Position) ([]byte, error), write func(line []byte) error) (*Exporter, error) {
	if head.N <= base.N {
		return nil, fmt.Errorf("the log holds no record behind record %d", base.N)
	}
	e := &Exporter{head: head, sign: sign, write: write, at: base, sealed: base.N}
	// The newest checkpoint follows the one that ends the last full batch.
	if err := e.checkpoint(head.N-(head.N-base.N-1)%MaxSealed-1, head); err != nil {
		return nil, err
	}
	if base.N == 0 {
		return e, nil
	}
	return e, e.checkpoint(0, base)
}

// Record writes the next record, as [Line] has it. Records behind head came after
// the export began and are left out.
func (e *Exporter) Record(line []byte) error {
	if e.at.N >= e.head.N {
		return nil
	}
	leaf := Leaf(line)
	e.at.N, e.at.H = e.at.N+1, Fold(e.at.H, leaf)
	e.leaves = append(e.leaves, leaf[:]...)
	if err := e.write(line); err != nil {
		return err
	}
	if e.at.N < e.head.N && e.at.N-e.sealed < MaxSealed {
		return nil
	}
	if e.at.N == e.head.N && e.at.H != e.head.H {
		return fmt.Errorf("the records up to %d do not lead to the head of the log", e.at.N)
	}
	if err := e.write(LeavesLine(e.at.N, e.leaves)); err != nil {
		return err
	}
	if err := e.checkpoint(e.sealed, e.at); err != nil {
		return err
	}
	e.sealed, e.leaves = e.at.N, e.leaves[:0]
	return nil
}

func (e *Exporter) checkpoint(after uint64, at protocol.Position) error {
	envelope, err := e.sign(after, at)
	if err != nil {
		return fmt.Errorf("signing the checkpoint of record %d: %w", at.N, err)
	}
	return e.write(envelope)
}
