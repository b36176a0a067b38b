package broker_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/internal/lobby"
	"github.com/hostler-io/hostler/protocol/san"
)

const (
	root     = "hostler/v1/testfleet/"
	presence = root + "host/web1/presence"
	lease    = root + "host/web1/lease"
	report   = root + "host/web1/report"
	order    = root + "host/web1/order"
	denied   = 0x80
)

var (
	web1   = brokertest.Host("web1")
	web2   = brokertest.Host("web2")
	viewer = brokertest.Viewer("web1") // named like a host on purpose
)

// ingested records what reached Ingest.
type ingested struct {
	mu   sync.Mutex
	list []string
}

func (in *ingested) add(topic string, payload []byte, from san.Name) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.list = append(in.list, fmt.Sprintf("%v %s %s", from, topic[strings.LastIndexByte(topic, '/')+1:], payload))
	return nil
}

func (in *ingested) take() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	list := in.list
	in.list = nil
	return list
}

func equal[T comparable](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// arrived returns what c was sent up to now, as "last-level payload".
func arrived(c *rawClient) (list []string) {
	synctest.Wait()
	for {
		select {
		case pk, ok := <-c.got:
			if !ok {
				return list
			}
			if pk.FixedHeader.Type == packets.Publish {
				list = append(list, pk.TopicName[strings.LastIndexByte(pk.TopicName, '/')+1:]+" "+string(pk.Payload))
			}
		default:
			return list
		}
	}
}

func retained(pk *packets.Packet) { pk.FixedHeader.Retain = true }

func TestMessagesReachIngestAndReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in ingested
		s := brokertest.New(t, broker.Config{Ingest: in.add})
		host := as(t, s, web1, "web1", nil)
		host.publish(presence, []byte("online"), retained)
		synctest.Wait()

		v := as(t, s, viewer, "", nil)
		equal(t, "SUBACK", v.subscribe("#"), 0)
		equal(t, "retained presence", arrived(v), "presence online")
		host.publish(report, []byte("r1"), nil)
		if err := s.Broker().Publish(order, []byte("o1"), false); err != nil {
			t.Fatal(err)
		}
		got := arrived(v)
		slices.Sort(got) // two publishers
		equal(t, "viewer", got, "order o1", "report r1")
		equal(t, "ingested", in.take(), "hostler:host/web1 presence online", "hostler:host/web1 report r1")

		c := as(t, s, san.Name{Kind: san.Coordinator}, "c", nil)
		c.publish(order, []byte("o2"), nil)
		equal(t, "from a coordinator elsewhere", arrived(v), "order o2")
		equal(t, "what the coordinator says does not come back", in.take())

		if err := s.Broker().Publish(presence, []byte("forged"), true); err == nil {
			t.Error("the coordinator published as a host")
		}
		if !s.Broker().Connected("web1") || s.Broker().Connected("web2") {
			t.Error("Connected is wrong")
		}
	})
}

func TestOnlyPresenceOfAHostIsRetained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in ingested
		s := brokertest.New(t, broker.Config{Ingest: in.add})
		host := as(t, s, web1, "web1", nil)
		host.publish(report, []byte("r1"), retained)
		host.publish(presence, []byte("online"), retained)
		synctest.Wait()
		v := as(t, s, viewer, "", nil)
		v.subscribe("#")
		equal(t, "retained", arrived(v), "presence online")
		equal(t, "ingested", in.take(), "hostler:host/web1 report r1", "hostler:host/web1 presence online")
	})
}

// A failing Ingest is counted; readers and retention are not its business.
func TestIngestErrorsDoNotHideMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{Ingest: func(string, []byte, san.Name) error { return errors.New("full") }})
		v := as(t, s, viewer, "", nil)
		v.subscribe(root + "#")
		as(t, s, web1, "web1", nil).publish(presence, []byte("online"), retained)
		equal(t, "viewer", arrived(v), "presence online")
		late := as(t, s, viewer, "", nil)
		late.subscribe(root + "#")
		equal(t, "late viewer", arrived(late), "presence online")
		if n := s.Broker().Stats().IngestErrors; n != 1 {
			t.Errorf("%d errors counted, want 1", n)
		}
	})
}

func TestNeighboursAreOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in ingested
		s := brokertest.New(t, broker.Config{Ingest: in.add})
		host := as(t, s, web1, "web1", nil)
		equal(t, "SUBACK", host.subscribe(order, root+"fleet/#", root+"host/web2/order", root+"host/+/order", "#", "$SYS/#", "$share/x/"+order),
			0, 0, denied, denied, denied, denied, denied)
		host.publish(root+"host/web2/presence", []byte("forged"), retained)
		host.publish(order, []byte("forged"), nil)
		host.publish(root+"fleet/ring", []byte("forged"), retained)
		v := as(t, s, viewer, "web1", nil) // the client id of the host
		v.publish(presence, []byte("forged"), retained)
		v.subscribe("#")
		equal(t, "viewer", arrived(v))
		equal(t, "ingested", in.take())
		if got := s.Broker().Stats(); got.Denied != 5+4 || got.TakenOver != 0 || got.Sessions != 2 {
			t.Errorf("stats %+v, want 9 denied, 0 taken over, 2 sessions", got)
		}
		if err := s.Broker().Publish(root+"host/web2/order", []byte("secret"), false); err != nil {
			t.Fatal(err)
		}
		if err := s.Broker().Publish(order, []byte("mine"), false); err != nil {
			t.Fatal(err)
		}
		equal(t, "host", arrived(host), "order mine")
	})
}

func TestWhoMayConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{})
		v5 := func(pk *packets.Packet) { pk.ProtocolVersion = 5 }
		old := func(pk *packets.Packet) { pk.ProtocolVersion, pk.Connect.ProtocolName = 3, []byte("MQIsdp") }
		keepAlive := func(k uint16) func(*packets.Packet) {
			return func(pk *packets.Packet) { pk.Connect.Keepalive = k }
		}
		for _, tc := range []struct {
			what   string
			name   san.Name
			id     string
			change func(*packets.Packet)
			code   int
		}{
			{"host", web1, "web1", nil, 0},
			{"host, bulk", web1, "web1~bulk", nil, 0},
			{"host under another id", web1, "web2", nil, 2},
			{"host without an id", web1, "", nil, 2},
			{"viewer", viewer, "anything", nil, 0},
			{"viewer, MQTT 5", viewer, "", v5, 0},
			{"viewer, MQTT 3.1", viewer, "x", old, 1},
			{"coordinator", san.Name{Kind: san.Coordinator}, "c", nil, 0},
			{"hop", san.Name{Kind: san.Hop, ID: "web1"}, "web1", nil, 2},
			{"never a ping", web1, "web1", keepAlive(0), 5},
			{"hardly a ping", web1, "web1", keepAlive(601), 5},
			{"own will", web1, "web1", withWill(presence, "gone"), 0},
			{"will of a neighbour", web1, "web1", withWill(root+"host/web2/presence", "gone"), 5},
			{"will as a report", web1, "web1", withWill(report, "gone"), 5},
			{"will of a bulk connection", web1, "web1~bulk", withWill(presence, "gone"), 5},
			{"will of a viewer", viewer, "web1", withWill(presence, "gone"), 5},
			{"will too large", web1, "web1", withWill(presence, strings.Repeat("x", 32<<10+1)), 5},
		} {
			c := dialRaw(t, s, tc.name)
			if code := c.connect(tc.id, tc.change); code != tc.code {
				t.Errorf("%s: CONNACK %d, want %d", tc.what, code, tc.code)
			}
			if tc.code != 0 {
				c.ended()
			}
			_ = c.conn.Close()
			synctest.Wait()
		}
	})
}

func TestCertificatesThatNameNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{})
		for _, uris := range [][]string{
			{}, {"spiffe://x/web1"}, {"hostler:host/web1", "hostler:viewer/web1"}, {"hostler:root"}, {"hostler:host/"},
		} {
			c := wrapRaw(t, s.DialWith(t, s.Authority.Issue(t, uris...)), 4)
			if code := c.connect("web1", nil); code != -1 {
				t.Errorf("certificate with %q: CONNACK %d", uris, code)
			}
		}
		stranger := brokertest.NewAuthority(t)
		c := wrapRaw(t, s.DialWith(t, stranger.Issue(t, "hostler:host/web1")), 4)
		if code := c.connect("web1", nil); code != -1 {
			t.Errorf("certificate of a stranger: CONNACK %d", code)
		}
		synctest.Wait()
		if n := s.Broker().Stats().Refused; n != 6 {
			t.Errorf("%d refused, want 6", n)
		}
	})
}

func TestNewerConnectionTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in ingested
		s := brokertest.New(t, broker.Config{Ingest: in.add})
		for i := range 20 {
			first := as(t, s, web1, "web1", withWill(presence, "gone"))
			bulk := as(t, s, web1, "web1~bulk", nil)
			first.subscribe(order)
			second := as(t, s, web1, "web1", nil)
			first.ended()
			equal(t, "SUBACK", second.subscribe(order), 0)
			synctest.Wait()
			equal(t, "will of the first", in.take(), "hostler:host/web1 presence gone")
			if err := s.Broker().Publish(order, fmt.Append(nil, i), false); err != nil {
				t.Fatal(err)
			}
			equal(t, "second", arrived(second), fmt.Sprintf("order %d", i))
			if !s.Broker().Connected("web1") {
				t.Fatal("the end of the first took the second with it")
			}
			_ = second.conn.Close()
			_ = bulk.conn.Close()
			synctest.Wait()
		}
		if got := s.Broker().Stats(); got.TakenOver != 20 || got.Sessions != 0 || got.Connections != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}

func TestRevokedCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bad atomic.Pointer[x509.Certificate]
		s := brokertest.New(t, broker.Config{Revoked: func(c *x509.Certificate) bool {
			b := bad.Load()
			return b != nil && b.Equal(c)
		}})
		old, renewed := s.Authority.Issue(t, web1.String()), s.Authority.Issue(t, web1.String())
		connect := func(cert tls.Certificate, id string) (*rawClient, int) {
			c := wrapRaw(t, s.DialWith(t, cert), 4)
			return c, c.connect(id, nil)
		}
		a, _ := connect(old, "web1")
		b, _ := connect(old, "web1~bulk")
		other := as(t, s, web2, "web2", nil)

		bad.Store(old.Leaf)
		if n := s.Broker().Recheck(); n != 2 {
			t.Errorf("%d connections cut, want both of the host", n)
		}
		a.ended()
		b.ended()
		if _, code := connect(old, "web1"); code != -1 {
			t.Errorf("a revoked certificate got CONNACK %d", code)
		}
		if _, code := connect(renewed, "web1"); code != 0 {
			t.Errorf("a newer certificate of the same name got CONNACK %d", code)
		}
		equal(t, "others stay", other.subscribe(root+"host/web2/order"), 0)

		if n := s.Broker().Disconnect(web2); n != 1 {
			t.Errorf("%d connections of web2 cut, want 1", n)
		}
		other.ended()
	})
}

// Revocation while a connection is between handshake and CONNECT.
func TestRevokedBetweenHandshakeAndConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		s := brokertest.New(t, broker.Config{Revoked: func(*x509.Certificate) bool { return revoked.Load() }})
		c := dialRaw(t, s, web1)
		synctest.Wait()
		revoked.Store(true)
		if n := s.Broker().Recheck(); n != 1 {
			t.Errorf("%d connections cut, want 1", n)
		}
		if code := c.connect("web1", nil); code != -1 {
			t.Errorf("CONNACK %d", code)
		}
	})
}

func TestOutsizedAndOddPacketsEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in ingested
		s := brokertest.New(t, broker.Config{Ingest: in.add})
		out := root + "host/web1/out/01890a5d-ac96-774b-bcce-b302099a8057"
		for _, tc := range []struct {
			what, id string
			do       func(*rawClient)
			ends     bool
		}{
			{"32 KiB", "web1", func(c *rawClient) { c.publish(report, make([]byte, 32<<10), nil) }, false},
			{"34 KiB", "web1", func(c *rawClient) { c.publish(report, make([]byte, 34<<10), nil) }, true},
			{"516 KiB on bulk", "web1~bulk", func(c *rawClient) { c.publish(out, make([]byte, 516<<10), nil) }, false},
			{"518 KiB on bulk", "web1~bulk", func(c *rawClient) { c.publish(out, make([]byte, 518<<10), nil) }, true},
			{"QoS 2", "web1", func(c *rawClient) {
				c.publish(report, nil, func(pk *packets.Packet) { pk.FixedHeader.Qos, pk.PacketID = 2, 1 })
			}, true},
			{"64 filters", "web1", func(c *rawClient) { c.subscribe(slices.Repeat([]string{order}, 64)...) }, false},
			{"65 filters", "web1", func(c *rawClient) { c.subscribe(slices.Repeat([]string{order}, 65)...) }, true},
			{"second CONNECT", "web1", func(c *rawClient) { c.connect("web1", nil) }, true},
		} {
			c := as(t, s, web1, tc.id, nil)
			tc.do(c)
			synctest.Wait()
			if n := s.Broker().Stats().Sessions; (n == 0) != tc.ends {
				t.Errorf("%s: %d sessions, ends: %v", tc.what, n, tc.ends)
			}
			_ = c.conn.Close()
			synctest.Wait()
		}
		if n := len(in.take()); n != 2 {
			t.Errorf("%d messages ingested, want the two that fit", n)
		}
	})
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in ingested
		s := brokertest.New(t, broker.Config{
			Ingest: in.add,
			Limit:  broker.Limit{Messages: 10, Bytes: 1 << 20, Burst: time.Second, Flood: 2 * time.Second},
		})
		c := as(t, s, web1, "web1", withWill(presence, "gone"))
		count := func(what string) (n int) {
			synctest.Wait()
			for _, m := range in.take() {
				if strings.Contains(m, what) {
					n++
				}
			}
			return n
		}
		for range 15 {
			c.publish(report, nil, nil)
		}
		if n := count("report"); n != 10 {
			t.Errorf("%d of 15 reports came through, want the burst of 10", n)
		}
		for range 5 {
			c.publish(lease, nil, nil)
		}
		if n := count("lease"); n != 5 {
			t.Errorf("%d of 5 leases came through behind a flood of reports", n)
		}
		time.Sleep(2 * time.Second)
		c.publish(report, nil, nil)
		if n := count("report"); n != 1 {
			t.Error("silence did not pay off the debt")
		}
		for range 100 {
			c.publish(lease, nil, nil)
		}
		c.ended()
		synctest.Wait()
		got := in.take()
		if n := len(got); n == 0 || got[n-1] != "hostler:host/web1 presence gone" {
			t.Errorf("a flood did not end with the will: %q", got)
		}
		if st := s.Broker().Stats(); st.Floods != 1 || st.Limited != 5 || st.Cut != 1 {
			t.Errorf("stats %+v, want 1 flood, 5 limited, 1 cut", st)
		}
	})
}

// One client that floods, or whose messages the coordinator cannot take just
// now, does not stop another. Counted, not timed.
func TestFloodOfOneDoesNotStopAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var fine atomic.Int64
		s := brokertest.New(t, broker.Config{Ingest: func(_ string, _ []byte, from san.Name) error {
			if from == web1 {
				<-hang
			} else {
				fine.Add(1)
			}
			return nil
		}})
		flooder := as(t, s, web1, "web1", nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 1000 { // far more than the line buffers
				flooder.publish(report, make([]byte, 16<<10), nil)
			}
		})
		synctest.Wait()
		other := as(t, s, web2, "web2", nil)
		for range 500 {
			other.publish(root+"host/web2/report", make([]byte, 1<<10), nil)
		}
		synctest.Wait()
		if n := fine.Load(); n != 500 {
			t.Errorf("%d of 500 messages of the other came through", n)
		}
		close(hang)
		_ = flooder.conn.Close()
		wg.Wait()
	})
}

