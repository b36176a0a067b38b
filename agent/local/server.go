package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Limits of the server. There is none on a whole request or answer: some
// follow for days. Each part that waits for the client has its own.
const (
	headerTimeout    = 10 * time.Second
	idleTimeout      = 2 * time.Minute
	maxHeaderBytes   = 16 << 10
	shutdownPatience = 2 * time.Second
)

// errShutdown ends requests that wait or follow when the server ends.
var errShutdown = errors.New("the agent is ending")

// Listen makes the socket at path, with mode 0660 and the given group, −1 for
// that of the process. A socket without a server is what a process left that
// was killed, and is replaced; one that answers, or anything else that stands
// there, is an error.
func Listen(ctx context.Context, path string, group int) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	// Until here its mode was what the umask left, which lets nobody connect who
	// may not afterwards but those of our own group.
	err = os.Chmod(path, 0o660)
	if group >= 0 && err == nil {
		err = os.Chown(path, -1, group)
	}
	if err != nil {
		return nil, fmt.Errorf("give the socket to its group: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// removeStale removes a socket without a server.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("a file that is no socket is there")
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(errors.New("another process serves it"), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// Serve answers on a listener until ctx ends, and returns the cause of that, or
// why it cannot go on. Short requests are finished, those that wait or follow
// are answered with what there is.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	serving, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(errShutdown)
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return serving },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, peer(c))
		},
	}
	var (
		wg     sync.WaitGroup
		failed = make(chan error, 1)
	)
	wg.Go(func() { failed <- s.Serve(l) })
	defer wg.Wait()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the socket: %w", err)
	case <-ctx.Done():
	}
	cut(errShutdown)
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
	defer cancel()
	if s.Shutdown(patience) != nil {
		_ = s.Close() // what hangs is cut; no caller is left to tell
	}
	return context.Cause(ctx)
}

// peerKey finds who is at the other end of the connection.
type peerKey struct{}

// requester names who asks, as it is written down with an action.
func requester(ctx context.Context) string {
	if name, ok := ctx.Value(peerKey{}).(string); ok {
		return name
	}
	return "local"
}

// peer is the user at the other end, as the kernel knows it from the moment of
// the connection.
func peer(c net.Conn) string {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return "local"
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return "local"
	}
	name := "local"
	err = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			name = "uid:" + strconv.FormatUint(uint64(cred.Uid), 10)
		}
	})
	if err != nil {
		return "local"
	}
	return name
}
