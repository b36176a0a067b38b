package containers

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/protocol"
)

func (a *commands) ctFreezeCommand() *cobra.Command {
	return a.onManyContainers(&cobra.Command{
		Use: "freeze {HOST/NAME | -l SELECTOR}", SuggestFor: []string{"pause"}, Short: "Keep the processes of a container from running for a while",
		Long: `Keeps all processes of a running container from running. They keep their memory and
their connections, and go on where they were after unfreeze, or start. Commands
cannot be run in it meanwhile. After a reboot of the host it runs: frozen is not a
state that is kept.`,
		Example: "  hostler ct freeze edge-01/web\n  hostler ct freeze -l app=web",
	}, "freeze", "frozen", func(string) (protocol.Spec, error) {
		return protocol.Spec{Kind: protocol.KindFreeze}, nil
	})
}

func (a *commands) ctUnfreezeCommand() *cobra.Command {
	return a.onManyContainers(&cobra.Command{
		Use: "unfreeze {HOST/NAME | -l SELECTOR}", SuggestFor: []string{"unpause"}, Short: "Let the processes of a frozen container run again",
		Example: "  hostler ct unfreeze edge-01/web\n  hostler ct unfreeze -l app=web",
	}, "unfreeze", "unfrozen", func(string) (protocol.Spec, error) {
		return protocol.Spec{Kind: protocol.KindUnfreeze}, nil
	})
}
