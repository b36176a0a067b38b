package supervise

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

const (
	maxPeers    = 16              // connections to ctl.sock served at a time
	peerTimeout = 5 * time.Second // for a peer to send its request, or to take the reply
)

// control serves ctl.sock: one packet in, one packet out, per connection, unless
// the connection becomes the terminal's. Who may connect is decided by the mode of
// the run directory.
type control struct {
	path   string
	file   *os.File
	leaf   bool
	tty    *session      // nil without a terminal
	cancel chan struct{} // a cancel request, unbuffered
	credit func(taken [2]int64)
	over   chan struct{} // closed when the run is over
	wg     sync.WaitGroup

	mu    sync.Mutex
	peers map[*os.File]bool // connections being served
}

// listen makes ctl.sock and begins to serve it. The name appears when the
// socket can be connected to. It needs no package net and no short path.
func listen(dir rundir.Dir, leaf bool, tty *session, credit func(taken [2]int64)) (*control, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	c := &control{
		path: dir.Path(rundir.CtlFile), file: os.NewFile(uintptr(fd), "ctl"), leaf: leaf, tty: tty,
		credit: credit, cancel: make(chan struct{}), over: make(chan struct{}), peers: map[*os.File]bool{},
	}
	if err := c.bind(dir, fd); err != nil {
		c.file.Close()
		return nil, err
	}
	c.wg.Go(c.serve)
	return c, nil
}

func (c *control) bind(dir rundir.Dir, fd int) error {
	// Through /proc, because the path of a socket may have 107 bytes only.
	d, err := os.OpenFile(string(dir), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	tmp := c.path + ".tmp"
	_ = os.Remove(tmp) // of a supervisor that died here
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: rundir.SocketPath(d, rundir.CtlFile+".tmp")}); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o600); err != nil {
		return err
	}
	if err := unix.Listen(fd, maxPeers); err != nil {
		return err
	}
	return rundir.Rename(tmp, c.path)
}

// serve accepts until the socket is closed.
func (c *control) serve() {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return
	}
	for {
		var fd int
		var failure error
		err := raw.Read(func(s uintptr) bool {
			fd, _, failure = unix.Accept4(int(s), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(failure, unix.EAGAIN)
		})
		if err != nil {
			return // closed
		}
		if failure != nil {
			if pause := acceptPause(failure); pause > 0 {
				select {
				case <-soon(pause):
				case <-c.over:
				}
			}
			continue
		}
		conn := os.NewFile(uintptr(fd), "peer")
		if !c.enter(conn) {
			conn.Close()
			continue
		}
		c.wg.Go(func() {
			c.answer(conn)
			c.leave(conn)
		})
	}
}

// acceptPause is how long no connection is taken after a failure. Without a
// descriptor for it, the next one would fail at once, and so on.
func acceptPause(failure error) time.Duration {
	if failure == unix.ECONNABORTED || failure == unix.EINTR {
		return 0 // the peer has gone again
	}
	return 100 * time.Millisecond
}

func (c *control) enter(conn *os.File) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.peers) >= maxPeers {
		return false
	}
	c.peers[conn] = true
	_ = conn.SetReadDeadline(time.Now().Add(peerTimeout))
	return true
}

func (c *control) leave(conn *os.File) {
	c.mu.Lock()
	delete(c.peers, conn)
	c.mu.Unlock()
	conn.Close()
}

// answer serves one connection.
func (c *control) answer(conn *os.File) {
	buf := make([]byte, rundir.MaxPacket+1)
	n, err := conn.Read(buf)
	if err != nil {
		return
	}
	reply := rundir.Reply{Result: rundir.ResultRefused}
	req, err := rundir.ParseRequest(buf[:n])
	switch {
	case err == nil && req.Op == rundir.OpAttach && c.tty != nil:
		c.attach(conn)
		return
	case err == nil && req.Op == rundir.OpAttach:
		reply.Result = rundir.ResultUnsupported
	case err == nil && req.Op == rundir.OpCredit:
		c.credit(req.Taken)
		reply.Result = rundir.ResultTaken
	case err != nil || req.Op != rundir.OpCancel:
	case !c.leaf:
		reply.Result = rundir.ResultUnsupported
	default:
		select {
		case c.cancel <- struct{}{}:
			<-c.over
		case <-c.over:
		}
		reply.Result = rundir.ResultEnded
	}
	_ = tell(conn, rundir.AppendReply(nil, reply)) // a peer that has gone sees exit.json
}

// tell sends one packet to a peer that may take its time, but not for long.
func tell(conn *os.File, packet []byte) error {
	_ = conn.SetWriteDeadline(time.Now().Add(peerTimeout))
	_, err := conn.Write(packet)
	return err
}

// attach lets a connection carry what is typed until it ends.
func (c *control) attach(conn *os.File) {
	c.mu.Lock()
	select {
	case <-c.over:
		c.mu.Unlock()
		return
	default:
	}
	_ = conn.SetReadDeadline(time.Time{})
	c.mu.Unlock()
	if tell(conn, rundir.AppendReply(nil, rundir.Reply{Result: rundir.ResultAttached})) != nil {
		return
	}
	c.tty.serve(conn)
}

// close answers all that wait and ends the service.
func (c *control) close() {
	close(c.over)
	c.file.Close()
	c.mu.Lock()
	for conn := range c.peers {
		_ = conn.SetReadDeadline(time.Now()) // who has not asked yet reads exit.json
	}
	c.mu.Unlock()
	c.wg.Wait()
	_ = os.Remove(c.path)
}
