package terminal_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/terminal"
)

// gather collects what an Inbox hands on.
type gather struct {
	data   []byte
	others []terminal.Event
	end    int64
}

func (g *gather) do(e terminal.Event, end int64) {
	g.end = end
	if e.Kind == terminal.KindData {
		g.data = append(g.data, e.Data...)
		return
	}
	g.others = append(g.others, e)
}

// TestHostileLine carries streams of several peers over a line that loses, repeats
// and reorders packets and acknowledgements: every byte is taken once, in order.
func TestHostileLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in terminal.Inbox
		peers := rapid.IntRange(1, 3).Draw(t, "peers")
		out := make([]terminal.Outbox, peers)
		got, want := make([]gather, peers), make([]gather, peers)
		for i := range out {
			out[i].Peer = terminal.Peer{byte(i + 1)}
		}
		type flying struct {
			peer int
			raw  []byte
		}
		var line []flying
		step := func() {
			i := rapid.IntRange(0, peers-1).Draw(t, "peer")
			o := &out[i]
			switch op := rapid.IntRange(0, 6).Draw(t, "op"); {
			case op == 0:
				p := rapid.SliceOfN(rapid.Byte(), 0, 40_000).Draw(t, "typed")
				if f := terminal.AppendData(nil, p); len(f) <= o.Room() {
					o.Append(f)
					want[i].data = append(want[i].data, p...)
				}
			case op == 1:
				s := terminal.Size{Rows: rapid.Uint16().Draw(t, "rows"), Cols: 80}
				o.Append(terminal.AppendResize(nil, s))
				want[i].others = append(want[i].others, terminal.Event{Kind: terminal.KindResize, Size: s})
			case op == 2:
				o.Rewind()
			case op <= 4:
				if p, ok := o.Next(terminal.Window); ok && rapid.IntRange(0, 3).Draw(t, "lose") > 0 {
					line = append(line, flying{i, terminal.AppendPacket(nil, p)})
				}
			case len(line) > 0:
				at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
				f := line[at]
				if rapid.Bool().Draw(t, "once") {
					line = append(line[:at], line[at+1:]...)
				}
				p, err := terminal.ParsePacket(f.raw)
				if err != nil {
					t.Fatal(err)
				}
				g := &got[f.peer]
				in.Take(p, g.do)
				ack := in.Done(p.Peer, g.end)
				if rapid.Bool().Draw(t, "told") {
					out[f.peer].Acked(ack.Offset)
				}
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			step()
		}
		for i := range out { // an honest line in the end
			for !out[i].Empty() {
				out[i].Rewind()
				for p, ok := out[i].Next(terminal.Window); ok; p, ok = out[i].Next(terminal.Window) {
					in.Take(p, got[i].do)
				}
				ack := in.Done(out[i].Peer, got[i].end)
				if !out[i].Acked(ack.Offset) {
					t.Fatalf("peer %d: no way on at %+v", i, ack)
				}
			}
		}
		for i := range want {
			if !bytes.Equal(got[i].data, want[i].data) {
				t.Fatalf("peer %d: %d bytes arrived of %d", i, len(got[i].data), len(want[i].data))
			}
			if d := cmp.Diff(want[i].others, got[i].others); d != "" {
				t.Fatalf("peer %d: %s", i, d)
			}
		}
	})
}

// TestPlayedAgain holds that what was taken once proves nothing a second time.
func TestPlayedAgain(t *testing.T) {
	var in terminal.Inbox
	p := terminal.Packet{Peer: terminal.Peer{1}, Number: 5, Data: eof()}
	if _, fresh, alive := in.Take(p, func(terminal.Event, int64) {}); !fresh || !alive {
		t.Error("the first is nothing new")
	}
	again := func(terminal.Event, int64) { t.Error("taken again") }
	if _, fresh, alive := in.Take(p, again); fresh || alive {
		t.Error("the second is something new")
	}
	p.Number = 6 // as whoever is there sends again
	if _, fresh, alive := in.Take(p, again); fresh || !alive {
		t.Error("sent again it proves nothing, or is taken")
	}
	if _, fresh, alive := in.Take(terminal.Packet{Peer: p.Peer, Number: 4, Offset: 3}, again); fresh || alive {
		t.Error("an old sign of life proves something")
	}
	if _, fresh, alive := in.Take(terminal.Packet{Peer: p.Peer, Number: 7, Offset: 3}, again); fresh || !alive {
		t.Error("a sign of life proves nothing")
	}
	later := terminal.Packet{Peer: terminal.Peer{2}, Number: 9, Offset: 3, Data: p.Data}
	if ack, fresh, alive := in.Take(later, func(terminal.Event, int64) { t.Error("taken without what is before") }); fresh || alive || ack.Offset != 0 {
		t.Errorf("a peer whose beginning was lost: %v", ack)
	}
}

// TestTooFarAhead holds that nobody can make the other side keep more than a
// window.
func TestTooFarAhead(t *testing.T) {
	var in terminal.Inbox
	peer := terminal.Peer{1}
	stream := terminal.AppendData(nil, make([]byte, 4*terminal.Window))
	var held int
	for at := 0; at < len(stream); at += terminal.MaxData {
		end := min(at+terminal.MaxData, len(stream))
		in.Take(terminal.Packet{Peer: peer, Number: uint64(at + 1), Offset: int64(at), Data: stream[at:end]}, func(e terminal.Event, _ int64) { held += len(e.Data) })
	}
	if held == 0 || held > terminal.Window {
		t.Errorf("%d bytes are held without an acknowledgement", held)
	}
}

