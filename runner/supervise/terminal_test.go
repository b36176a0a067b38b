package supervise

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/hostler-io/hostler/terminal"
)

// TestTypingIsHeldBack: peers who type together, while the command reads nothing,
// take no more memory than is set aside for them, and lose nothing by it.
func TestTypingIsHeldBack(t *testing.T) {
	s := newSession(bootClock{}, 0, nil)
	const peers = 3 * maxHeld / terminal.Window
	all := make([]terminal.Outbox, peers)
	want := 0
	send := func() {
		for i := range all {
			o := &all[i]
			for p, ok := o.Next(terminal.Window); ok; p, ok = o.Next(terminal.Window) {
				if ack, ok := s.take(nil, p); ok {
					o.Acked(ack.Offset)
				}
			}
		}
	}
	for i := range all {
		all[i].Peer = terminal.Peer{byte(i + 1)}
		text := bytes.Repeat([]byte{'a' + byte(i)}, 1000)
		for all[i].Room() > 2*len(text) {
			all[i].Append(terminal.AppendData(nil, text))
			want += len(text)
		}
	}
	send()
	if s.held > maxHeld || s.held < maxHeld-terminal.MaxData {
		t.Fatalf("%d bytes are held of %d, want %d at most", s.held, want, maxHeld)
	}
	read, master, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	s.begin(master)
	got := make([]byte, 0, want)
	buf := make([]byte, 64<<10)
	for len(got) < want {
		n, err := read.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
		s.mu.Lock()
		held := s.held
		for i := range all {
			all[i].Acked(s.inbox.Done(all[i].Peer, 0).Offset)
			all[i].Rewind()
		}
		s.mu.Unlock()
		if held > maxHeld {
			t.Fatalf("%d bytes are held", held)
		}
		send()
	}
	s.end()
	master.Close()
	if rest, _ := io.ReadAll(read); len(rest) > 0 {
		t.Errorf("%d bytes came twice", len(rest))
	}
	for i := range all {
		if n := bytes.Count(got, []byte{'a' + byte(i)}); n != want/peers {
			t.Errorf("of peer %d %d bytes came, want %d", i, n, want/peers)
		}
	}
}
