package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// lookupTime bounds how long a name server may hold up the start.
	lookupTime = 2 * time.Second
	// dialTime is how long an address has to lead to this machine.
	dialTime = 3 * time.Second
	// maxOwn is how many addresses of a machine without a default route are told.
	maxOwn = 3
)

// self is what a machine knows of how others reach it.
type self struct {
	name     string
	resolved []netip.Addr // what the name stands for
	own      []netip.Addr // of its interfaces
	routed   []netip.Addr // those with which it speaks to the rest of the world
}

// thisMachine looks at the machine that this program runs on. What it cannot find out
// stays empty.
func thisMachine() (m self) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	if m.name, _ = os.Hostname(); m.name != "" {
		m.resolved, _ = net.DefaultResolver.LookupNetIP(ctx, "ip", m.name)
	}
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			m.own = append(m.own, p.Addr())
		}
	}
	for network, far := range map[string]string{"udp4": "203.0.113.1:9", "udp6": "[2001:db8::1]:9"} { // nothing is sent there
		if c, err := net.Dial(network, far); err == nil {
			if a, err := netip.ParseAddrPort(c.LocalAddr().String()); err == nil {
				m.routed = append(m.routed, a.Addr())
			}
			_ = c.Close()
		}
	}
	return m
}

// hosts are how others most likely reach this machine: at the address with which it
// speaks to other networks, which needs no name service, or else by its name, which
// outlives a change of the address, if it stands for this machine elsewhere too. Without
// any of them it is the name.
func (m self) hosts() []string {
	dialled := func(a netip.Addr) bool { return a.Unmap().IsGlobalUnicast() }
	short := !strings.Contains(m.name, ".")
	from := slices.DeleteFunc(slices.Clone(m.routed), func(a netip.Addr) bool { return !dialled(a) })
	slices.SortFunc(from, netip.Addr.Compare) // IPv4 is before IPv6
	if len(from) > 0 {
		from = from[:1]
	} else {
		from = slices.DeleteFunc(slices.Clone(m.own), func(a netip.Addr) bool { return !dialled(a) })
		from = from[:min(len(from), maxOwn)]
	}
	var all []string
	for _, a := range from {
		all = append(all, a.String())
	}
	if m.name != "" && (len(all) == 0 || slices.ContainsFunc(m.resolved, func(a netip.Addr) bool {
		return dialled(a) && (!short || slices.Contains(m.own, a.Unmap()))
	})) {
		all = append(all, m.name)
	}
	return all
}

// tryAddresses listens as the coordinator will, dials the addresses that hosts are to
// be told, and writes which of them do not lead here. It is no error: an address may
// lead here from elsewhere alone.
func tryAddresses(ctx context.Context, section, listen string, addresses []string, talk io.Writer) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil && !errors.Is(err, syscall.EADDRINUSE) { // by a coordinator that waits for a fleet
		fmt.Fprintf(talk, "hostler-coordinator: %s.addresses were not tried: %s\n", section, err)
		return
	}
	echoes := err == nil
	if echoes {
		done := make(chan struct{})
		go func() {
			defer close(done)
			echo(l)
		}()
		defer func() {
			_ = l.Close()
			<-done
		}()
	}
	for _, a := range addresses {
		if err := leadsHere(ctx, a, echoes); err != nil {
			fmt.Fprintf(talk, "hostler-coordinator: from here, %s does not lead to this coordinator: %s\n"+
				"If hosts cannot reach it there either, set %s.addresses to HOST:PORT as they can, before the first join code.\n", a, err, section)
		}
	}
}

// echo sends each connection back what it says first, until the listener is closed.
func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(dialTime)) // a failure shows at the other end
		b := make([]byte, 16)
		if _, err := io.ReadFull(c, b); err == nil {
			_, _ = c.Write(b)
		}
		_ = c.Close()
	}
}

// leadsHere dials an address at which echo listens, or another program.
func leadsHere(ctx context.Context, address string, echoes bool) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	if !echoes {
		return nil
	}
	said, heard := make([]byte, 16), make([]byte, 16)
	rand.Read(said)
	if err := c.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return err
	}
	if _, err := c.Write(said); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, heard); err != nil || !bytes.Equal(said, heard) {
		return errors.New("another program answers there")
	}
	return nil
}
