package fleet

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// An approver is added and removed by a ring of its own, as everybody is; what
// differs from a coordinator and an owner is that nothing is printed on another
// machine but a certificate, which is public.

func (a *commands) addApproverCommand() *cobra.Command {
	return a.ringPeopleCommand(&cobra.Command{
		Use: "add-approver PERSON KEY…", Short: "Add an approver, or keys of one, to the ring",
		Long: `Lets a person sign approvals with keys. KEY is a file with a certificate (binary,
or text as hostler key export and gpg --armor --export write it), or the name of
a key of this machine. A known key is replaced by its new form. Where several people must approve, the
keys of one person count as one.`,
		Example: "  hostler fleet ring add-approver alice alice.asc --out ring-4\n  hostler fleet ring publish",
	}, term.AtLeast(2), func(args []string) (ringChange, error) {
		var keys []*certs.PublicKey
		for _, arg := range args[1:] {
			k, err := a.keys.FindKey(arg)
			if err != nil {
				return nil, term.Cannot("read key "+arg, err)
			}
			keys = append(keys, k.Public)
		}
		return func(r *certs.Ring) error {
			for _, k := range keys {
				if err := r.AddPersonKey(args[0], k); err != nil {
					return err
				}
			}
			return nil
		}, nil
	})
}

func (a *commands) removeApproverCommand() *cobra.Command {
	return a.ringPeopleCommand(&cobra.Command{
		Use: "remove-approver PERSON [KEY…]", Short: "Remove an approver, or keys of one, from the ring",
		Long: `Takes the right to approve from a person, or from keys of one, named by their
fingerprints. As soon as a host has the ring, approvals by those keys count for
nothing any more, also those that were signed before.`,
		Example: "  hostler fleet ring remove-approver alice --out ring-5\n  hostler fleet ring remove-approver alice 7C1F…0A44 --out ring-5",
	}, term.AtLeast(1), func(args []string) (ringChange, error) {
		keys := make([]protocol.KeyID, len(args)-1)
		for i, arg := range args[1:] {
			if err := keys[i].UnmarshalText([]byte(arg)); err != nil {
				return nil, term.Usage("hostler fleet ring show", "%.80q is not the fingerprint of a key: %s", arg, err)
			}
		}
		return func(r *certs.Ring) error { return r.RemovePerson(args[0], keys...) }, nil
	})
}

// ringPeopleCommand is a command that signs the next ring, and takes a person
// and keys.
func (a *commands) ringPeopleCommand(cmd *cobra.Command, count cobra.PositionalArgs, change func(args []string) (ringChange, error)) *cobra.Command {
	fleet := a.FleetFlag(cmd)
	var out string
	cmd.Args = count
	cmd.Long += howRingsAreSigned
	cmd.Flags().StringVar(&out, "out", "", "write the rings to this file")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if out == "" {
			return term.Usage("add --out FILE", "--out is missing: the ring must be written to a file")
		}
		c, err := change(args)
		if err != nil {
			return err
		}
		f, chain, err := a.ChooseFleet(*fleet)
		if err != nil {
			return err
		}
		return term.Cannot("change the ring", a.changeRing(f, chain, out, c))
	}
	return cmd
}
