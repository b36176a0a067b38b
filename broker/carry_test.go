package broker_test

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/protocol/san"
)

// TestReadersStaySmall: what a message leads to does not run on the goroutine that reads its
// connection, and still happens in the order of the messages.
func TestReadersStaySmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in ingested
		deep := 0
		s := brokertest.New(t, broker.Config{Ingest: func(topic string, payload []byte, from san.Name) error {
			if strings.Contains(string(debug.Stack()), "attachClient") {
				deep++
			}
			return in.add(topic, payload, from)
		}})
		host := as(t, s, web1, "web1", nil)
		var want []string
		for i := range 200 {
			host.publish(report, fmt.Append(nil, i), nil)
			want = append(want, fmt.Sprintf("hostler:host/web1 report %d", i))
		}
		synctest.Wait()
		equal(t, "ingested", in.take(), want...)
		if deep != 0 {
			t.Errorf("%d of %d messages ran on the reader of their connection", deep, len(want))
		}
	})
}

// TestBadPublishEndsTheConnection: as broken, so that its will goes out, and with the reason
// where the version of MQTT has one.
func TestBadPublishEndsTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		version byte
		topic   string
		change  func(*packets.Packet)
		code    packets.Code
	}{
		"no right, version 4": {4, order, func(pk *packets.Packet) { pk.FixedHeader.Qos, pk.PacketID = 1, 7 }, packets.Code{}},
		"no such alias, version 5": {5, report, func(pk *packets.Packet) {
			pk.Properties.TopicAlias, pk.Properties.TopicAliasFlag = 1, true
		}, packets.ErrTopicAliasInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var in ingested
				s := brokertest.New(t, broker.Config{Ingest: in.add})
				host := as(t, s, web1, "web1", func(pk *packets.Packet) {
					withWill(presence, "gone")(pk)
					pk.ProtocolVersion = c.version
				})
				host.publish(c.topic, []byte("bad"), c.change)
				pk, ok := host.next()
				if !ok || pk.FixedHeader.Type != packets.Disconnect || pk.ReasonCode != c.code.Code {
					t.Errorf("the broker answers with packet %d and code %#x, %t", pk.FixedHeader.Type, pk.ReasonCode, ok)
				}
				host.ended()
				synctest.Wait()
				equal(t, "ingested", in.take(), "hostler:host/web1 presence gone")
			})
		})
	}
}
