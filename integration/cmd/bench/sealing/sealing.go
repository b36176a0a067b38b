// Package sealing takes what a signed message costs, without anything around it.
package sealing

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

// Report is a report of 1 KiB on its way from a host to the coordinator. It is not for
// concurrent use.
type Report struct {
	host   *certs.Identity
	body   []byte
	expect protocol.Expect
}

// New makes a report of a host of a fleet, and the key that signs it.
func New(fleet protocol.FleetName, host protocol.HostID) (*Report, error) {
	id, err := certs.Generate("hostler bench", time.Now())
	if err != nil {
		return nil, err
	}
	s := &Report{host: id}
	header := protocol.Header{
		Type: protocol.TypeReport, From: protocol.HostParty(host), To: protocol.Coordinator,
		Ring: 1, Stream: protocol.StreamReport, N: 1,
	}
	for _, b := range [][]byte{header.Fleet[:], header.Store[:]} {
		if _, err := rand.Read(b); err != nil {
			return nil, err
		}
	}
	for len(s.body) < 1024 {
		header.Item = append(header.Item, 'x')
		if s.body, err = json.Marshal(header); err != nil {
			return nil, err
		}
	}
	s.expect = protocol.Expect{
		Fleet: header.Fleet, FleetName: fleet, Self: protocol.Coordinator, Ring: 1,
		Topic: protocol.HostTopic(fleet, host, protocol.ChannelReport).String(),
		Keys:  oneHost{host, id}, Fresh: noMemory{},
	}
	return s, nil
}

// Once seals and opens the report.
func (s *Report) Once() error {
	raw, err := protocol.Seal(s.host, s.body, nil)
	if err != nil {
		return err
	}
	m, err := protocol.Open(raw, s.expect)
	if err != nil {
		return err
	}
	if !bytes.Equal(m.Body, s.body) {
		return fmt.Errorf("opened %d bytes that were not sealed", len(m.Body))
	}
	return nil
}

// oneHost knows the key of one host.
type oneHost struct {
	name protocol.HostID
	id   *certs.Identity
}

// Principal implements protocol.Keyring.
func (o oneHost) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	return protocol.Principal{Roles: []protocol.Role{protocol.RoleHost}, Host: o.name, Key: o.id.PublicKey()}, k == o.id.Key()
}

// noMemory finds every message new, so that one can be opened again and again.
type noMemory struct{}

// Fresh implements protocol.Freshness.
func (noMemory) Fresh(protocol.Topic, *protocol.Header) error { return nil }

// Term implements protocol.Freshness.
func (noMemory) Term(*protocol.Header) error { return nil }
