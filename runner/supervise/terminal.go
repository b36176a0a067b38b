package supervise

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/terminal"
)

// Terminal takes a pseudoterminal whose master was just opened, non-blocking and
// not as the controlling terminal of a process, and returns both ends. The slave belongs to uid from
// then on, as getty and sshd leave it. It closes the master when it fails.
func Terminal(masterFD int, uid uint32) (master, slave *os.File, err error) {
	master = os.NewFile(uintptr(masterFD), "terminal")
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(masterFD, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, os.NewSyscallError("TIOCSPTLCK", err)
	}
	// By the master and not by its name: that would be looked for in our own
	// directories.
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(masterFD), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, nil, os.NewSyscallError("TIOCGPTPEER", errno)
	}
	slave = os.NewFile(fd, "terminal")
	if err := prepare(int(fd), uid); err != nil {
		slave.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

// prepare gives a terminal to a user, who erases whole characters of UTF-8 in it.
func prepare(slave int, uid uint32) error {
	if err := unix.Fchown(slave, int(uid), -1); err != nil {
		return os.NewSyscallError("fchown", err)
	}
	t, err := unix.IoctlGetTermios(slave, unix.TCGETS)
	if err != nil {
		return os.NewSyscallError("TCGETS", err)
	}
	t.Iflag |= unix.IUTF8
	return os.NewSyscallError("TCSETS", unix.IoctlSetTermios(slave, unix.TCSETS, t))
}

// resize tells the command the size of its window.
func resize(master *os.File, rows, cols int) error {
	raw, err := master.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) {
		failure = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("TIOCSWINSZ", failure)
}

// eofChar is what must be typed to end the input: nothing if the command reads
// bytes as they are.
func eofChar(master *os.File) []byte {
	var t *unix.Termios
	raw, err := master.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { t, _ = unix.IoctlGetTermios(int(fd), unix.TCGETS) })
	}
	if err != nil || t == nil || t.Lflag&unix.ICANON == 0 {
		return nil
	}
	return []byte{t.Cc[unix.VEOF]}
}

// A session is the input of a terminal: it takes what peers type, in order and
// each byte once, and sees whether any of them is left.
type session struct {
	clock  Clock
	hangUp time.Duration // without a sign of a peer that has not left; 0 is never
	rec    *recorder     // nil is none
	lost   chan struct{} // closed when nobody was there for as long
	over   chan struct{} // closed by end
	wake   chan struct{} // a token for typist
	left   chan struct{} // a token for attend: the last peer has left
	wg     sync.WaitGroup

	mu     sync.Mutex
	inbox  terminal.Inbox
	homes  map[terminal.Peer]*os.File // where each peer's acknowledgements go
	queue  []keystrokes
	held   int                    // bytes in queue
	here   map[terminal.Peer]bool // who gave a sign and has not left
	seen   time.Duration          // of the clock: when a peer was there for certain
	ended  bool
	master *os.File // nil before begin
	size   *terminal.Size
}

// keystrokes is what a peer typed, or a place of its stream to acknowledge.
type keystrokes struct {
	peer terminal.Peer
	data []byte
	eof  bool
	end  int64
}

// maxHeld bounds what all peers together have typed that the terminal has not
// taken, in bytes.
const maxHeld = 4 * terminal.Window

func newSession(clock Clock, hangUp time.Duration, rec *recorder) *session {
	return &session{
		clock: clock, hangUp: hangUp, rec: rec, seen: clock.Now(),
		lost: make(chan struct{}), over: make(chan struct{}), wake: make(chan struct{}, 1), left: make(chan struct{}, 1),
		homes: map[terminal.Peer]*os.File{}, here: map[terminal.Peer]bool{},
	}
}

// begin lets the session type, and be hung up. Until then what comes is kept.
func (s *session) begin(master *os.File) {
	s.mu.Lock()
	s.master, s.seen = master, s.clock.Now()
	size := s.size
	s.mu.Unlock()
	if size != nil {
		_ = resize(master, int(size.Rows), int(size.Cols)) // as in resized
	}
	s.wg.Go(s.typist)
	if s.hangUp > 0 {
		s.wg.Go(s.attend)
	}
}

// end stops both.
func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	master := s.master
	s.mu.Unlock()
	close(s.over)
	if master != nil {
		_ = master.SetWriteDeadline(time.Now()) // the command does not read any more
	}
	s.wg.Wait()
}

