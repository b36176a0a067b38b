// Package run runs commands on hosts and in containers, as sessions on this terminal
// or without one: hostler run, exec and attach, and the replay of recorded sessions.
package run

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/batch"
)

type commands struct{ *batch.Batcher }

// Commands returns hostler run, exec and attach.
func Commands(b *batch.Batcher) []*cobra.Command {
	a := &commands{b}
	return []*cobra.Command{a.runCommand(), a.execCommand(), a.attachCommand()}
}

// OfActions returns the commands of hostler action that are about sessions: attach
// and replay.
func OfActions(b *batch.Batcher) []*cobra.Command {
	a := &commands{b}
	return []*cobra.Command{a.actionAttachCommand(), a.replayCommand()}
}
