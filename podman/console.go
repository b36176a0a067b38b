package podman

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// console is where the runtime sends the master of the terminal that it has made.
type console struct {
	path   string
	dir    *os.File
	socket *net.UnixListener
	got    chan received
}

type received struct {
	fd  int
	err error
}

// listenConsole makes a socket in a directory. Its path leads through this process:
// that of the directory may be longer than a socket's may be.
func listenConsole(dir string) (*console, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), d.Fd()), "console")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	c := &console{path, d, l, make(chan received, 1)}
	go func() { // it ends with the socket
		fd, err := c.receive()
		c.got <- received{fd, err}
	}()
	return c, nil
}

// receive takes the one message of the runtime. The command has not been executed when
// it is sent.
func (c *console) receive() (int, error) {
	conn, err := c.socket.AcceptUnix()
	if err != nil {
		return -1, err
	}
	defer conn.Close()
	name, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(name, rights)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(errors.New("the runtime sent no terminal"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("the runtime sent no terminal"), err)
	}
	unix.CloseOnExec(fds[0])
	// Whole characters of UTF-8 are erased in it, as in every terminal of ours.
	t, err := unix.IoctlGetTermios(fds[0], unix.TCGETS)
	if err == nil {
		t.Iflag |= unix.IUTF8
		err = unix.IoctlSetTermios(fds[0], unix.TCSETS, t)
	}
	return fds[0], errors.Join(err, unix.SetNonblock(fds[0], true))
}

// master is what was received. The runtime has ended, so it has sent all that it will.
func (c *console) master() (*os.File, error) {
	got := <-c.got
	c.got <- received{fd: -1}
	if got.err != nil {
		return nil, fmt.Errorf("taking the terminal: %w", got.err)
	}
	return os.NewFile(uintptr(got.fd), "terminal"), nil
}

// close ends the waiting, and lets go of a terminal that was not taken.
func (c *console) close() {
	c.socket.Close()
	if got := <-c.got; got.fd >= 0 {
		unix.Close(got.fd)
	}
	c.dir.Close()
}
