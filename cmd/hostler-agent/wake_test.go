package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
)

// TestWake: a process that stops itself goes on at the end, though one of the two that
// wake it was killed.
func TestWake(t *testing.T) {
	agent := filepath.Join(newSite(t).bin, "hostler-agent")
	end := clock.BootMS() + (1500 * time.Millisecond).Milliseconds()
	const script = `"$0" wake $$ $1 & first=$!
"$0" wake $$ $1 &
kill -9 $first; kill -STOP $$; echo awake`
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, agent, strconv.FormatInt(end, 10))
	cmd.WaitDelay = time.Second // a waker that is left over holds no output
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if now := clock.BootMS(); now < end {
		t.Errorf("it went on %d ms before the end", end-now)
	}
	if got := strings.TrimLeft(string(out), "\n"); got != "awake\n" {
		t.Errorf("printed %q", got)
	}
	if err := exec.CommandContext(t.Context(), agent, "wake", "1", "1").Run(); err == nil {
		t.Error("it wakes a process that has not started it")
	}
}
