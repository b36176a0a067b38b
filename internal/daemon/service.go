package daemon

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Service tells the manager of services that started this program how it stands, in
// the words of sd_notify(3). The zero value has no manager and tells nothing, as
// without systemd.
type Service struct {
	socket   string
	watchdog time.Duration // how long the manager waits for a sign of life; 0: for ever
}

// ServiceOf returns the manager that the environment names, NAME=VALUE each. A
// watchdog that is meant for another process is none.
func ServiceOf(environ []string, pid int) Service {
	of := make(map[string]string)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		of[name] = value
	}
	s := Service{socket: of["NOTIFY_SOCKET"]}
	if meant := of["WATCHDOG_PID"]; meant == "" || meant == strconv.Itoa(pid) {
		if us, err := strconv.ParseInt(of["WATCHDOG_USEC"], 10, 64); err == nil && us > 0 {
			s.watchdog = time.Duration(us) * time.Microsecond
		}
	}
	return s
}

// Ready tells that the program serves, and in a few words as what: after its start,
// and after each [Service.Reloading].
func (s Service) Ready(status string) error { return s.tell("READY=1\nSTATUS=" + status) }

// Reloading tells that the program reads its configuration again.
func (s Service) Reloading() error { return s.tell("RELOADING=1") }

// Stopping tells that the program is on its way out.
func (s Service) Stopping() error { return s.tell("STOPPING=1") }

// Watch gives signs of life until ctx ends, three in the time after which the manager
// ends the program. Each follows a call of ask, which asks the part that must not
// hang: while it waits for its answer there is no sign. Without a watchdog Watch does
// nothing.
func (s Service) Watch(ctx context.Context, ask func(context.Context)) error {
	if s.socket == "" || s.watchdog == 0 {
		return nil
	}
	t := time.NewTicker(s.watchdog / 3)
	defer t.Stop()
	for {
		ask(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := s.tell("WATCHDOG=1"); err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// tell sends one message. An address that begins with @ has no name in a directory.
func (s Service) tell(message string) error {
	if s.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the manager of services: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(message)); err != nil {
		return fmt.Errorf("tell the manager of services: %w", err)
	}
	return nil
}
