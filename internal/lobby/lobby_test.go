package lobby_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/internal/lobby"
)

// line is a connection that knows only where it comes from and whether it was closed.
type line struct {
	net.Conn
	from   string
	closed bool
}

func (l *line) RemoteAddr() net.Addr { a, _ := net.ResolveTCPAddr("tcp", l.from); return a }
func (l *line) Close() error         { l.closed = true; return nil }

func from(ip string, port int) *line { return &line{from: fmt.Sprintf("%s:%d", ip, port)} }

const patience = 30 * time.Second

// TestOneAddressStarvesNoOther: whoever holds all places loses one to each newcomer
// from elsewhere, and gets none itself.
func TestOneAddressStarvesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lobby.New(100)
		var flood []*line
		for i := range 100 {
			c := from("203.0.113.9", 1000+i)
			if _, err := l.Enter(c, patience); err != nil {
				t.Fatalf("stranger %d: %v", i, err)
			}
			flood = append(flood, c)
		}
		if _, err := l.Enter(from("203.0.113.9", 1), patience); !errors.Is(err, lobby.ErrFull) {
			t.Errorf("one more of the flood: %v", err)
		}
		for i := range 49 { // a site of its own, until it has as many
			if _, err := l.Enter(from("192.0.2.1", 1000+i), patience); err != nil {
				t.Fatalf("host %d: %v", i, err)
			}
			if !flood[i].closed {
				t.Fatalf("host %d took the place of nobody", i)
			}
		}
		if n := l.Stats(); n != (lobby.Stats{Strangers: 100, TurnedAway: 1, Displaced: 49}) {
			t.Errorf("stats %+v", n)
		}
	})
}

// TestStrangersEnd: a stranger has its time, and less of it while others wait; who has
// said who it is stays.
func TestStrangersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lobby.New(2)
		known, slow := from("192.0.2.1", 1), from("192.0.2.1", 2)
		p, err := l.Enter(known, patience)
		if err != nil {
			t.Fatal(err)
		}
		p.Leave()
		p.Leave() // once more, which is nothing
		for _, c := range []*line{slow, from("192.0.2.1", 3)} {
			if _, err := l.Enter(c, patience); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(4 * time.Second)
		if _, err := l.Enter(from("192.0.2.1", 4), patience); !errors.Is(err, lobby.ErrFull) || slow.closed {
			t.Errorf("after 4 s: %v, the slow one is closed: %t", err, slow.closed)
		}
		<-time.After(2 * time.Second)
		last := from("192.0.2.1", 4)
		if _, err := l.Enter(last, patience); err != nil || !slow.closed {
			t.Errorf("after 6 s: %v, the slow one is closed: %t", err, slow.closed)
		}
		<-time.After(patience + time.Second)
		synctest.Wait()
		if n := l.Stats(); n.Strangers != 0 || n.Overdue != 2 || !last.closed || known.closed {
			t.Errorf("after their time: %+v, the last is closed: %t, the known one: %t", n, last.closed, known.closed)
		}
	})
}

// TestManyComeBackAtOnce: no address is limited while there is room.
func TestManyComeBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lobby.New(4096)
		for i := range 2000 {
			if _, err := l.Enter(from("192.0.2.1", 1+i), patience); err != nil {
				t.Fatalf("host %d: %v", i, err)
			}
		}
	})
}

// TestListener: a connection that is closed gives its place back, one that is too much
// is closed at once, one that is known outlives the patience.
func TestListener(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	l := lobby.New(1)
	in := l.Listener(raw, time.Hour)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first, err := in.Accept()
	if err != nil {
		t.Fatal(err)
	}
	away := dial()
	accepted := make(chan net.Conn, 1)
	go func() { // ends with the third connection
		c, _ := in.Accept()
		accepted <- c
	}()
	if _, err := away.Read(make([]byte, 1)); err == nil {
		t.Error("a second stranger was not turned away")
	}
	first.(*lobby.Conn).Known()
	dial()
	second := <-accepted
	if n := l.Stats(); n.Strangers != 1 || n.TurnedAway != 1 {
		t.Errorf("stats %+v", n)
	}
	if err := errors.Join(second.Close(), first.Close()); err != nil || l.Stats().Strangers != 0 {
		t.Errorf("closing: %v, stats %+v", err, l.Stats())
	}
}

// TestBooks: whatever comes and goes, no more strangers are there than places, and
// each connection that was let in is there, gone, or closed.
func TestBooks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		places := rapid.IntRange(1, 8).Draw(rt, "places")
		l := lobby.New(places)
		type guest struct {
			*line
			*lobby.Seat
		}
		var in []guest
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if len(in) > 0 && rapid.Bool().Draw(rt, "leaves") {
				i := rapid.IntRange(0, len(in)-1).Draw(rt, "who")
				in[i].Leave()
				in = append(in[:i], in[i+1:]...)
			} else {
				c := from(fmt.Sprintf("192.0.2.%d", rapid.IntRange(1, 4).Draw(rt, "from")), 1)
				if p, err := l.Enter(c, time.Hour); err == nil {
					in = append(in, guest{c, p})
				} else if l.Stats().Strangers < places {
					rt.Fatalf("turned away with %d of %d places taken", l.Stats().Strangers, places)
				}
			}
			open := 0
			for _, g := range in {
				if !g.closed {
					open++
				}
			}
			if n := l.Stats().Strangers; n != open || n > places {
				rt.Fatalf("%d strangers, %d open connections, %d places", n, open, places)
			}
		}
		for _, g := range in {
			g.Leave()
		}
	})
}
