package enrol

import (
	"encoding/json"
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// Offer is what a host tells about itself before it is trusted. It is
// shown to the person who approves, and believed by nobody else. The host
// makes its bytes once, by [Offer.Encode]: everything is computed over them.
type Offer struct {
	Type         string          `json:"hostler"`         // always OfferType
	Hostname     string          `json:"hostname"`        // as the system has it
	Host         protocol.HostID `json:"host"`            // the id it wants
	Key          []byte          `json:"key"`             // OpenPGP certificate, binary
	CSR          []byte          `json:"csr"`             // TLS certificate request, DER
	Architecture string          `json:"arch"`            // as Go names it
	Version      string          `json:"version"`         // of the agent
	Boot         string          `json:"boot"`            // the boot that it runs in
	Interfaces   []Interface     `json:"interfaces"`      // at most MaxInterfaces
	Containers   []Container     `json:"containers"`      // at most MaxContainers
	Total        int             `json:"total"`           // how many containers there are in all
	Capacity     Capacity        `json:"capacity"`        // what the host has
	Labels       []string        `json:"labels,omitzero"` // K=V, wishes that the operator may follow
}

// OfferType is the first member of every offer.
const OfferType = "offer/1"

// Limits of an offer.
const (
	MaxInterfaces = 64
	MaxContainers = 64 // what is beyond is in Total alone
	MaxLabels     = 64
	maxText       = 256 // bytes of any one text
)

// Interface is a network interface of the host.
type Interface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitzero"`
	Addresses []string `json:"addresses,omitzero"` // with prefix length
}

// Container is a container that the host already has.
type Container struct {
	Name    string `json:"name"`
	Runtime string `json:"runtime"`
	Running bool   `json:"running"`
}

// Capacity is what a host has in all.
type Capacity struct {
	CPUs   int   `json:"cpus"`
	Memory int64 `json:"memory"` // bytes
	Disk   int64 `json:"disk"`   // bytes, of the file system that holds the agent's state
}

// Encode fixes the bytes of an offer. It fails on one that [DecodeOffer] would
// refuse.
func (o Offer) Encode() ([]byte, error) {
	o.Type = OfferType
	o.Interfaces, o.Containers = nonNil(o.Interfaces), nonNil(o.Containers)
	b, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOffer, err)
	}
	if _, err := DecodeOffer(b); err != nil {
		return nil, err
	}
	return b, nil
}

// nonNil keeps null, which the protocol does not have, out of an encoding.
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// DecodeOffer reads an offer and checks all its sizes. Key and certificate
// request are not looked into.
func DecodeOffer(b []byte) (Offer, error) {
	var o Offer
	if len(b) > MaxOffer {
		return o, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrOffer, len(b), MaxOffer)
	}
	if err := protocol.DecodeJSON(b, &o, false); err != nil {
		return Offer{}, fmt.Errorf("%w: %w", ErrOffer, err)
	}
	if err := o.check(); err != nil {
		return Offer{}, fmt.Errorf("%w: %w", ErrOffer, err)
	}
	return o, nil
}

func (o Offer) check() error {
	switch {
	case o.Type != OfferType:
		return fmt.Errorf("it is %.40q, want %q", o.Type, OfferType)
	case o.Host == "" || o.Hostname == "" || o.Architecture == "" || o.Version == "" || o.Boot == "":
		return fmt.Errorf("a host has an id, a name, an architecture, a version and a boot")
	case len(o.Key) == 0 || len(o.CSR) == 0:
		return fmt.Errorf("it has no key or no certificate request")
	case len(o.Interfaces) > MaxInterfaces || len(o.Containers) > MaxContainers || len(o.Labels) > MaxLabels:
		return fmt.Errorf("it has too many interfaces, containers or labels")
	case o.Total < len(o.Containers) || o.Capacity.CPUs < 0 || o.Capacity.Memory < 0 || o.Capacity.Disk < 0:
		return fmt.Errorf("its numbers contradict each other")
	}
	texts := append([]string{o.Hostname, o.Architecture, o.Version, o.Boot}, o.Labels...)
	for _, i := range o.Interfaces {
		texts = append(append(texts, i.Name, i.MAC), i.Addresses...)
	}
	for _, c := range o.Containers {
		texts = append(texts, c.Name, c.Runtime)
	}
	for _, t := range texts {
		if len(t) > maxText || !printable(t) {
			return fmt.Errorf("text %.80q is too long or has characters that a screen would not show", t)
		}
	}
	return nil
}

// printable refuses what could repaint the screen on which a person decides.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
