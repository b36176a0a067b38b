package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
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

func keyNoun() noun[keyView] {
	return noun[keyView]{
		name: func(k keyView) string { return k.Name },
		columns: []column[keyView]{
			{"name", inTable, func(k keyView) any { return k.Name }},
			{"key", inTable, func(k keyView) any { return k.Key }},
			{"kept", inTable, func(k keyView) any { return k.Kept }},
			{"people", inTable, func(k keyView) any { return k.People }},
			{"path", inWide, func(k keyView) any { return k.Path }},
		},
	}
}

func (a *app) keyCommand() *cobra.Command {
	return group("key", "The keys of this machine that sign approvals",
		a.keyGenerateCommand(), a.keyImportCommand(), a.keyExportCommand(), a.keyListCommand(), a.keyRemoveCommand())
}

// defaultKey is what a key is called that nobody has named.
const defaultKey = "default"

func nameOf(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return defaultKey
}

func (a *app) keyGenerateCommand() *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use: "generate [NAME]", Short: "Make a key that signs approvals", Args: atMost(1),
		Long: `Makes an OpenPGP key beside the configuration of this program (EdDSA on
Curve25519). On a terminal it asks for a passphrase, of which an empty one is
none; elsewhere HOSTLER_PASSPHRASE_FILE names a file with one, or
--no-passphrase says that there is none. Nobody can make the key again: keep a
copy of the file, or have two keys.

The key can approve nothing until an owner has let it in: hostler fleet ring
add-approver. To use a key of your own gpg instead: hostler key import --gpg.`,
		Example: "  hostler key generate\n  hostler key generate work --no-passphrase\n  hostler key export >alice.asc    # for the owner",
	}
	cmd.Flags().BoolVar(&open, "no-passphrase", false, "protect the key by its file's mode alone")
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
		if errors.Is(err, fs.ErrExist) { // somebody else has made it meanwhile
			return keyTaken(name)
		}
		if err != nil {
			return cannot("make key "+name, err)
		}
		fmt.Fprintln(a.out, k.Key())
		a.say("The key is %s. Keep a copy of it in a safe place.", path)
		a.say("Next: hostler key export %s, and on the machine of an owner: hostler fleet ring add-approver PERSON FILE --out RING", name)
		return nil
	}
	return cmd
}

// freeKey returns the path for a new key. A name that is taken, in either form,
// stays as it is.
func (a *app) freeKey(name, form string) (string, error) {
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
	return &failure{code: exitFailed, what: fmt.Sprintf("there is a key %q already", name), next: "hostler key generate OTHER-NAME, or hostler key rm " + name}
}

// newPassphrase asks twice.
func (a *app) newPassphrase() ([]byte, error) {
	if a.env(passphraseFile) == "" && (!a.inTTY || !a.errTTY) {
		return nil, &failure{
			code: exitRefused, what: "nobody was asked for a passphrase", why: "this is no terminal",
			next: "the same with --no-passphrase, or with " + passphraseFile + "=FILE",
		}
	}
	first, err := a.askSecret("Passphrase for the new key (empty for none): ")
	if err != nil || a.env(passphraseFile) != "" || len(first) == 0 {
		return first, err
	}
	again, err := a.askSecret("The same again: ")
	if err == nil && !slices.Equal(first, again) {
		err = &failure{code: exitRefused, what: "no key was made", why: "the two passphrases differ"}
	}
	return first, err
}

func (a *app) keyImportCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use: "import [NAME] {FILE | --gpg USER}", Short: "Note the public half of a key that gpg keeps", Args: atMost(2),
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
				return usage(cmd.UseLine(), "there is no key to import: neither a file nor --gpg USER")
			}
			file, args = args[len(args)-1], args[:len(args)-1]
		}
		if len(args) > 1 {
			return usage(cmd.UseLine(), "there are two keys to import: one in %s and one by --gpg", args[1])
		}
		name := nameOf(args)
		path, err := a.freeKey(name, publicKey)
		if err != nil {
			return err
		}
		k, err := a.certificateFrom(file, user)
		if err != nil {
			return cannot("import the key", err)
		}
		text, err := k.Armor()
		if err == nil {
			err = replaceFile(path, []byte(text), 0o600)
		}
		if err != nil {
			return cannot("keep the key", err)
		}
		fmt.Fprintln(a.out, k.Key())
		a.say("Next: hostler key export %s, and on the machine of an owner: hostler fleet ring add-approver PERSON FILE --out RING", name)
		return nil
	}
	return cmd
}

