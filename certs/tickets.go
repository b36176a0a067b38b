package certs

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
)

// ticketKeys is how many keys are kept: the first one makes tickets, the
// others still open theirs.
const ticketKeys = 3

// TicketKeys are the keys of TLS session tickets, kept in a file, so that after
// a restart ten thousand hosts come back by resumption, for 40 % less CPU.
// They can decrypt connections that were resumed with them, so they
// are to be rotated, once a day. It is safe for concurrent use.
type TicketKeys struct {
	path string
	mu   sync.Mutex // held to rotate
	keys [][32]byte
	// seal holds the keys in the form that TLS takes them, and nothing else.
	// Listeners refer to it: HTTP servers copy their configuration, and keys in
	// a copy would be those of the day on which it was made.
	seal tls.Config
}

// OpenTicketKeys reads the keys from path, or makes the first one there: here a
// lost file loses nothing but resumption.
func OpenTicketKeys(path string) (*TicketKeys, error) {
	b, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		t := &TicketKeys{path: path}
		return t, t.Rotate()
	}
	if err != nil {
		return nil, fmt.Errorf("reading ticket keys %q: %w", path, err)
	}
	if len(b) == 0 || len(b)%32 != 0 || len(b) > 32*ticketKeys {
		return nil, fmt.Errorf("reading ticket keys %q: %d bytes are not 1 to %d keys of 32", path, len(b), ticketKeys)
	}
	t := &TicketKeys{path: path}
	for key := range slices.Chunk(b, 32) {
		t.keys = append(t.keys, [32]byte(key))
	}
	t.seal.SetSessionTicketKeys(t.keys)
	return t, nil
}

// Rotate makes a new key and forgets the oldest, on disk first. Listeners that
// are open follow.
func (t *TicketKeys) Rotate() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails
	keys := slices.Insert(slices.Clone(t.keys), 0, key)
	keys = keys[:min(len(keys), ticketKeys)]
	var b []byte
	for _, k := range keys {
		b = append(b, k[:]...)
	}
	if err := replaceSecret(t.path, b); err != nil {
		return fmt.Errorf("writing ticket keys %q: %w", t.path, err)
	}
	t.keys = keys
	t.seal.SetSessionTicketKeys(keys)
	return nil
}

// RotateAfter rotates if the newest key is at least that old by the wall clock,
// restarts or not, or seems to come from the future.
func (t *TicketKeys) RotateAfter(life time.Duration) error {
	info, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("reading ticket keys %q: %w", t.path, err)
	default:
		if age := clock.Now().Sub(info.ModTime()); age >= 0 && age < life {
			return nil
		}
	}
	return t.Rotate()
}

// use makes c, and whatever is copied from it, use the keys from now on.
func (t *TicketKeys) use(c *tls.Config) {
	c.WrapSession = t.seal.EncryptTicket
	c.UnwrapSession = t.seal.DecryptTicket
}
