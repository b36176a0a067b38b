package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/terminal"
)

// window is a console on which nothing happens.
type window struct{}

func (window) Raw() (func(), error) { return func() {}, nil }

func (window) Size() (terminal.Size, error) { return terminal.Size{Rows: 24, Cols: 80}, nil }

func (window) Resized() (<-chan os.Signal, func()) { return nil, func() {} }

// TestAttachWaits attaches to a host that is away: it is told what is waited for, and
// no session is called lost that has never begun.
func TestAttachWaits(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, true, "")
	c.app.Console = window{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- c.run(ctx, "attach", "edge-02") }()
	c.until(t, "waiting for edge-02 to begin the session: its host has not been seen since the coordinator started\n")
	s.setDown(true)
	c.until(t, "hostler: no answer, trying again")
	s.setDown(false)
	c.until(t, "connected again")
	cancel()
	if got := <-code; got != term.ExitInterrupted || !strings.Contains(c.shown(), "it has not started; to end it: hostler action cancel ") {
		t.Errorf("code %d", got)
	}
	if strings.Contains(c.shown(), "is lost") || strings.Count(c.shown(), "again") != 2 {
		t.Errorf("it says\n%s", c.shown())
	}
}
