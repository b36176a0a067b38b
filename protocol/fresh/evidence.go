package fresh

import (
	"bytes"
	"slices"

	"github.com/hostler-io/hostler/protocol"
)

// MaxEvidence bounds what a host keeps as evidence, in bytes: it has to fit into
// a hello.
const MaxEvidence = 12 << 10

// Evidence cuts what a host keeps into the messages of coordinators that it is
// made of, each as it was signed; see [Strengthen]. A reader verifies
// each of them.
func Evidence(kept []byte) [][]byte {
	if len(kept) == 0 || len(kept) > MaxEvidence {
		return nil
	}
	return bytes.SplitN(kept, []byte("\n"), 2)
}

// Strengthen returns what a host keeps as evidence once it has verified one more
// receipt, or word of the coordinator to its fleet. The newest of them is always
// in it, because its term is the newest; before it stands, where that tells
// less, the receipt whose positions reach furthest. So a coordinator that went
// back cannot talk a host out of the proof by what it says since.
func Strengthen(kept, raw []byte) []byte {
	if len(raw) > MaxEvidence {
		return kept
	}
	parts := Evidence(kept)
	if len(parts) == 0 {
		return raw
	}
	far, known := positionsOf(parts[0])
	if next, ok := positionsOf(raw); !known || ok && reaches(next, far) {
		return raw
	}
	if both := slices.Concat(parts[0], []byte("\n"), raw); len(both) <= MaxEvidence {
		return both
	}
	return kept
}

// positionsOf reads the positions of a receipt that was verified before.
func positionsOf(raw []byte) ([]protocol.Position, bool) {
	env, err := protocol.Split(raw)
	if err != nil {
		return nil, false
	}
	var r protocol.Receipt
	if protocol.DecodeJSON(env.Body, &r, true) != nil || r.Type != protocol.TypeReceipt {
		return nil, false
	}
	return slices.Concat(r.Sent, r.Have), true
}

// reaches reports whether next tells of everything that far tells of. Another
// store than before is believed only in a newer term, and begins anew.
func reaches(next, far []protocol.Position) bool {
	for _, f := range far {
		i := slices.IndexFunc(next, func(p protocol.Position) bool { return p.Stream == f.Stream })
		if f.N > 0 && (i < 0 || next[i].Store == f.Store && next[i].N < f.N) {
			return false
		}
	}
	return true
}
