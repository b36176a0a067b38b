// Package mirror publishes what is known of hosts as plain JSON, for tools that cannot
// unwrap envelopes. Nothing of it is signed, so nothing may act upon it; it is off
// unless the configuration asks for it.
package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Pauses of the mirror: it follows events, but not each of many for itself, and it
// looks without one because heartbeats are none. After again all of it is published
// anew: the broker may have begun anew.
const (
	pause = 5 * time.Second
	look  = 15 * time.Second
	again = 5 * time.Minute
)

// maxPlain bounds a message, as it does retained documents.
const maxPlain = protocol.MaxDocument

// Hosts knows which hosts are there. It is safe for concurrent use.
type Hosts interface {
	Presence(protocol.HostID) core.Presence
}

// Room is the mirror.
type Room struct {
	base  *core.Base
	hosts Hosts
	// What is published, by topic. It belongs to Run.
	published map[string]protocol.Digest
}

// New returns a mirror that has published nothing.
func New(base *core.Base, hosts Hosts) *Room {
	return &Room{base: base, hosts: hosts, published: make(map[string]protocol.Digest)}
}

// State is the message of the topic state.
type State struct {
	Unsigned     bool     `json:"unsigned"` // always true: this message has no signature
	Host         string   `json:"host"`
	Connectivity string   `json:"connectivity"`
	Labels       []string `json:"labels"`
	Version      string   `json:"version"`
	Containers   int      `json:"containers"`
	Running      int      `json:"running"`
	Alerts       int      `json:"alerts"`
	LoadMilli    int64    `json:"load1_milli"`
	MemoryBytes  int64    `json:"memory_bytes"`
	MemoryFree   int64    `json:"memory_free_bytes"`
	DiskBytes    int64    `json:"disk_bytes"`
	DiskFree     int64    `json:"disk_free_bytes"`
	ToldAtMS     int64    `json:"told_at_ms"` // when the host told its inventory
}

// Containers is the message of the topic containers.
type Containers struct {
	Unsigned   bool                 `json:"unsigned"`
	Host       string               `json:"host"`
	Containers []protocol.Container `json:"containers"`
}

// Alerts is the message of the topic alerts.
type Alerts struct {
	Unsigned bool                 `json:"unsigned"`
	Host     string               `json:"host"`
	Alerts   []protocol.AlertInfo `json:"alerts"`
}

// Run publishes what changes until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	fresh := time.NewTicker(again)
	defer fresh.Stop()
	for {
		changed, forget := r.base.Wake.On(core.EventsKey{})
		if err := r.publish(ctx); err != nil && ctx.Err() == nil {
			r.base.Log.ErrorContext(ctx, "cannot mirror the hosts; it is tried again", "err", err)
		}
		if !wait(ctx, pause, nil) {
			forget()
			return nil
		}
		ok := wait(ctx, look, changed)
		forget()
		if !ok {
			return nil
		}
		select {
		case <-fresh.C:
			clear(r.published)
		default:
		}
	}
}

// wait waits for a time, or less if changed is closed. It reports false when ctx ended.
func wait(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-t.C:
	}
	return true
}

func (r *Room) publish(ctx context.Context) error {
	var hosts []core.Host
	err := r.base.View(ctx, func(tx core.Tx) error {
		hosts = nil
		return core.EachHost(tx, func(h core.Host) error {
			hosts = append(hosts, h)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("read the hosts: %w", err)
	}
	there := make(map[string]bool)
	for _, h := range hosts {
		if h.State != core.HostApproved {
			continue
		}
		for what, body := range r.messages(h) {
			topic := protocol.PlainTopic(r.base.FleetName, h.ID, what)
			there[topic] = true
			if err := r.put(topic, body); err != nil {
				return err
			}
		}
	}
	for topic := range r.published {
		if !there[topic] {
			r.send(topic, nil) // an empty one removes what is retained
			delete(r.published, topic)
		}
	}
	return nil
}

// messages are what is published of a host.
func (r *Room) messages(h core.Host) map[string]any {
	i := h.Inventory
	running := 0
	for _, c := range i.Containers {
		if c.State == "running" {
			running++
		}
	}
	return map[string]any{
		"state": State{
			Unsigned: true, Host: string(h.ID), Connectivity: string(r.hosts.Presence(h.ID).Connectivity),
			Labels: append([]string{}, h.Labels...), Version: i.Host.Version, Containers: len(i.Containers), Running: running, Alerts: len(i.Alerts),
			LoadMilli: i.Host.Load1000, MemoryBytes: i.Host.MemoryBytes, MemoryFree: i.Host.MemoryFree, DiskBytes: i.Host.DiskBytes, DiskFree: i.Host.DiskFree,
			ToldAtMS: i.AtMS,
		},
		"containers": Containers{true, string(h.ID), append([]protocol.Container{}, i.Containers...)},
		"alerts":     Alerts{true, string(h.ID), append([]protocol.AlertInfo{}, i.Alerts...)},
	}
}

// put publishes a message unless it is there.
func (r *Room) put(topic string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if len(b) > maxPlain {
		b = fmt.Appendf(nil, `{"unsigned":true,"too_large":%d}`, len(b))
	}
	sum := protocol.Sum(b)
	if r.published[topic] == sum {
		return nil
	}
	if r.send(topic, b) {
		r.published[topic] = sum
	}
	return nil
}

// send reports whether the broker has taken a message. One that it has not is sent with
// the next look.
func (r *Room) send(topic string, b []byte) bool {
	if err := r.base.Broker.Publish(topic, b, true); err != nil {
		r.base.Log.Debug("cannot mirror", "topic", topic, "err", err)
		return false
	}
	return true
}
