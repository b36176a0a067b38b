package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"sync"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/protocol/port"
)

// bridge is the agent's network: it is made when somebody needs it.
type bridge struct {
	name   string
	subnet netip.Prefix
	mark   string
	nat    bool

	mu      sync.Mutex
	exposed []containers.Exposed // as they were last applied
}

func newBridge(c networkConfig, s state) (*bridge, error) {
	subnet, err := c.prefix()
	return &bridge{name: c.Bridge, subnet: subnet, mark: s.mark(), nat: c.NAT}, err
}

// mark is the word by which the agent of this state knows its own rules, among those of
// other agents of the machine.
func (s state) mark() string {
	sum := sha256.Sum256([]byte("hostler-mark-1\x00" + string(s)))
	return hex.EncodeToString(sum[:4])
}

// Ensure implements [containers.Network].
func (b *bridge) Ensure(context.Context) (string, netip.Prefix, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.ensure()
	if err == nil && len(b.exposed) > 0 {
		// A bridge that is new lacks what ports need of it. If that does not work, the next
		// Apply tells, and nothing keeps a container from its start.
		_ = b.apply()
	}
	return b.name, b.subnet, err
}

func (b *bridge) ensure() error {
	return network.EnsureBridge(network.BridgeConfig{Name: b.name, Address: container.Gateway(b.subnet)})
}

// Apply implements [containers.Network].
func (b *bridge) Apply(_ context.Context, all []containers.Exposed) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.exposed = all
	sweepShapers()
	if len(all) > 0 {
		if err := b.ensure(); err != nil {
			return err
		}
	}
	return b.apply()
}

// sweepShapers removes the devices of limits that containers have left which ended. One
// that cannot be removed harms nothing, and is tried again.
func sweepShapers() {
	gone, err := network.Shapers()
	if err != nil {
		return
	}
	for _, name := range gone {
		_ = network.RemoveShaper(name)
	}
}

func (b *bridge) apply() error {
	r := network.Rules{Mark: b.mark, Subnets: []network.Subnet{{Bridge: b.name, Network: b.subnet, NAT: b.nat}}}
	for _, e := range b.exposed {
		r.Ports = append(r.Ports, network.Port{
			Owner: e.CTID.String(), Protocol: e.Port.Protocol, Host: e.Port.Host, Container: e.Port.Container, Address: e.Address, Bridge: b.name,
		})
	}
	return network.Apply(r)
}

// Listener implements [containers.Network].
func (b *bridge) Listener(m port.Mapping) (string, error) {
	return network.Listener(m.Protocol, m.Host)
}
