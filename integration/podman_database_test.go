//go:build integration

package integration

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestPodmanDatabase: podman's database is damaged, first under its service, which then ends
// as soon as it is started again. The host says what is wrong and lives on with its
// containers of LXC, and once the database is back, so are the containers of podman,
// without a restart of the agent.
func TestPodmanDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, s := w.addPodmanHost(t, "edge-01")
	for name, image := range map[string]string{"pod": podmantest.Image, "idle": podmantest.Image, "lxc": "busybox", "other": "busybox"} {
		w.must(t, "ct", "create", "edge-01/"+name, image)
	}
	w.must(t, "ct", "start", "edge-01/pod")
	w.must(t, "ct", "start", "edge-01/lxc")
	runs := func(c ct) bool { return c.State == "running" }
	w.container(t, "edge-01/pod", "runs", runs)
	pod, err := strconv.Atoi(s.Podman(t, "inspect", "--format", "{{.State.Pid}}", "pod"))
	if err != nil {
		t.Fatal(err)
	}
	lxc, agent, from := h.initPID(t, "lxc"), h.agent.pid(), w.events.mark()
	undisturbed := func() { // what is of LXC, and what runs
		t.Helper()
		w.must(t, "exec", "edge-01/lxc", "--", "true")
		w.must(t, "ct", "start", "edge-01/other")
		w.must(t, "ct", "stop", "edge-01/other", "--now")
		if now := h.initPID(t, "lxc"); now != lxc {
			t.Errorf("the container of LXC runs as %d, and ran as %d", now, lxc)
		}
		if err := syscall.Kill(pod, 0); err != nil {
			t.Errorf("the container of podman: %v", err)
		}
	}
	saysWhy := func(look ...string) {
		t.Helper()
		if f := findings(t, w.must(t, append(look, "-o", "json")...))["host edge-01 podman"]; f.Result != "warning" || !strings.HasPrefix(f.Cause, "podman ") {
			t.Errorf("hostler %s says %+v", strings.Join(look, " "), f)
		}
	}

	path := s.Database(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mend := sync.OnceFunc(func() {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(mend) // or podman removes nothing
	if err := os.WriteFile(path, bytes.Repeat([]byte("damaged "), len(whole)/8), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Try("ps"); err == nil {
		t.Fatal("podman does not mind its damaged database")
	}
	// A service that met the damage may answer nothing any more.
	saysWhy("host", "check", "edge-01")
	undisturbed()

	s.Down(t)
	s.Up(t)
	s.Ends()
	w.container(t, "edge-01/pod", "is unknown", func(c ct) bool { return c.State == "unknown" })
	w.cli(t, "ct", "restart", "edge-01/pod").exits(t, 1, "unavailable", "podman.socket")
	w.cli(t, "exec", "edge-01/pod", "--", "true").exits(t, 125, "unavailable", "podman.socket")
	saysWhy("host", "check", "edge-01")
	saysWhy("doctor", "edge-01")
	undisturbed()

	s.Down(t)
	mend()
	s.Up(t)
	w.container(t, "edge-01/pod", "runs", runs)
	if err := syscall.Kill(pod, 0); err != nil {
		t.Errorf("the container of podman: %v", err)
	}
	w.must(t, "ct", "start", "edge-01/idle")
	w.must(t, "ct", "restart", "edge-01/pod", "--grace", "1s")
	w.must(t, "exec", "edge-01/pod", "--", "true")
	if h.agent.pid() != agent || h.agent.ended() {
		t.Error("the agent is another one")
	}
	for _, e := range w.events.since(from) {
		if e.Type == "host.late" || e.Type == "host.offline" {
			t.Errorf("the host was not online: %+v", e)
		}
	}
}
