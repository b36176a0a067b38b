package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/durable"
)

// keyView is a key of this machine as it is printed.
type keyView struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Kept string `json:"kept"` // file, passphrase or gpg
	// People are those whom the rings of this machine name by the key, as
	// "fleet: person".
	People []string `json:"people"`
	Path   string   `json:"path"`
}

func keyNoun() show.Noun[keyView] {
	return show.NounOf[keyView]("name", "name key kept people~ path+", nil)
}

// Command returns hostler key.
func (a *Store) Command() *cobra.Command {
	return term.Group("key", "Keys on this machine that sign approvals",
		a.keyGenerateCommand(), a.keyImportCommand(), a.keyExportCommand(), a.keyListCommand(), a.keyRemoveCommand(), a.keySignCommand())
}

// defaultKey is what a key is called that was given no name.
const defaultKey = "default"

func nameOf(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return defaultKey
}

func (a *Store) keyGenerateCommand() *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use: "generate [NAME]", Short: "Make a key that signs approvals", Args: term.AtMost(1),
		Long: `Makes an OpenPGP key beside the configuration of this program (EdDSA on
Curve25519). On a terminal it asks for a passphrase; an empty one means none.
Elsewhere HOSTLER_PASSPHRASE_FILE names a file with the passphrase, or
--no-passphrase says that there is none. A lost key cannot be made again: keep a
copy of the file, or have two keys.

The key can approve nothing until an owner adds it to the ring: hostler fleet
ring add-approver. To use a key of your own gpg instead: hostler key import --gpg.`,
		Example: "  hostler key generate\n  hostler key generate work --no-passphrase\n  hostler key export >alice.asc    # for the owner",
	}
	cmd.Flags().BoolVar(&open, "no-passphrase", false, "store the key without a passphrase")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name := nameOf(args)
		path, err := a.freeKey(name, secretKey)
		if err != nil {
			return err
		}
		var passphrase []byte
		if !open {
			if passphrase, err = a.newPassphrase(); err != nil {
				return err
			}
		}
		k, err := certs.CreatePersonKey(path, "hostler person "+name, passphrase)
		if errors.Is(err, fs.ErrExist) { // another process has made it meanwhile
			return keyTaken(name)
		}
		if err != nil {
			return term.Cannot("make key "+name, err)
		}
		fmt.Fprintln(a.Out, k.Key())
		a.Say("The key is %s. Keep a copy of it in a safe place.", path)
		a.Say("Next: hostler key export %s, and on the machine of an owner: hostler fleet ring add-approver PERSON FILE --out RING", name)
		return nil
	}
	return cmd
}

// freeKey returns the path for a new key. A name that is taken, in either form,
// stays as it is.
func (a *Store) freeKey(name, form string) (string, error) {
	for _, taken := range []string{secretKey, publicKey} {
		path, err := a.keyPath(name, taken)
		if err != nil {
			return "", err
		}
		if _, err := os.Lstat(path); err == nil {
			return "", keyTaken(name)
		}
	}
	return a.keyPath(name, form)
}

func keyTaken(name string) error {
	return &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("a key %q exists already", name), Next: "hostler key generate OTHER-NAME, or hostler key rm " + name}
}

// newPassphrase asks twice.
func (a *Store) newPassphrase() ([]byte, error) {
	if a.Getenv(passphraseFile) == "" && (!a.InTTY || !a.ErrTTY) {
		return nil, &term.Failure{
			Code: term.ExitRefused, What: "a passphrase is needed", Why: "stdin is not a terminal",
			Next: "add --no-passphrase, or set " + passphraseFile + "=FILE",
		}
	}
	first, err := a.askSecret("Passphrase for the new key (empty for none): ")
	if err != nil || a.Getenv(passphraseFile) != "" || len(first) == 0 {
		return first, err
	}
	again, err := a.askSecret("Passphrase again: ")
	if err == nil && !slices.Equal(first, again) {
		err = &term.Failure{Code: term.ExitRefused, What: "no key was made", Why: "the two passphrases differ"}
	}
	return first, err
}

func (a *Store) keyImportCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use: "import [NAME] {FILE | --gpg USER}", Short: "Note the public half of a key that gpg keeps", Args: term.AtMost(2),
		Long: `Notes a certificate under a name: one from a file (binary, or text as gpg --armor
--export writes it), or that of a user of your own gpg. Its secret half stays
where it is; hostler action approve has gpg sign with it, and gpg asks for the
passphrase or the card. Subkeys that may sign are welcome.`,
		Example: "  hostler key import --gpg alice@example.com\n  hostler key import work alice.asc",
	}
	cmd.Flags().StringVar(&user, "gpg", "", "a user of gpg: a fingerprint, or part of a user id")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		file := ""
		if user == "" {
			if len(args) == 0 {
				return term.Usage(cmd.UseLine(), "no key is named: use a file or --gpg USER")
			}
			file, args = args[len(args)-1], args[:len(args)-1]
		}
		if len(args) > 1 {
			return term.Usage(cmd.UseLine(), "two keys are named, the file %s and --gpg: use one", args[1])
		}
		name := nameOf(args)
		path, err := a.freeKey(name, publicKey)
		if err != nil {
			return err
		}
		k, err := a.certificateFrom(file, user)
		if err != nil {
			return term.Cannot("import the key", err)
		}
		text, err := k.Armor()
		if err == nil {
			err = conn.ReplaceFile(path, []byte(text), 0o600)
		}
		if err != nil {
			return term.Cannot("keep the key", err)
		}
		fmt.Fprintln(a.Out, k.Key())
		a.Say("Next: hostler key export %s, and on the machine of an owner: hostler fleet ring add-approver PERSON FILE --out RING", name)
		return nil
	}
	return cmd
}

