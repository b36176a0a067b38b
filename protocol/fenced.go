package protocol

import (
	"errors"
	"fmt"
	"time"
)

// MaxFencedReason bounds what a person says beside a confirmation, in bytes.
const MaxFencedReason = 500

// Fenced is what a person signs to confirm that a host is off, or cut off for good, so
// that what it held may start elsewhere. It counts for one case only: the silence since
// the host was heard last, as one process of the coordinator sees it.
type Fenced struct {
	Type  Type    `json:"hostler"` // always fenced/1
	Fleet FleetID `json:"fleet"`
	Host  HostID  `json:"host"`
	// Case is the digest by which the coordinator knows the silence.
	Case   Digest `json:"case"`
	Reason string `json:"reason"`
	// IssuedMS is when it was signed, in Unix milliseconds, for people.
	IssuedMS int64 `json:"issued_ms"`
	// Ring is the number of the ring that the person held.
	Ring uint64 `json:"ring"`
}

// NewFenced returns what is to be signed by a person who knows that the host is off.
func NewFenced(fleet FleetID, ring uint64, host HostID, of Digest, reason string, issued time.Time) (Fenced, error) {
	f := Fenced{Type: TypeFenced, Fleet: fleet, Host: host, Case: of, Reason: reason, IssuedMS: issued.UnixMilli(), Ring: ring}
	return f, f.check()
}

// Body returns the bytes that are signed, on one line.
func (f Fenced) Body() ([]byte, error) { return documentBody(&f, f.check()) }

// Seal signs a confirmation.
func (f Fenced) Seal(s Signer) ([]byte, error) { return sealBody(s, &f, f.check()) }

func (f *Fenced) check() error {
	if _, err := ParseHostID(string(f.Host)); err != nil {
		return err
	}
	switch {
	case f.Case.IsZero() || f.Ring == 0 || f.IssuedMS < 1:
		return errors.New("case, ring or issued_ms is missing")
	case f.Reason == "" || len(f.Reason) > MaxFencedReason:
		return fmt.Errorf("reason: it has 1 to %d bytes", MaxFencedReason)
	}
	return nil
}

// OpenFenced verifies a confirmation and returns who has signed it. x says fleet and keys;
// the rest of it is not used.
func OpenFenced(raw []byte, x Expect) (Fenced, Principal, error) {
	var f Fenced
	m, err := Open(raw, Expect{Fleet: x.Fleet, FleetName: x.FleetName, Keys: x.Keys, Type: TypeFenced})
	if err != nil {
		return f, Principal{}, err
	}
	if err := m.Decode(&f); err != nil {
		return Fenced{}, m.Principal, err
	}
	return f, m.Principal, nil
}
