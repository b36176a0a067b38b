package network

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
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
		inode, err := listening("/proc/thread-self/net/"+table, protocol, port)
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

// listening returns the inode of the socket that has a port; empty if there is none.
func listening(path, protocol string, port uint16) (inode string, err error) {
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
		_, hex, _ := strings.Cut(cells[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil && uint16(n) == port {
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
