package fleet

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

func (a *commands) addReleaseKeyCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "add-release-key NAME KEY", Short: "Let a key sign packages that hosts install",
		Long: `Has hosts install packages of Hostler that the key has signed, when hostler host
upgrade asks them to. NAME is for people: who makes those packages. KEY is a file
with a certificate (binary, or text as hostler key export and gpg --armor --export
write it), or the name of a key of this machine. The key can sign nothing else.
A person who has it is root on every host: keep it apart.

Hosts with version 0.1.0 or older cannot read such a ring. Upgrade them by their
packages first.`,
		Example: "  hostler fleet ring add-release-key releases releases.asc --out ring-6\n  hostler fleet ring publish",
	}, term.Exactly(2), func(r *certs.Ring, args []string) error {
		k, err := a.keys.FindKey(args[1])
		if err != nil {
			return term.Cannot("read key "+args[1], err)
		}
		return r.AddReleaseKey(args[0], k.Public)
	})
}

func (a *commands) removeReleaseKeyCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "remove-release-key KEY", Short: "Take the right to sign packages from a key",
		Long: `As soon as a host has the ring, it installs no package of that key any more. KEY is
its fingerprint, as shown by hostler fleet ring show.`,
		Example: "  hostler fleet ring remove-release-key 7C1F…0A44 --out ring-7",
	}, term.Exactly(1), func(r *certs.Ring, args []string) error {
		var key protocol.KeyID
		if err := key.UnmarshalText([]byte(args[0])); err != nil {
			return term.Usage("hostler fleet ring show", "%.80q is not the fingerprint of a key: %s", args[0], err)
		}
		return r.RemoveReleaseKey(key)
	})
}