// certificateFrom reads a certificate from a file, or from gpg if no file is
// named.
func (a *app) certificateFrom(file, user string) (*certs.PublicKey, error) {
	if file == "" {
		return a.gpgExport(user)
	}
	return readCertificate(file)
}

func (a *app) keyExportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export [NAME]", Short: "Print the public half of a key", Args: atMost(1),
		Long: `Prints the certificate of a key as text, for the owner who lets its person in,
and for gpg --import. The secret half never leaves its file.`,
		Example: "  hostler key export >alice.asc\n  hostler key export work --out work.asc", ValidArgsFunction: a.completeKeys,
	}
	cmd.Flags().StringVar(&out, "out", "", "write to this file")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		k, err := a.keyNamed(nameOf(args))
		if err != nil {
			return err
		}
		text, err := k.public.Armor()
		if err != nil {
			return cannot("export the key", err)
		}
		if out == "" {
			fmt.Fprint(a.out, text)
			return nil
		}
		return cannot("write the key", durable.WriteFile(out, []byte(text), 0o644))
	}
	return cmd
}

// keyNamed is loadKey for what a user has typed.
func (a *app) keyNamed(name string) (personKey, error) {
	k, err := a.loadKey(name)
	if errors.Is(err, fs.ErrNotExist) {
		return k, &failure{code: exitNotFound, what: fmt.Sprintf("this machine has no key %q", name), next: "hostler key ls, or hostler key generate " + name}
	}
	return k, cannot("read key "+name, err)
}

func (a *app) keyListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List the keys of this machine", Args: noArgs,
		Long:    "Lists the keys that this machine can sign approvals with, and whom the rings that it keeps know by them.",
		Example: "  hostler key ls\n  hostler key ls -o json",
	}
	v := listFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return show(cmd.Context(), a, v, keyNoun(), func(context.Context) ([]keyView, error) {
			all, err := a.keys()
			if err != nil {
				return nil, err
			}
			views := make([]keyView, len(all))
			for i, k := range all {
				people, err := a.peopleOf(k.public.Key().String())
				if err != nil {
					return nil, err
				}
				views[i] = keyView{Name: k.name, Key: k.public.Key().String(), Kept: k.kept(), People: people, Path: k.path}
			}
			return views, nil
		})
	}
	return cmd
}

// peopleOf tells whom the rings of this machine know by a key.
func (a *app) peopleOf(key string) ([]string, error) {
	known, err := a.knownFleets()
	if err != nil {
		return nil, err
	}
	people := []string{}
	for _, name := range known {
		f, err := a.fleetFiles(name)
		if err != nil {
			return nil, err
		}
		chain, err := f.load()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, cannot("read the rings of fleet "+name, err)
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

func (a *app) keyRemoveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm NAME", Short: "Remove a key from this machine", Args: exactly(1),
		Long: `Removes the file of a key. One whose secret half is in it cannot be made again.
The rings that name the key go on doing so: to take its rights away, hostler
fleet ring remove-approver.`,
		Example: "  hostler key rm work --yes", ValidArgsFunction: a.completeKeys,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		k, err := a.keyNamed(args[0])
		if err != nil {
			return err
		}
		question := fmt.Sprintf("Forget key %s of gpg?", k.public.Key())
		if k.secret != nil {
			question = fmt.Sprintf("Remove key %s for ever?", k.public.Key())
		}
		if err := a.confirm(yes, question); err != nil {
			return err
		}
		if err := os.Remove(k.path); err != nil {
			return cannot("remove key "+k.name, err)
		}
		a.say("Key %s is removed.", k.name)
		people, err := a.peopleOf(k.public.Key().String())
		for _, p := range people {
			a.say("The ring still names it (%s); to take its rights away: hostler fleet ring remove-approver PERSON %s", p, k.public.Key())
		}
		return err
	}
	return cmd
}

func (a *app) completeKeys(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := a.keys()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names(all, func(k personKey) string { return k.name }), cobra.ShellCompDirectiveNoFileComp
}
