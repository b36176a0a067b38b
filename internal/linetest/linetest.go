// Package linetest gives tests a line on which each packet is late: the kernel here can
// lose packets and slow them down, and delay none. It needs root.
package linetest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Line carries packets between a cable and a bridge.
type Line struct {
	tap, wire *os.File
	closed    chan struct{}
	ended     chan error
}

// Delay takes the place of a cable, which no bridge has any more, with a device of this
// name, which a bridge is to have. Each packet is late by as much, in each direction.
func Delay(cable, name string, late time.Duration) (*Line, error) {
	wire, err := openWire(cable)
	if err != nil {
		return nil, err
	}
	tap, err := openTap(name)
	if err != nil {
		return nil, errors.Join(err, wire.Close())
	}
	l := &Line{tap, wire, make(chan struct{}), make(chan error, 4)}
	l.carry(tap, wire, late)
	l.carry(wire, tap, late)
	return l, nil
}

// Close ends the line, and its device is gone. It returns why the line ended before.
func (l *Line) Close() error {
	close(l.closed)
	err := errors.Join(l.tap.Close(), l.wire.Close())
	for range cap(l.ended) {
		if e := <-l.ended; !errors.Is(e, os.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// largest bounds a packet with what the kernel says of it: one that is cut later.
const largest = 80 << 10

// inFlight is how many packets a line holds; more are lost.
const inFlight = 4096

// carry carries packets from one end to the other. Both of its goroutines tell ended,
// when an end is closed.
func (l *Line) carry(from, to *os.File, late time.Duration) {
	type packet struct {
		due time.Time
		b   []byte
	}
	line := make(chan packet, inFlight)
	go func() { // reads, until from is closed
		defer close(line)
		b := make([]byte, largest)
		for {
			n, err := from.Read(b)
			if err != nil && !errors.Is(err, unix.ENETDOWN) {
				l.ended <- err
				return
			}
			select {
			case line <- packet{time.Now().Add(late), append([]byte(nil), b[:n]...)}:
			default:
			}
		}
	}()
	go func() { // writes, until line is closed
		for p := range line {
			if l.wait(time.Until(p.due)) {
				_, _ = to.Write(p.b) // what cannot be sent is lost, as on any line
			}
		}
		l.ended <- os.ErrClosed
	}()
}

// wait keeps a packet on the line. It reports whether the line is there still.
func (l *Line) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closed:
		return false
	}
}

// openTap makes a device whose packets are read and written, each behind what the kernel
// says of its sums.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openWire opens this machine's end of a cable in the same way.
func openWire(cable string) (*os.File, error) {
	ifi, err := os.ReadFile(filepath.Join("/sys/class/net", cable, "ifindex"))
	if err != nil {
		return nil, err
	}
	index, err := strconv.Atoi(string(ifi[:len(ifi)-1]))
	if err != nil {
		return nil, err
	}
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in the order of the network
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
	)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), cable), nil
}
