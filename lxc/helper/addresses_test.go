//go:build linux && cgo

package helper

import (
	"bufio"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// TestAddressesOf: the addresses of all links of another network are found but for those of
// lo, of a line between two the near end, and the thread is back in its own network.
func TestAddressesOf(t *testing.T) {
	cmd := exec.Command("sh", "-ec", `
		ip link set lo up
		ip address add 10.9.9.9/32 dev lo
		ip link add one type veth peer name two
		ip address add 10.70.0.2/24 dev one
		ip address add 10.70.1.1 peer 10.70.1.2 dev two
		ip address add fd00::2/64 dev two nodad
		echo ready
		exec cat`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("a network of its own (this test needs root and ip): %v", err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	own := func() string {
		at, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Error(err)
		}
		return at
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := own()
	want := []netip.Addr{netip.MustParseAddr("10.70.0.2"), netip.MustParseAddr("10.70.1.1"), netip.MustParseAddr("fd00::2")}
	for range 20 { // as many threads as come
		all, err := addressesOf(cmd.Process.Pid)
		if got := reachable(all); err != nil || !slices.Equal(got, want) {
			t.Fatalf("addresses are %v (%v), want %v", got, err, want)
		}
	}
	if now := own(); now != before {
		t.Errorf("this thread is in %s, and was in %s", now, before)
	}
	seen := make(chan string)
	go func() { seen <- own() }()
	if now := <-seen; now != before {
		t.Errorf("another thread is in %s, and all were in %s", now, before)
	}
	if all, err := addressesOf(1 << 30); err == nil {
		t.Errorf("a process that does not exist has addresses %v", all)
	}
}
