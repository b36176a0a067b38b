package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/hostler-io/hostler/agent/hostcmd"
	"github.com/hostler-io/hostler/certs"
)

// sealed is a signature of a host, and what shows that the key is its own.
type sealed struct {
	certs.Voucher
	Sig []byte `json:"sig"`
}

// signing is how this host signs archives of images. It takes those that it has signed
// itself, and those of other hosts of its fleet, which a voucher shows. A host without a
// fleet takes its own alone.
func (s state) signing() (hostcmd.Signing, error) {
	host, err := os.Hostname()
	if err != nil {
		return hostcmd.Signing{}, err
	}
	key, _, err := s.keys(host)
	if err != nil {
		return hostcmd.Signing{}, err
	}
	voucher := certs.Voucher{Key: key.Public()}
	var chain *certs.Chain
	rec, err := s.record()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return hostcmd.Signing{}, err
	}
	if err == nil && rec.Member() {
		m, _, err := s.look(rec, slog.New(slog.DiscardHandler))
		if err != nil {
			return hostcmd.Signing{}, err
		}
		chain, host = m.keys.Chain(), string(rec.Host)
		if voucher, err = m.tls.Vouch(key.PublicKey(), rec.Certificate); err != nil {
			return hostcmd.Signing{}, err
		}
	}
	return hostcmd.Signing{
		Host: host,
		Seal: func(manifest []byte) ([]byte, error) {
			sig, err := key.Sign(manifest)
			if err != nil {
				return nil, err
			}
			return json.Marshal(sealed{voucher, sig})
		},
		Trust: func(manifest, signature []byte) (string, error) {
			var by sealed
			if err := json.Unmarshal(signature, &by); err != nil {
				return "", fmt.Errorf("its signature is in no form that this version knows")
			}
			if bytes.Equal(by.Key, key.Public()) {
				return host, key.PublicKey().Verify(by.Sig, manifest)
			}
			if chain == nil {
				return "", errors.New("this host has not signed it, and is in no fleet, so it knows no other")
			}
			signer, name, err := by.Verify(chain.Roots())
			if err != nil {
				return "", err
			}
			return string(name), signer.Verify(by.Sig, manifest)
		},
	}, nil
}