// TestSlowReaderIsCut has viewers that stop reading for a while, and a host that
// does: the viewers are cut, those of MQTT 5 with a word, and nobody else is
// held up.
func TestSlowReaderIsCut(t *testing.T) {
	for _, tc := range []struct {
		name     string
		who      san.Name
		client   string
		filter   string
		version  byte
		patience time.Duration // until it reads on
		cut      uint64
		told     bool
	}{
		{name: "viewer", who: viewer, client: "slow", filter: "#", version: 4, cut: 1},
		{name: "viewer of MQTT 5", who: viewer, client: "slow", filter: "#", version: 5, cut: 1, told: true},
		{name: "viewer that never reads on", who: viewer, client: "slow", filter: "#", version: 5, patience: time.Minute, cut: 1},
		{name: "host", who: web1, client: "web1", filter: root + "fleet/#", version: 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var in ingested
				s := brokertest.New(t, broker.Config{Ingest: in.add})
				slow := slowReader(t, s, tc.who, tc.client, tc.filter, tc.version)
				host := as(t, s, web2, "web2", nil)
				for i := range 500 {
					host.publish(root+"host/web2/report", make([]byte, 4<<10), nil)
					if err := s.Broker().Publish(root+"fleet/coordinator", make([]byte, 4<<10), false); err != nil {
						t.Fatal(err)
					}
					if i == brokertest.LineBuffer>>12 {
						synctest.Wait() // the line is full and a write waits, before anything is dropped
					}
				}
				if tc.patience > 0 {
					time.Sleep(tc.patience) // of the bubble
				}
				synctest.Wait()
				if n := len(in.take()); n != 500 {
					t.Errorf("%d of 500 messages came through past a slow reader", n)
				}
				told := false
				c := wrapRaw(t, slow, tc.version)
				if tc.cut == 0 {
					_ = slow.Close()
				}
				for pk := range c.got {
					told = told || pk.FixedHeader.Type == packets.Disconnect && pk.ReasonCode == packets.ErrQuotaExceeded.Code
				}
				synctest.Wait()
				if n := s.Broker().Stats(); n.SlowDrops == 0 || n.Cut != tc.cut {
					t.Errorf("%d messages were dropped, %d connections cut, want some and %d", n.SlowDrops, n.Cut, tc.cut)
				}
				if told != tc.told {
					t.Errorf("told: %t, want %t", told, tc.told)
				}
			})
		})
	}
}

// slowReader connects and subscribes, and does not read.
func slowReader(t *testing.T, s *brokertest.Server, who san.Name, id, filter string, version byte) net.Conn {
	t.Helper()
	conn, err := open(t.Context(), t, s, who)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	for _, encode := range []func(*bytes.Buffer) error{
		(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: version,
			Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: id, Keepalive: 600, Clean: true}}).ConnectEncode,
		(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: 1, ProtocolVersion: version,
			Filters: packets.Subscriptions{{Filter: filter}}}).SubscribeEncode,
	} {
		if err := encode(&buf); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write(buf.Bytes()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return conn
}

func TestStrangersDoNotHoldConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{MaxConnections: 3, HandshakeTimeout: 10 * time.Second})
		dialRaw(t, s, web1) // never sends its CONNECT
		dialRaw(t, s, web2)
		as(t, s, viewer, "v", nil)
		if _, ok := <-dialRaw(t, s, web1).got; ok {
			t.Error("a fourth connection was accepted")
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := s.Broker().Stats(); got.Connections != 1 || got.Sessions != 1 || got.Refused != 3 {
			t.Errorf("stats %+v, want only the viewer left and 3 refused", got)
		}
		as(t, s, web1, "web1", nil)
	})
}

