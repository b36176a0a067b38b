package lxc_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner/runnertest"
)

// TestMain lets the test binary stand in for hostler-lxc: under the name
// helper-<mode>, to which tests link it, it does what a broken helper would.
func TestMain(m *testing.M) {
	if mode, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "helper-"); ok {
		os.Exit(brokenHelper(mode))
	}
	if len(os.Args) == 3 && os.Args[1] == watcherArg {
		os.Exit(watchForEver(os.Args[2]))
	}
	os.Exit(runnertest.Main(m, os.Args))
}

// testLog writes to the test's own output.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// watcherArg makes the test binary be an agent that watches the directory of its
// second argument and is killed: it writes one line when it is ready.
const watcherArg = "lxctest-watcher"

func watchForEver(lxcPath string) int {
	r, err := lxc.New(lxc.Config{Helper: "/unused", LXCPath: lxcPath, LockDir: "/unused"})
	if err == nil {
		err = r.Watch(context.Background(), func() { fmt.Println("ready") }, func(container.Event) {})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func brokenHelper(mode string) int {
	switch mode {
	case "hang":
		// A descendant hangs as well and holds the same pipes.
		child := exec.Command("/proc/self/exe")
		child.Args = []string{"helper-wait"}
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return 1
		}
		select {}
	case "wait":
		select {}
	case "flood":
		w := bufio.NewWriter(os.Stdout)
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
				return 1
			}
		}
	case "garbage":
		fmt.Println("Segmentation fault")
		return 0
	case "crash":
		fmt.Fprintln(os.Stderr, "liblxc: out of cheese")
		return 1
	case "killed":
		if p, err := os.FindProcess(os.Getpid()); err != nil || p.Kill() != nil {
			return 1
		}
		select {}
	case "unlinked":
		fmt.Fprintln(os.Stderr, "hostler-lxc: error while loading shared libraries: liblxc.so.1: cannot open shared object file: No such file or directory")
		return 127
	case "newer":
		fmt.Printf(`{"Version":%d,"Novelty":1}`, wire.Version+1)
		return 0
	case "busy":
		fmt.Printf(`{"Version":%d,"Code":"busy","Reason":"container busy: another operation holds it"}`, wire.Version)
		return 0
	case "starter":
		return starter()
	case "echo":
		req, err := wire.ReadRequest(bufio.NewReader(os.Stdin))
		if err != nil {
			return 1
		}
		fmt.Printf(`{"Version":%d,"Liblxc":%q}`, wire.Version, fmt.Sprintf("%s %v %q PATH=%t HOME=%q", os.Args[1], req.Timeout > 0, req.LXCPath, os.Getenv("PATH") != "", os.Getenv("HOME")))
		return 0
	}
	return 2
}

// starter starts whatever it is asked to, and tells its own number as that of the init. It
// dies of "fatal", hangs in "slow", and is not fit for more after "last".
func starter() int {
	for requests := bufio.NewReader(os.Stdin); ; {
		req, err := wire.ReadRequest(requests)
		if err != nil {
			return 0
		}
		switch req.Name {
		case "fatal":
			return brokenHelper("killed")
		case "slow":
			select {}
		}
		fmt.Printf(`{"Version":%d,"More":%t,"Infos":[{"Name":%q,"Kind":"lxc","State":"running","InitPID":%d}]}`+"\n", wire.Version, req.Name != "last", req.Name, os.Getpid())
		if req.Name == "last" {
			return 0
		}
	}
}