// attend closes lost when no peer gave a sign for long enough: peers that have not
// left may be cut off, and come back.
func (s *session) attend() {
	for {
		s.mu.Lock()
		patience := s.hangUp
		if len(s.here) == 0 {
			patience = min(patience, terminal.HangUpAfter)
		}
		left := s.seen + patience - s.clock.Now()
		s.mu.Unlock()
		if left <= 0 {
			close(s.lost)
			return
		}
		alarm, stop, err := s.clock.After(left)
		if err != nil {
			close(s.lost) // a session that nobody can end is worse
			return
		}
		select {
		case <-alarm:
		case <-s.left:
		case <-s.over:
			stop()
			return
		}
		stop()
	}
}

// leave takes the word that a peer has left. It is called with mu held.
func (s *session) leave(peer terminal.Peer) {
	if !s.here[peer] {
		return
	}
	delete(s.here, peer)
	if len(s.here) == 0 {
		s.seen = s.clock.Now()
		select {
		case s.left <- struct{}{}:
		default:
		}
	}
}

// serve takes packets from a connection until it ends.
func (s *session) serve(conn *os.File) {
	defer s.forget(conn)
	buf := make([]byte, terminal.MaxPacket+1)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		p, err := terminal.ParsePacket(buf[:n])
		if err != nil {
			return // it does not speak our language
		}
		if ack, ok := s.take(conn, p); ok && tell(conn, terminal.AppendAck(nil, ack)) != nil {
			return
		}
	}
}

// forget ends the acknowledgements that would go to a connection.
func (s *session) forget(conn *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, c := range s.homes {
		if c == conn {
			delete(s.homes, p)
		}
	}
}

// take queues what is new of a packet. ok tells that it was nothing, so that the
// peer must be told at once where it stands.
func (s *session) take(conn *os.File, p terminal.Packet) (ack terminal.Ack, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return ack, false
	}
	if p.Left() {
		s.leave(p.Peer)
		return ack, false
	}
	if s.held+len(p.Data) > maxHeld {
		p.Data = nil // it is sent again
	}
	ack, fresh, alive := s.inbox.Take(p, func(e terminal.Event, end int64) { s.event(p.Peer, e, end) })
	if alive {
		s.homes[p.Peer], s.here[p.Peer] = conn, true
		s.seen = s.clock.Now()
	}
	if !fresh {
		return ack, len(p.Data) > 0
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return ack, ack.Offset == terminal.Refused
}

// event is called with mu held.
func (s *session) event(peer terminal.Peer, e terminal.Event, end int64) {
	k := keystrokes{peer: peer, end: end}
	switch e.Kind {
	case terminal.KindData:
		k.data = append(k.data, e.Data...)
		s.held += len(k.data)
	case terminal.KindEOF:
		k.eof = true
	case terminal.KindResize:
		// Not behind what the command does not read: it may be waiting for this.
		s.size = &e.Size
		s.rec.resized(e.Size)
		if s.master != nil {
			_ = resize(s.master, int(e.Size.Rows), int(e.Size.Cols)) // fails when the terminal is gone, alone
		}
	}
	s.queue = append(s.queue, k)
}

// typist gives the terminal what was typed, as it takes it.
func (s *session) typist() {
	for {
		k, ok := s.next()
		if !ok {
			return
		}
		if k.eof {
			k.data = eofChar(s.master)
		}
		if len(k.data) > 0 {
			if _, err := s.master.Write(k.data); err != nil {
				return // the terminal is gone, or the session is over
			}
		}
		s.typed(k)
	}
}

// next waits for something to type.
func (s *session) next() (k keystrokes, ok bool) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			k = s.queue[0]
			s.queue = s.queue[1:]
			s.mu.Unlock()
			return k, true
		}
		s.queue = nil
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-s.over:
			return k, false
		}
	}
}

// typed acknowledges what the terminal has taken, once for all that is at hand.
func (s *session) typed(k keystrokes) {
	s.mu.Lock()
	if !k.eof {
		s.held -= len(k.data)
	}
	ack := s.inbox.Done(k.peer, k.end)
	more := len(s.queue) > 0 && s.queue[0].peer == k.peer
	conn := s.homes[k.peer]
	s.mu.Unlock()
	if conn != nil && (!more || len(k.data) > 0) {
		_ = tell(conn, terminal.AppendAck(nil, ack)) // a connection that is gone has another after it
	}
}
