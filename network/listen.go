package network

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// States of sockets in the tables of the kernel: listening, and a UDP socket
// without a peer.
const (
	stateListen      = "0A"
	stateUnconnected = "07"
)

// Listener tells which process of the host has a port, for people: its name and number.
// It is empty if none has it. What has it at one of the other addresses alone does not count.
func Listener(protocol string, port uint16, other ...netip.Addr) (string, error) {
	for _, table := range []string{protocol, protocol + "6"} {
		inode, err := listening("/proc/thread-self/net/"+table, protocol, func(local netip.AddrPort) bool {
			return local.Port() == port && !slices.Contains(other, local.Addr())
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
	want := netip.AddrPortFrom(at, namesPort)
	inode, err := listening("/proc/thread-self/net/udp", "udp", func(local netip.AddrPort) bool { return local == want })
	if err != nil {
		return "", fmt.Errorf("finding the process that serves names at %s: %w", at, err)
	}
	if inode == "" {
		return "", nil
	}
	return processOf(inode), nil
}

// DHCP tells which process of the host serves DHCP in the network of a bridge, for people, as
// [Namer] does. One that listens on all devices has said nothing of this one, and does not
// count. It is empty if none does, or on a kernel that does not tell of devices (udp_diag).
func DHCP(bridge string) (string, error) {
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return "", fmt.Errorf("finding bridge %s: %w", bridge, err)
	}
	sockets, err := netlink.SocketDiagUDP(unix.AF_INET)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("finding the process that serves DHCP at %s: %w", bridge, err)
	}
	for _, s := range sockets {
		if s.ID.SourcePort == dhcpPort && s.ID.Interface == uint32(link.Attrs().Index) {
			return processOf(strconv.FormatUint(uint64(s.INode), 10)), nil
		}
	}
	return "", nil
}

// dhcpPort is where servers of DHCP listen.
const dhcpPort = 67

// addrPort reads an address and a port as the kernel writes them: in hexadecimal digits, each
// four bytes of the address in the order of this machine. It is zero if it is neither.
func addrPort(text string) netip.AddrPort {
	address, number, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	port, wrong := strconv.ParseUint(number, 16, 16)
	if err != nil || wrong != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a, uint16(port))
}

// listening returns the inode of the socket whose address and port are those that are looked
// for; empty if there is none.
func listening(path, protocol string, is func(local netip.AddrPort) bool) (inode string, err error) {
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
		if is(addrPort(cells[1])) {
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
