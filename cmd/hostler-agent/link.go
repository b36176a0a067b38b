package main

import (
	"context"
	"log/slog"

	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/mqtt"
	"github.com/hostler-io/hostler/protocol"
)

// link lets an MQTT client be the agent's [uplink.Link].
type link struct{ *mqtt.Client }

// Run shadows the client's: the two kinds of session are one.
func (l link) Run(ctx context.Context, open func(conn uint64) (uplink.Opening, error)) error {
	return l.Client.Run(ctx, func(conn uint64) (mqtt.Session, error) {
		s, err := open(conn)
		return mqtt.Session(s), err
	})
}

// connect makes both connections of a member. Neither is open yet.
func connect(m *membership, host protocol.HostID, brokers []string, log *slog.Logger) (link, *mqtt.Bulk, error) {
	cfg := mqtt.Config{Addresses: brokers, Dial: m.dialer(), ClientID: string(host), Logger: log}
	client, err := mqtt.New(cfg)
	if err != nil {
		return link{}, nil, err
	}
	bulk, err := mqtt.NewBulk(cfg)
	return link{client}, bulk, err
}
