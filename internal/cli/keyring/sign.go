package keyring

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// maxSigned is the largest file that is signed, in bytes: it is read as a whole.
const maxSigned = 256 << 20

func (a *Store) keySignCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "sign FILE…", Short: "Sign packages, each beside itself", Args: term.AtLeast(1),
		Long: `Writes FILE.sig, an OpenPGP signature over each file, as gpg --detach-sign does. A
package so signed is installed by hosts whose ring names the key as a release key:
hostler host upgrade.`,
		Example: "  hostler key sign hostler-agent_0.2.0_amd64.deb --key releases",
	}
	cmd.Flags().StringVar(&key, "key", defaultKey, "the key of this machine that signs")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		k, err := a.keyNamed(key)
		if err != nil {
			return err
		}
		s, err := a.Signer(k)
		if err != nil {
			return term.Cannot("sign with key "+key, err)
		}
		for _, file := range args {
			if err := signFile(s, file); err != nil {
				return term.Cannot("sign "+file, err)
			}
			fmt.Fprintln(a.Out, file+".sig")
		}
		return nil
	}
	return cmd
}

func signFile(s interface{ Sign([]byte) ([]byte, error) }, file string) error {
	i, err := os.Stat(file)
	if err != nil {
		return err
	}
	if i.Size() > maxSigned {
		return fmt.Errorf("it has %d bytes, at most %d are signed", i.Size(), maxSigned)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sig, err := s.Sign(b)
	if err != nil {
		return err
	}
	return conn.ReplaceFile(file+".sig", sig, 0o644)
}
