package main

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/bridges"
	"github.com/hostler-io/hostler/agent/queue"
)

// mark is the word by which the agent of this state knows its own rules, among those of
// other agents of the machine.
func (s state) mark() string {
	sum := sha256.Sum256([]byte("hostler-mark-1\x00" + string(s)))
	return hex.EncodeToString(sum[:4])
}

// openNetworks gives the agent the networks of this host, nil if it has none, and says what
// they lack.
func (c config) openNetworks(s state, cfg *agent.Config, log *slog.Logger) (nets *bridges.Bridges, missing []string, err error) {
	if c.Network.Bridge == "" {
		return nil, nil, nil
	}
	first := queue.Network{Bridge: c.Network.Bridge, Made: true}
	if first.IPv4, err = c.Network.prefix(); err != nil {
		return nil, nil, err
	}
	if first.IPv6, err = c.Network.prefix6(s); err != nil {
		return nil, nil, err
	}
	nets = bridges.New(bridges.Config{First: first, Mark: s.mark(), NAT: c.Network.NAT, Files: c.names(), Names: c.Network.Names, DHCP: c.Network.DHCP, Log: log})
	cfg.Network = nets
	switch serves, err := nets.Names(); {
	case err != nil:
		log.Warn("containers do not find each other by name", "error", err)
		missing = append(missing, bridges.Feature+": "+err.Error()+"; networks work, and their containers are reached by address")
	case serves:
		cfg.Features = append(cfg.Features, bridges.Feature)
	}
	return nets, missing, nil
}