func TestMalformedIsRefused(t *testing.T) {
	for name, stream := range map[string][]byte{
		"no kind":       {0, 0, 0},
		"unknown kind":  {4, 0, 0},
		"empty data":    {1, 0, 0},
		"short resize":  {2, 0, 3, 1, 2, 3},
		"a long end":    {3, 0, 1, 0},
		"a long resize": {2, 0, 5, 1, 2, 3, 4, 5},
	} {
		var in terminal.Inbox
		p := terminal.Packet{Peer: terminal.Peer{1}, Number: 1, Data: stream}
		if ack, _, _ := in.Take(p, func(terminal.Event, int64) {}); ack.Offset != terminal.Refused {
			t.Errorf("%s: %v", name, ack)
		}
		good := terminal.Packet{Peer: terminal.Peer{1}, Number: 2, Data: terminal.AppendData(nil, []byte("x"))}
		if ack, fresh, alive := in.Take(good, func(terminal.Event, int64) { t.Errorf("%s: taken afterwards", name) }); fresh || alive || ack.Offset != terminal.Refused {
			t.Errorf("%s: afterwards %v", name, ack)
		}
	}
	var in terminal.Inbox
	for i := range terminal.MaxPeers + 1 {
		p := terminal.Packet{Peer: terminal.Peer{byte(i), byte(i >> 8)}, Number: 1, Data: eof()}
		ack, _, _ := in.Take(p, func(terminal.Event, int64) {})
		if refused := ack.Offset == terminal.Refused; refused != (i == terminal.MaxPeers) {
			t.Errorf("peer %d: %v", i, ack)
		}
	}
}

func TestPeerText(t *testing.T) {
	p := terminal.Peer{0xab, 1, 2, 3, 4, 5, 6, 0xff}
	if got, err := terminal.ParsePeer(p.String()); err != nil || got != p {
		t.Errorf("%v %v", got, err)
	}
	for _, s := range []string{"", "ab", "AB010203040506FF", "zz010203040506ff", "ab010203040506ff00"} {
		if _, err := terminal.ParsePeer(s); !errors.Is(err, terminal.ErrFormat) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// FuzzPackets gives an Inbox whatever it may get: it neither panics nor takes a
// byte twice, nor more than a window, however the stream is cut.
func FuzzPackets(f *testing.F) {
	f.Add(terminal.AppendPacket(nil, terminal.Packet{Peer: terminal.Peer{1}, Number: 1, Data: terminal.AppendData(nil, []byte("ls\r"))}), uint64(1))
	f.Add(terminal.AppendPacket(nil, terminal.Packet{Peer: terminal.Peer{1}, Number: 2, Data: terminal.AppendResize(nil, terminal.Size{Rows: 24, Cols: 80})}), uint64(2))
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) {
		p, err := terminal.ParsePacket(raw)
		if err != nil {
			return
		}
		if again := terminal.AppendPacket(nil, p); !bytes.Equal(again, raw) {
			t.Fatalf("%x became %x", raw, again)
		}
		p.Offset = 0
		var whole, cut terminal.Inbox
		var a, b gather
		ackWhole, _, _ := whole.Take(p, a.do)
		ackCut := ackWhole // of no data there are no parts
		r := rand.New(rand.NewPCG(seed, 1))
		for at := 0; at < len(p.Data); {
			n := 1 + r.IntN(len(p.Data)-at)
			ackCut, _, _ = cut.Take(terminal.Packet{Peer: p.Peer, Number: p.Number, Offset: int64(at), Data: p.Data[at : at+n]}, b.do)
			at += n
		}
		if !bytes.Equal(a.data, b.data) || cmp.Diff(a.others, b.others) != "" || ackWhole != ackCut || len(a.data) > len(p.Data) {
			t.Fatalf("whole %v %+v, cut %v %+v", ackWhole, a, ackCut, b)
		}
	})
}

func FuzzParseAcks(f *testing.F) {
	f.Add(terminal.AppendAck(nil, terminal.Ack{Peer: terminal.Peer{1}, Offset: 7}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		acks, err := terminal.ParseAcks(raw)
		if err != nil {
			return
		}
		var again []byte
		for _, a := range acks {
			again = terminal.AppendAck(again, a)
		}
		if !bytes.Equal(raw, again) {
			t.Fatalf("%x became %x", raw, again)
		}
	})
}

func FuzzParseMessage(f *testing.F) {
	for _, m := range []terminal.Message{
		{Kind: terminal.MessageTyped, Data: terminal.AppendPacket(nil, terminal.Packet{Number: 1})}, {Kind: terminal.MessageAck, Offset: terminal.Refused},
		{Kind: terminal.MessageOutput, Offset: 7, Data: []byte("y")}, {Kind: terminal.MessageEnd, Data: []byte("{}")},
	} {
		f.Add(terminal.AppendMessage(nil, m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := terminal.ParseMessage(raw)
		if err != nil {
			return
		}
		if again := terminal.AppendMessage(nil, m); !bytes.Equal(raw, again) {
			t.Fatalf("%q became %q", raw, again)
		}
	})
}

// eof is a frame with the end of the input.
func eof() []byte { return []byte{byte(terminal.KindEOF), 0, 0} }
