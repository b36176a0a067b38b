package daemon

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// manager is a socket as systemd has it.
func manager(t *testing.T) (address string, next func() string) {
	t.Helper()
	address = filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return address, func() string {
		t.Helper()
		if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		var b [256]byte
		n, err := l.Read(b[:])
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestServiceIsTold(t *testing.T) {
	address, next := manager(t)
	s := ServiceOf([]string{"A=b", "NOTIFY_SOCKET=" + address}, 7)
	for want, tell := range map[string]func() error{
		"READY=1\nSTATUS=well": func() error { return s.Ready("well") },
		"RELOADING=1":          s.Reloading,
		"STOPPING=1":           s.Stopping,
	} {
		if err := tell(); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != want {
			t.Errorf("the manager hears %q, want %q", got, want)
		}
	}
	if err := ServiceOf([]string{"NOTIFY_SOCKET=" + address + "-none"}, 7).Stopping(); err == nil {
		t.Error("nobody listens, and that is no error")
	}
	if err := (Service{}).Ready("alone"); err != nil {
		t.Errorf("without a manager: %v", err)
	}
}

// TestServiceIsWatched: each sign of life follows an answer, and there is none for a
// program that does not answer.
func TestServiceIsWatched(t *testing.T) {
	address, next := manager(t)
	s := ServiceOf([]string{"NOTIFY_SOCKET=" + address, "WATCHDOG_USEC=3000", "WATCHDOG_PID=7"}, 7)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked, answer, done := make(chan bool), make(chan bool), make(chan error)
	go func() {
		done <- s.Watch(ctx, func(context.Context) {
			asked <- true
			<-answer
		})
	}()
	for range 3 {
		<-asked
		answer <- true
		if got := next(); got != "WATCHDOG=1" {
			t.Fatalf("the manager hears %q", got)
		}
	}
	<-asked // and never answered: what comes next is not a sign of life
	if err := s.Stopping(); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "STOPPING=1" {
		t.Errorf("the manager hears %q of a program that hangs", got)
	}
	stop()
	answer <- true
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, none := range [][]string{{"WATCHDOG_USEC=3000"}, {"NOTIFY_SOCKET=" + address}, {"NOTIFY_SOCKET=" + address, "WATCHDOG_USEC=3000", "WATCHDOG_PID=8"}} {
		if err := ServiceOf(none, 7).Watch(t.Context(), func(context.Context) { t.Errorf("%q watches", none) }); err != nil {
			t.Error(err)
		}
	}
}
