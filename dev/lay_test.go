//go:build linux

package dev

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/network"
)

// executions is how often a child of a test is to execute itself anew.
const executions = "HOSTLER_TEST_EXECUTIONS"

func TestMain(m *testing.M) {
	if left, ok := os.LookupEnv(executions); ok {
		executeAgain(left)
	}
	os.Exit(m.Run())
}

// executeAgain executes this program from a thread that is not its first one, and does not
// return.
func executeAgain(left string) {
	n, err := strconv.Atoi(left)
	if err == nil && n > 0 {
		done := make(chan error)
		run := func() { done <- unix.Exec("/proc/self/exe", os.Args, []string{fmt.Sprintf("%s=%d", executions, n-1)}) }
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			go func() {
				runtime.LockOSThread()
				run()
			}()
		} else {
			go run()
		}
		err = <-done
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestLay: process 1 of a host is connected while it executes itself anew.
func TestLay(t *testing.T) {
	cable := network.Cable{Name: fmt.Sprintf("hdl%d", os.Getpid()), Bridge: fmt.Sprintf("hdb%d", os.Getpid()), Peer: uplink}
	if err := network.EnsureBridge(network.BridgeConfig{Name: cable.Bridge, Address: netip.MustParsePrefix("10.209.255.1/30")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.RemoveBridge(cable.Bridge); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{executions + "=200"}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	cable.PID = cmd.Process.Pid
	for range 300 {
		if err := lay(cable); err != nil {
			t.Error(err)
			break
		}
		if err := network.RemoveCable(cable.Name); err != nil {
			t.Fatal(err)
		}
	}
	if ended(cable.PID) {
		t.Error("the child has ended too early")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := lay(cable); err == nil {
		t.Error("a process that has ended was connected")
	}
}
