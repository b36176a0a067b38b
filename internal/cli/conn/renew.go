package conn

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/term"
)

const (
	// maxRings bounds the rings of a fleet that are fetched, in bytes.
	maxRings = 16 << 20
	// ringsTime bounds how long fetching them may take.
	ringsTime = 30 * time.Second
)

// ServedRings fetches the rings that a server shows. Any server will do: rings
// authenticate themselves, and nothing secret is sent.
func ServedRings(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, ringsTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/v1/rings", nil)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{TLSClientConfig: certs.StrangerTLS(), DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrUnreachable, err)
	}
	defer resp.Body.Close()
	served, err := io.ReadAll(io.LimitReader(resp.Body, maxRings+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrUnreachable, err)
	}
	if resp.StatusCode != http.StatusOK || len(served) > maxRings {
		return nil, fmt.Errorf("status %d, %d bytes: this is no answer of a coordinator", resp.StatusCode, len(served))
	}
	return served, nil
}

// renewal returns what follows the owners of a target's fleet to its next coordinator,
// which may have another authority: by the rings that this machine keeps, and those
// that the server shows, if they lead on from these. The context in use then trusts the
// new authority. It is nil where no fleet is known.
func (a *Env) renewal(t Target) func(*x509.Certificate) ([]byte, error) {
	if t.Fleet == "" || a.CAFile != "" { // the user names the authority
		return nil
	}
	return func(shown *x509.Certificate) ([]byte, error) {
		f, err := a.FleetFiles(t.Fleet)
		if err != nil {
			return nil, err
		}
		chain, err := f.Load()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the certificate is not of the authority that this machine trusts, and it keeps no rings of fleet %s by which it could follow", t.Fleet)
		}
		if err != nil {
			return nil, err
		}
		ca := signerOf(shown, chain)
		if ca == nil {
			served, err := ServedRings(context.Background(), t.Address) // a handshake has no context
			if err != nil {
				return nil, err
			}
			if chain, err = chain.Advance(bytes.TrimRight(served, "\n")); err != nil {
				return nil, fmt.Errorf("the server shows rings that do not follow from those of fleet %s on this machine: %w", t.Fleet, err)
			}
			if ca = signerOf(shown, chain); ca == nil {
				return nil, fmt.Errorf("ring %d of fleet %s, the newest that this machine and the server have, names no coordinator with this certificate", chain.Ring().Number, t.Fleet)
			}
			if err := f.Save(chain); err != nil {
				return nil, err
			}
		}
		a.Say("hostler: the coordinator has another certificate authority; ring %d of fleet %s, signed by its owners, names it", chain.Ring().Number, t.Fleet)
		return ca, a.trustFrom(t.name, EncodeCA(ca))
	}
}

// signerOf is the authority of a coordinator in the newest ring that has signed a
// certificate; nil if none has.
func signerOf(shown *x509.Certificate, chain *certs.Chain) []byte {
	for _, der := range Authorities(chain) {
		if ca, err := x509.ParseCertificate(der); err == nil && shown.CheckSignatureFrom(ca) == nil {
			return der
		}
	}
	return nil
}

// trustFrom writes the authority that a context trusts from now on, if it trusts one.
func (a *Env) trustFrom(contextName, ca string) error {
	c, err := a.LoadConfig()
	if err != nil {
		return err
	}
	t, ok := c.Contexts[contextName]
	if !ok || t.CA == "" {
		return nil
	}
	t.CA = ca
	return term.Cannot("keep the authority in context "+contextName, a.SaveConfig(c))
}
