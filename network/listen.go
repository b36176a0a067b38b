package network

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// States of sockets in the tables of the kernel: listening, and a UDP socket
// without a peer.
const (
	stateListen      = "0A"
	stateUnconnected = "07"
)

// Listener tells which process of the host has a port, for people: its name and number.
// It is empty if none has it.
func Listener(protocol string, port uint16) (string, error) {
	for _, table := range []string{protocol, protocol + "6"} {
		inode, err := listening("/proc/thread-self/net/"+table, protocol, func(local string) bool {
			_, hex, _ := strings.Cut(local, ":")
			n, err := strconv.ParseUint(hex, 16, 16)
			return err == nil && uint16(n) == port
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return "", fmt.Errorf("finding the process that has port %d/%s: %w", port, protocol, err)
		}
		if inode != "" {
			return processOf(inode), nil
		}
	}
	return "", nil
}

// Namer tells which process of the host serves names at an address of IPv4, for people: its
// name and number. It is empty if none does.
func Namer(at netip.Addr) (string, error) {
	b := at.As4()
	want := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(b[:]), namesPort)
	inode, err := listening("/proc/thread-self/net/udp", "udp", func(local string) bool { return local == want })
	if err != nil {
		return "", fmt.Errorf("finding the process that serves names at %s: %w", at, err)
	}
	if inode == "" {
		return "", nil
	}
	return processOf(inode), nil
}

// listening returns the inode of the socket whose address and port, as the kernel writes
// them, are those that are looked for; empty if there is none.
func listening(path, protocol string, is func(local string) bool) (inode string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	want := stateListen
	if protocol == "udp" {
		want = stateUnconnected
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
		cells := strings.Fields(lines.Text())
		if len(cells) < 10 || cells[3] != want {
			continue
		}
		if is(cells[1]) {
			return cells[9], nil
		}
	}
	return "", lines.Err()
}

// processOf names the process that holds a socket, as well as it can be known.
func processOf(inode string) string {
	const unknown = "a process that cannot be named"
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return unknown
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || to != "socket:["+inode+"]" {
			continue // it may be gone
		}
		dir := filepath.Dir(filepath.Dir(link))
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			return unknown
		}
		return fmt.Sprintf("%s, process %s", strings.TrimSpace(string(name)), filepath.Base(dir))
	}
	return unknown
}
