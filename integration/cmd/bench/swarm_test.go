package main

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

func TestMetric(t *testing.T) {
	const page = "# TYPE x_total counter\nx_total_more 1\nx_total 42\ny 1e3\n"
	for name, want := range map[string]float64{"x_total": 42, "y": 1000} {
		if got, err := metric(page, name); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
	if _, err := metric(page, "x"); err == nil {
		t.Error("a metric that is not there is found")
	}
}

// TestSwarmHost lets a host of the swarm talk to a broker that is played here.
func TestSwarmHost(t *testing.T) {
	id, err := certs.Generate("hostler bench", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h := swarmHost{ID: "edge-01", Topic: "up", Receipts: "down", Filters: []string{"all/#", "down"}, Wills: [][]byte{{'w'}}, Hellos: [][]byte{{'h'}}}
	for _, conn := range []uint64{1, 2} {
		receipt, err := sealJSON(id, protocol.Receipt{Header: protocol.Header{Type: protocol.TypeReceipt, Fleet: protocol.FleetID{1}, From: protocol.Coordinator, To: protocol.HostParty("edge-01")},
			Answers: protocol.Seq{Inc: 1, Conn: conn, K: 1}, Give: protocol.Nonce{1}})
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() { _, err := h.talk(near, bufio.NewReader(near), 0); done <- err; near.Close() }()
		r := bufio.NewReader(far)
		for _, step := range []struct {
			want, answer byte
			body         []byte
		}{
			{mqttConnect, mqttConnack, []byte{0, 0}},
			{mqttSubscribe, mqttSuback, []byte{0, 1, 0, 0}},
			{mqttRetained, mqttPublish, append(text(nil, "all/x"), "retained"...)},
		} {
			if kind, _, err := receive(r); err != nil || kind != step.want {
				t.Fatalf("got %#x, %v, want %#x", kind, err, step.want)
			}
			if err := send(far, step.answer, step.body); err != nil {
				t.Fatal(err)
			}
		}
		if err := send(far, mqttPublish, append(text(nil, "down"), receipt...)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; (err == nil) != (conn == 1) {
			t.Errorf("a receipt for connection %d on connection 1: %v", conn, err)
		}
		far.Close()
	}
}

// TestHeed: the worker learns of a durable heartbeat from its receipt, and of nothing from
// other receipts.
func TestHeed(t *testing.T) {
	id, err := certs.Generate("hostler bench", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{durable: make(chan uint64, beatsEach)}
	for _, beat := range []uint64{0, 7} {
		receipt, err := sealJSON(id, protocol.Receipt{Header: protocol.Header{Type: protocol.TypeReceipt, Fleet: protocol.FleetID{1}, From: protocol.Coordinator, To: protocol.HostParty("edge-01")}, Give: protocol.Nonce{1}, Beat: beat})
		if err != nil {
			t.Fatal(err)
		}
		w.heed(receipt)
	}
	w.heed([]byte("no receipt"))
	if got := <-w.durable; got != 7 || len(w.durable) != 0 {
		t.Errorf("heartbeat %d is durable, and %d more are told; want 7 alone", got, len(w.durable))
	}
}
