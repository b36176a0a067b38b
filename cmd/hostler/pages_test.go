package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/pagetest"
)

// fresh are all commands.
func fresh() *cobra.Command {
	return root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }}))
}

// TestPagesShowCommandsThatThereAre parses what pages show. Transcripts are run, beside.
func TestPagesShowCommandsThatThereAre(t *testing.T) {
	pagetest.Check(t, "hostler", fresh, 600)
}

// TestTakenRefuses holds the look at lines to some that no command takes.
func TestTakenRefuses(t *testing.T) {
	for line, good := range map[string]bool{
		"hostler host fence edge-07 --reason 'hangs, seen on its console'   # why": true,
		"hostler host fence edge-07 --reason hangs, seen":                          false,
		"hostler host drain edge-01 --reason \"new disks":                          false,
		"hostler run edge-01 --timeout 30m -- apt-get -y upgrade | tail":           true,
		"hostler run edge-01 --timeout soon -- true":                               false,
		"hostler action approve $(hostler action ls --pending -o name) --yes":      true,
		"hostler host show":            false,
		"hostler host show a b":        false,
		"hostler image copy a b":       false,
		"hostler image copy a b c":     true,
		"hostler host show a --nosuch": false,
	} {
		if err := pagetest.Taken(fresh(), line); (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}
