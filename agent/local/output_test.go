package local

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
)

// holed is a stream of which the part from at on, of that length, was dropped.
type holed struct {
	data     []byte
	at, drop int64
	offset   int64
}

func (h *holed) Offset() int64 { return h.offset }
func (h *holed) Close() error  { return nil }

func (h *holed) Read(p []byte) (int, error) {
	if h.offset == h.at {
		h.offset += h.drop
	}
	end := int64(len(h.data))
	if h.offset < h.at {
		end = h.at
	}
	if h.offset >= end {
		return 0, io.EOF
	}
	n := copy(p, h.data[h.offset:end])
	h.offset += int64(n)
	return n, nil
}

// TestCopyStopsAtHoles never joins what was not written together.
func TestCopyStopsAtHoles(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	for _, c := range []struct {
		at, drop, from int64
		want           []byte
		next           int64
		end            bool
	}{
		{0, 0, 0, data, 200_000, true},
		{100_000, 5, 0, data[:100_000], 100_005, false},
		{100_000, 5, 100_005, data[100_005:], 200_000, true},
		{100_000, 5, 100_000, nil, 100_005, false},
		{100_000, 100_000, 0, data[:100_000], 100_000, true},
	} {
		w := httptest.NewRecorder()
		next, err := copyOutput(w, &holed{data, c.at, c.drop, c.from}, outputRequest{offset: c.from})
		if !bytes.Equal(w.Body.Bytes(), c.want) || next != c.next || errors.Is(err, io.EOF) != c.end {
			t.Errorf("from %d: %d bytes, then %d: %v", c.from, w.Body.Len(), next, err)
		}
	}
}

// TestComplete: what was dropped in the middle does not hide what is behind it.
func TestComplete(t *testing.T) {
	act := agent.Action{State: protocol.StateDone, Output: []protocol.Output{{FD: protocol.Stdout, Bytes: 200, Dropped: 150, DropAt: 20}}}
	for reached, want := range map[int64]bool{0: false, 60: false, 199: false, 200: true} {
		if got := complete(&act, protocol.Stdout, reached); got != want {
			t.Errorf("at %d of 200: %v", reached, got)
		}
	}
	if !complete(&act, protocol.Stderr, 0) {
		t.Error("what was never written is complete")
	}
	act.State = protocol.StateRunning
	if complete(&act, protocol.Stdout, 200) {
		t.Error("a command that runs may write more")
	}
}
