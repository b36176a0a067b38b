// Package keyring keeps the keys with which people sign, and signs with them: in
// files, under a passphrase, or with gpg. It has the commands of hostler key.
package keyring

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
)

// Store is the keys of this user.
type Store struct{ *conn.Env }

// New returns the keys of the user of e.
func New(e *conn.Env) *Store { return &Store{e} }

// Command returns hostler key.
func (a *Store) Command() *cobra.Command { return a.keyCommand() }