// certificateFrom reads a certificate from a file, or from gpg if no file is
// named.
func (a *Store) certificateFrom(file, user string) (*certs.PublicKey, error) {
	if file == "" {
		return a.gpgExport(user)
	}
	return ReadCertificate(file)
}

func (a *Store) keyExportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export [NAME]", Short: "Print the public half of a key", Args: term.AtMost(1),
		Long: `Prints the certificate of a key as text, for the owner who lets its person in,
and for gpg --import. The secret half never leaves its file.`,
		Example: "  hostler key export >alice.asc\n  hostler key export work --out work.asc", ValidArgsFunction: a.CompleteKeys,
	}
	cmd.Flags().StringVar(&out, "out", "", "write to this file")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		k, err := a.keyNamed(nameOf(args))
		if err != nil {
			return err
		}
		text, err := k.Public.Armor()
		if err != nil {
			return term.Cannot("export the key", err)
		}
		if out == "" {
			fmt.Fprint(a.Out, text)
			return nil
		}
		return term.Cannot("write the key", durable.WriteFile(out, []byte(text), 0o644, conn.MaxFile))
	}
	return cmd
}

// keyNamed is loadKey for what a user has typed.
func (a *Store) keyNamed(name string) (PersonKey, error) {
	k, err := a.loadKey(name)
	if errors.Is(err, fs.ErrNotExist) {
		return k, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("this machine has no key %q", name), Next: "hostler key ls, or hostler key generate " + name}
	}
	return k, term.Cannot("read key "+name, err)
}

func (a *Store) keyListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List the keys of this machine", Args: term.NoArgs,
		Long:    "Lists the keys with which this machine can sign approvals, and the person that its rings name for each.",
		Example: "  hostler key ls\n  hostler key ls -o json",
	}
	v := show.ListFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return show.Items(cmd.Context(), a.UI, v, keyNoun(), func(context.Context) ([]keyView, error) {
			all, err := a.Keys()
			if err != nil {
				return nil, err
			}
			views := make([]keyView, len(all))
			for i, k := range all {
				people, err := a.peopleOf(k.Public.Key().String())
				if err != nil {
					return nil, err
				}
				views[i] = keyView{Name: k.Name, Key: k.Public.Key().String(), Kept: k.kept(), People: people, Path: k.path}
			}
			return views, nil
		})
	}
	return cmd
}

// peopleOf tells whom the rings of this machine know by a key.
func (a *Store) peopleOf(key string) ([]string, error) {
	known, err := a.KnownFleets()
	if err != nil {
		return nil, err
	}
	people := []string{}
	for _, name := range known {
		f, err := a.FleetFiles(name)
		if err != nil {
			return nil, err
		}
		chain, err := f.Load()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, term.Cannot("read the rings of fleet "+name, err)
		}
		for _, p := range chain.Ring().People {
			for _, raw := range p.Keys {
				if k, err := certs.ParsePublicKey(raw); err == nil && k.Key().String() == key {
					people = append(people, name+": "+p.Person)
				}
			}
		}
	}
	return people, nil
}

func (a *Store) keyRemoveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm NAME", Short: "Remove a key from this machine", Args: term.Exactly(1),
		Long: `Removes the file of a key. One whose secret half is in it cannot be made again.
The rings that name the key go on doing so: to take its rights away, hostler
fleet ring remove-approver.`,
		Example: "  hostler key rm work --yes", ValidArgsFunction: a.CompleteKeys,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		k, err := a.keyNamed(args[0])
		if err != nil {
			return err
		}
		question := fmt.Sprintf("Forget key %s of gpg?", k.Public.Key())
		if k.secret != nil {
			question = fmt.Sprintf("Remove key %s for good?", k.Public.Key())
		}
		if err := a.Confirm(yes, question); err != nil {
			return err
		}
		if err := os.Remove(k.path); err != nil {
			return term.Cannot("remove key "+k.Name, err)
		}
		a.Say("Key %s is removed.", k.Name)
		people, err := a.peopleOf(k.Public.Key().String())
		for _, p := range people {
			a.Say("The ring still names it (%s); to take its rights away: hostler fleet ring remove-approver PERSON %s", p, k.Public.Key())
		}
		return err
	}
	return cmd
}

// CompleteKeys offers the names of the keys.
func (a *Store) CompleteKeys(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := a.Keys()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return conn.Each(all, func(k PersonKey) string { return k.Name }), cobra.ShellCompDirectiveNoFileComp
}