// TestStrangersLeaveTheLobby: who has shown a certificate takes no place of those who
// have not, and a place is free again when its connection ends.
func TestStrangersLeaveTheLobby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := lobby.New(1)
		s := brokertest.New(t, broker.Config{Lobby: in})
		as(t, s, viewer, "v", nil)
		synctest.Wait() // the only place is free again
		as(t, s, web1, "web1", nil)
		synctest.Wait()
		dialRaw(t, s, web2) // no session, but a certificate
		synctest.Wait()
		if _, err := s.DialWith(t, s.Authority.Issue(t, "hostler:nobody")).Read(make([]byte, 1)); err == nil {
			t.Error("a stranger was served")
		}
		synctest.Wait()
		if got := in.Stats(); got != (lobby.Stats{}) {
			t.Errorf("stats %+v", got)
		}
		if got := s.Broker().Stats(); got.Sessions != 2 || got.Connections != 3 {
			t.Errorf("stats %+v", got)
		}
	})
}

func TestConnectionsPerViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := brokertest.New(t, broker.Config{MaxPerViewer: 2})
		as(t, s, viewer, "", nil)
		b := as(t, s, viewer, "b", nil)
		if code := dialRaw(t, s, viewer).connect("c", nil); code != 3 {
			t.Errorf("third connection: CONNACK %d, want 3", code)
		}
		as(t, s, viewer, "b", nil) // in place of its own older one
		b.ended()
		as(t, s, brokertest.Viewer("other"), "", nil)
	})
}

// Whatever a client asks for, its session ends with its connection, and a will
// is not delayed past Ingest.
func TestSessionsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in ingested
		s := brokertest.New(t, broker.Config{Ingest: in.add})
		for _, change := range []func(*packets.Packet){
			func(pk *packets.Packet) { pk.Connect.Clean = false },
			func(pk *packets.Packet) {
				pk.ProtocolVersion = 5
				pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 3600, true
				pk.Connect.WillProperties.WillDelayInterval = 3600
			},
		} {
			c := as(t, s, web1, "web1", func(pk *packets.Packet) { withWill(presence, "gone")(pk); change(pk) })
			c.subscribe(order)
			s.Cut(web1)
			synctest.Wait()
			equal(t, "will", in.take(), "hostler:host/web1 presence gone")
			if clients, subs := s.Broker().Leftovers(); clients != 0 || subs != 0 {
				t.Errorf("%d clients and %d subscriptions left", clients, subs)
			}
		}
	})
}

// noListener is a listener that is never used.
type noListener struct{ net.Listener }

func TestConfigIsValidated(t *testing.T) {
	a := brokertest.NewAuthority(t)
	good := func() broker.Config {
		return broker.Config{Fleet: "x", Listener: noListener{}, TLS: a.Server(t), Ingest: func(string, []byte, san.Name) error { return nil }}
	}
	if _, err := broker.New(good()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*broker.Config){
		"fleet name":         func(c *broker.Config) { c.Fleet = "No Label" },
		"Listener":           func(c *broker.Config) { c.Listener = nil },
		"TLS":                func(c *broker.Config) { c.TLS = nil },
		"Ingest":             func(c *broker.Config) { c.Ingest = nil },
		"unverified":         func(c *broker.Config) { c.TLS.ClientAuth = tls.RequireAnyClientCert },
		"does not demand":    func(c *broker.Config) { c.TLS.ClientAuth = tls.VerifyClientCertIfGiven },
		"part of a limit":    func(c *broker.Config) { c.Limit = broker.Limit{Messages: 1} },
		"negative":           func(c *broker.Config) { c.MaxConnections = -1 },
		"negative handshake": func(c *broker.Config) { c.HandshakeTimeout = -1 },
	} {
		cfg := good()
		spoil(&cfg)
		want, _, _ := strings.Cut(name, " handshake")
		if _, err := broker.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
