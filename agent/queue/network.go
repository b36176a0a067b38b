package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
)

// Network is a network for containers that this host keeps.
type Network struct {
	// Name is empty for the first one, which the configuration of the host describes. That
	// is not remembered.
	Name   string `json:"name"`
	Bridge string `json:"bridge"` // the device
	// IPv4 and IPv6 are the pools of addresses. That of IPv6 may be missing.
	IPv4 netip.Prefix `json:"ipv4"`
	IPv6 netip.Prefix `json:"ipv6,omitzero"`
	VLAN int          `json:"vlan,omitzero"` // the tag by which it is connected; 0 is none
	// Uplink is the device of the host by which the packets with the tag go. Empty: that of
	// the default route.
	Uplink   string `json:"uplink,omitzero"`
	Isolated bool   `json:"isolated,omitzero"`
	// Made tells that its creation was completed.
	Made bool `json:"made,omitzero"`
}

// MaxNetworks is how many are remembered.
const MaxNetworks = 32

// Networks returns those that are remembered, by name.
func Networks(ctx context.Context, q *Queue) ([]Network, error) {
	return view(ctx, q, "reading networks", func(tx txn) (all []Network, err error) {
		var text string
		if err := tx.QueryRow(`SELECT networks FROM self`).Scan(&text); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return nil, fmt.Errorf("what is remembered of networks: %w", err)
		}
		return all, nil
	})
}

func keepNetworks(tx txn, all []Network) error {
	text, err := json.Marshal(append([]Network{}, all...))
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE self SET networks = $1`, string(text))
	return err
}
