package protocol_test

import (
	"encoding/json"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/figures"
)

// sample is one good message, and what it is decoded into.
type sample struct {
	name    string
	typ     protocol.Type
	from    string // name of the signing key
	channel protocol.Channel
	body    any
	attach  []byte
	item    any        // of an item
	decode  func() any // what the payload is decoded into; nil for chunks and foreign documents
	after   []string
}

const theRing = 7

var theTerm = protocol.Term{Ring: 5, Counter: 9}

func up(t protocol.Type, k uint64) protocol.Header {
	h := protocol.Header{Type: t, Fleet: theFleet, From: "host:edge-07", To: "coordinator", Ring: theRing}
	if k != 0 {
		h.Seq, h.Chal = protocol.Seq{Inc: 3, Conn: 2, K: k}, nonce(1)
	}
	return h
}

func down(t protocol.Type, k uint64) protocol.Header {
	h := protocol.Header{Type: t, Fleet: theFleet, From: "coordinator", To: "host:edge-07", Ring: theRing, Term: theTerm, Revoked: 2}
	if k != 0 {
		h.Seq = protocol.Seq{Inc: 9, Conn: 1, K: k}
	}
	return h
}

// heard is what the host of the samples has sent.
var heard = protocol.Seq{Inc: 3, Conn: 2, K: 4}

// itemOf puts an item into a header.
func itemOf(h protocol.Header, store protocol.StoreID, stream protocol.Stream, n uint64, item []byte) protocol.Header {
	h.Store, h.Stream, h.N, h.Item = store, stream, n, item
	return h
}

func position(store protocol.StoreID, s protocol.Stream, n uint64) protocol.Position {
	p := protocol.Position{Store: store, Stream: s, N: n}
	if n > 0 {
		p.H = protocol.Sum([]byte(s))
	}
	return p
}

func samplePresence(kind protocol.PresenceKind, k uint64, chal protocol.Nonce) *protocol.Presence {
	p := &protocol.Presence{Header: up(protocol.TypePresence, k), Kind: kind}
	p.Chal = chal
	if kind == protocol.PresenceHello {
		p.Hello = &protocol.Hello{
			Proto: protocol.Proto, Inst: nonce(0x33), Boot: "6b1f6a2e-2f4c-4a37-8a52-0f6d3c2d7c11/1234", Store: hostStore,
			Sent:      []protocol.Position{position(hostStore, protocol.StreamReport, 12), position(hostStore, protocol.StreamAlert, 0)},
			Freed:     []protocol.Position{position(hostStore, protocol.StreamReport, 11)},
			Have:      []protocol.Position{position(coStore, protocol.StreamOrder, 4), position(coStore, protocol.StreamControl, 1)},
			TermSeen:  protocol.Term{Ring: 5, Counter: 8},
			AcceptSeq: 40, Checkpoint: sealedCheckpoint(), SelfFence: "none", Features: []string{"cgroup2", "lxc"},
		}
	}
	return p
}

var sampleSpec = []byte(`{"kind":"host.run","argv":["sh","-c","a && b"]}`)

func sampleReport() *protocol.Report {
	return &protocol.Report{
		Action: anAction, Digest: protocol.Sum(sampleSpec), Event: protocol.EventExit, State: protocol.StateFailed,
		Reason: protocol.ReasonExit, Detail: "the command ended with exit code 3", AcceptSeq: 41, Attempt: 1, AtMS: 1780000000000,
		Exit:   &protocol.Exit{Code: 3, RunMS: 1200},
		Output: []protocol.Output{{FD: protocol.Stdout, Bytes: 11}, {FD: protocol.Stderr, Bytes: 300, Dropped: 100, DropAt: 128}},
	}
}

var sampleFigures = figures.Figures{UptimeMS: 5000, ClockMS: 1780000000000, MemoryFree: 1 << 29, DiskFree: 1 << 35, Load1000: 250}

// sampleChange tells that a container was stopped, and another one and an alert are gone.
func sampleChange() *protocol.Heartbeat {
	h := sampleHeartbeat()
	h.AsOf, h.Base, h.Host, h.Figures, h.Digest = 2, 1, nil, &sampleFigures, protocol.Sum([]byte("state"))
	h.Containers[0].State, h.Removed, h.Alerts, h.Cleared = "stopped", []string{"podman/db"}, nil, []string{"disk.low/root"}
	return h
}

func sampleHeartbeat() *protocol.Heartbeat {
	return &protocol.Heartbeat{
		Header: up(protocol.TypeHeartbeat, 5), AsOf: 1, Part: 1, Parts: 1,
		Host: &protocol.HostInfo{
			Hostname: "edge-07", Arch: "amd64", InstanceType: "host", Version: "1.0.0", Kernel: "6.18.0", Boot: "b/1",
			CPUs: 2, MemoryBytes: 1 << 30, DiskBytes: 1 << 36, Figures: sampleFigures,
			Interfaces:  []protocol.Interface{{Name: "eth0", MAC: "02:00:00:00:00:01", Up: true, Addresses: []string{"10.0.0.7/24"}}},
			Unsupported: []string{"podman: the program is missing"},
		},
		Containers: []protocol.Container{{CTID: aCTID, Name: "web", Runtime: "lxc", State: "running", Intended: "running",
			Class: "pinned", Offline: "keep", Addresses: []string{"10.0.3.5"}, Labels: []string{"site=lab"}}},
		Alerts: []protocol.AlertInfo{{ID: "disk.low/root", Severity: "warning", Text: "2 % of the disk are free", SinceMS: 1780000000000}},
		Audit:  position(hostStore, protocol.StreamAudit, 33),
	}
}

// stateSamples are the good state messages.
func stateSamples() []sample {
	held := []protocol.LeaseHeld{{CTID: aCTID, Epoch: protocol.Epoch{Term: theTerm, Counter: 2}, Running: true}}
	hello := []string{"hello"}
	grant := &protocol.Grant{Header: down(protocol.TypeGrant, 7), TTLms: 90000, Held: held}
	grant.Heard = heard
	everybody := down(protocol.TypeCoordinator, 1)
	everybody.To = "*"
	return []sample{
		{name: "hello", typ: protocol.TypePresence, body: samplePresence(protocol.PresenceHello, 1, protocol.Nonce{}), decode: func() any { return new(protocol.Presence) }},
		{name: "online", typ: protocol.TypePresence, body: samplePresence(protocol.PresenceOnline, 2, nonce(1)), decode: func() any { return new(protocol.Presence) }, after: hello},
		{name: "will", typ: protocol.TypePresence, body: samplePresence(protocol.PresenceWill, protocol.KWill, protocol.Nonce{}), decode: func() any { return new(protocol.Presence) }, after: hello},
		{name: "goodbye", typ: protocol.TypePresence, body: samplePresence(protocol.PresenceGoodbye, protocol.KGoodbye, nonce(1)), decode: func() any { return new(protocol.Presence) }, after: hello},
		{name: "heartbeat", typ: protocol.TypeHeartbeat, body: sampleHeartbeat(), decode: func() any { return new(protocol.Heartbeat) }, after: hello},
		{name: "heartbeat-change", typ: protocol.TypeHeartbeat, body: sampleChange(), decode: func() any { return new(protocol.Heartbeat) }, after: hello},
		{name: "lease", typ: protocol.TypeLease, decode: func() any { return new(protocol.Lease) }, after: hello,
			body: &protocol.Lease{Header: up(protocol.TypeLease, 6), Number: 1, Boot: "b/1", Inst: nonce(0x33), Held: held}},
		{name: "ack", typ: protocol.TypeAck, decode: func() any { return new(protocol.Ack) }, after: hello,
			body: &protocol.Ack{Header: up(protocol.TypeAck, 7), Have: []protocol.Position{position(coStore, protocol.StreamOrder, 5)},
				Credit: []protocol.Credit{{Action: anAction, Attempt: 1, FD: protocol.Stdin, Offset: 4096, Window: protocol.MaxInputWindow}}}},
		{name: "grant", typ: protocol.TypeGrant, from: "coordinator", body: grant, decode: func() any { return new(protocol.Grant) }},
		{name: "receipt", typ: protocol.TypeReceipt, from: "coordinator", decode: func() any { return new(protocol.Receipt) },
			body: &protocol.Receipt{Header: down(protocol.TypeReceipt, 8), Answers: heard, Give: nonce(1),
				Have: []protocol.Position{position(hostStore, protocol.StreamReport, 12)}, Sent: []protocol.Position{position(coStore, protocol.StreamOrder, 5)},
				Want: []string{protocol.WantFull, protocol.WantLease}, Beat: 1, SpreadMS: 20_000, Credit: []protocol.Credit{{Action: anAction, Attempt: 1, FD: protocol.Stdout, Offset: 4096, Window: 1 << 20}},
				Checkpoint: sealedCheckpoint(), Audit: position(hostStore, protocol.StreamAudit, 33)}},
		{name: "coordinator", typ: protocol.TypeCoordinator, from: "coordinator", body: &protocol.CoordinatorState{Header: everybody, Online: true}, decode: func() any { return new(protocol.CoordinatorState) }},
	}
}

// itemSamples are the good items and the chunk.
func itemSamples() []sample {
	order := itemOf(down(protocol.TypeOrder, 0), coStore, protocol.StreamOrder, 5, nil)
	order.Heard, order.LeftMS = heard, 3600000
	since := uint64(40)
	chunk := up(protocol.TypeOut, 0)
	out := []byte("hello\nworld")
	chunk.Action, chunk.Attempt, chunk.FD, chunk.Offset, chunk.Size, chunk.SHA256 = anAction, 1, protocol.Stdout, 4096, int64(len(out)), protocol.Sum(out)
	nothing := chunk
	nothing.Size, nothing.SHA256 = 0, protocol.Sum(nil)
	in := down(protocol.TypeIn, 0)
	in.Action, in.Attempt, in.FD, in.Offset, in.Size, in.SHA256 = anAction, 1, protocol.Stdin, 4096, int64(len(out)), protocol.Sum(out)
	end := in
	end.Offset, end.Size, end.SHA256 = in.Offset+in.Size, 0, protocol.Sum(nil)
	typed := in
	typing := []byte("\x03pia\x00\x01\x02\x03\x04\x05\x06\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x03ls\r")
	typed.FD, typed.Offset, typed.Size, typed.SHA256 = protocol.TTYInput, 0, int64(len(typing)), protocol.Sum(typing)
	taken := chunk
	acked := []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x00\x00\x00\x00\x00\x00\x00\x06")
	taken.FD, taken.Offset, taken.Size, taken.SHA256 = protocol.TTYInput, 0, int64(len(acked)), protocol.Sum(acked)
	measured := up(protocol.TypeSamples, 0)
	measured.Action, measured.Attempt, measured.FD, measured.Size, measured.SHA256 = anAction, 1, protocol.Samples, int64(len(out)), protocol.Sum(out)
	control := itemOf(down(protocol.TypeControl, 0), coStore, protocol.StreamControl, 2, nil)
	preempt := control
	preempt.Heard, preempt.LeftMS = heard, 3600000
	return []sample{
		{name: "report", typ: protocol.TypeReport, body: itemOf(up(protocol.TypeReport, 0), hostStore, protocol.StreamReport, 13, nil),
			item: sampleReport(), decode: func() any { return new(protocol.Report) }},
		{name: "report_unknown", typ: protocol.TypeReport, body: itemOf(up(protocol.TypeReport, 0), hostStore, protocol.StreamReport, 14, nil),
			item: &protocol.Report{Action: twoAction, Event: protocol.EventTell, HaveOrder: 5, HaveControl: 3, AtMS: 1}, decode: func() any { return new(protocol.Report) }},
		{name: "report_waits", typ: protocol.TypeReport, body: itemOf(up(protocol.TypeReport, 0), hostStore, protocol.StreamReport, 15, nil),
			item: &protocol.Report{
				Action: anAction, Digest: protocol.Sum(sampleSpec), Event: protocol.EventTell, State: protocol.StateNew, AcceptSeq: 42, AtMS: 1780000005000,
				AcceptedMS: 1780000000000, Waits: &protocol.Waits{For: protocol.WaitsLane, Action: twoAction}, HaveOrder: 5,
			}, decode: func() any { return new(protocol.Report) }},
		{name: "alert", typ: protocol.TypeAlert, body: itemOf(up(protocol.TypeAlert, 0), hostStore, protocol.StreamAlert, 1, nil),
			item:   &protocol.Alert{AlertInfo: protocol.AlertInfo{ID: "disk.low/root", Severity: "warning", Text: "2 % free", SinceMS: 5}, Raised: true},
			decode: func() any { return new(protocol.Alert) }},
		{name: "order", typ: protocol.TypeOrder, from: "coordinator", body: order,
			item:   &protocol.OrderItem{Action: anAction, Spec: sampleSpec, Requester: "pia", CreatedMS: 1780000000000},
			decode: func() any { return new(protocol.OrderItem) }},
		{name: "order_approved", typ: protocol.TypeOrder, from: "coordinator", body: order,
			item: &protocol.OrderItem{Action: anAction, Spec: sampleSpec, Approvals: []protocol.OrderApproval{sampleOrderApproval()},
				Requester: "pia", CreatedMS: 1780000000000},
			decode: func() any { return new(protocol.OrderItem) }},
		{name: "control_cancel", typ: protocol.TypeControl, from: "coordinator", body: control,
			item: &protocol.ControlItem{Verb: protocol.VerbCancel, Action: anAction}, decode: func() any { return new(protocol.ControlItem) }},
		{name: "control_tell", typ: protocol.TypeControl, from: "coordinator", body: control,
			item: &protocol.ControlItem{Verb: protocol.VerbTell, IDs: []protocol.ActionID{anAction, twoAction}}, decode: func() any { return new(protocol.ControlItem) }},
		{name: "control_since", typ: protocol.TypeControl, from: "coordinator", body: control,
			item: &protocol.ControlItem{Verb: protocol.VerbTell, Since: &since}, decode: func() any { return new(protocol.ControlItem) }},
		{name: "control_preempt", typ: protocol.TypeControl, from: "coordinator", body: preempt,
			item:   &protocol.ControlItem{Verb: protocol.VerbPreempt, Order: &protocol.OrderItem{Action: anAction, Spec: sampleSpec, Requester: "pia", CreatedMS: 1780000000000}},
			decode: func() any { return new(protocol.ControlItem) }},
		{name: "control_since_and_ids", typ: protocol.TypeControl, from: "coordinator", body: control,
			item: &protocol.ControlItem{Verb: protocol.VerbTell, IDs: []protocol.ActionID{twoAction}, Since: &since}, decode: func() any { return new(protocol.ControlItem) }},
		{name: "control_policy", typ: protocol.TypeControl, from: "coordinator", body: control,
			item: &protocol.ControlItem{Verb: protocol.VerbPolicy}, decode: func() any { return new(protocol.ControlItem) }},
		{name: "control_rules", typ: protocol.TypeControl, from: "coordinator", body: control,
			item:   &protocol.ControlItem{Verb: protocol.VerbRules, Rules: &protocol.AlertRules{Number: 7, Rules: []string{"host disk=90%/5m0s"}}},
			decode: func() any { return new(protocol.ControlItem) }},
		{name: "report_policy", typ: protocol.TypeReport, body: itemOf(up(protocol.TypeReport, 0), hostStore, protocol.StreamReport, 2, nil),
			item:   &protocol.Report{Event: protocol.EventTell, AtMS: 1780000000000, Policy: []byte("version = 1\n")},
			decode: func() any { return new(protocol.Report) }},
		{name: "out", typ: protocol.TypeOut, body: chunk, attach: out},
		{name: "out_nothing", typ: protocol.TypeOut, body: nothing},
		{name: "in", typ: protocol.TypeIn, from: "coordinator", body: in, attach: out},
		{name: "in_end", typ: protocol.TypeIn, from: "coordinator", body: end},
		{name: "in_tty", typ: protocol.TypeIn, from: "coordinator", body: typed, attach: typing},
		{name: "out_tty", typ: protocol.TypeOut, body: taken, attach: acked},
		{name: "samples", typ: protocol.TypeSamples, body: measured, attach: out},
	}
}

// sampleOrderApproval is an approval on its way to the first target.
func sampleOrderApproval() protocol.OrderApproval {
	signed := must(sampleApproval().Seal(newFakeKey("person")))
	return must(protocol.ForTarget(signed, sampleTargets(), sampleTargets()[0]))
}

// sampleCheckpoint is what a log's keeper signs.
func sampleCheckpoint(log protocol.Party) *protocol.Checkpoint {
	c := &protocol.Checkpoint{
		Type: protocol.TypeCheckpoint, Fleet: theFleet, Log: log, Store: coStore, After: 17, N: 21, H: protocol.Sum([]byte("audit")),
		Ring: theRing, Term: theTerm, AtMS: 1780000000000,
	}
	if log != protocol.Coordinator {
		c.Store, c.Term = hostStore, protocol.Term{}
	}
	return c
}

// sealedCheckpoint is one as it travels within other messages.
func sealedCheckpoint() []byte {
	return must(protocol.Seal(newFakeKey("coordinator"), must(json.Marshal(sampleCheckpoint(protocol.Coordinator))), nil))
}

// document is what the form of documents is tested with; packages certs and
// coordinator own their contents.
type document struct {
	Type  protocol.Type    `json:"hostler"`
	Fleet protocol.FleetID `json:"fleet"`
	N     int              `json:"number"`
}

func sampleTargets() protocol.Targets {
	return must(protocol.NewTargets(protocol.Target{Host: "edge-07", Action: anAction}, protocol.Target{Host: "edge-08", Action: twoAction}))
}

func sampleApproval() *protocol.Approval {
	a := must(protocol.NewApproval(theFleet, theRing, sampleSpec, sampleTargets(), time.UnixMilli(1780000000000), time.Hour))
	return &a
}

func samplePolicy() *protocol.PolicyDocument {
	return &protocol.PolicyDocument{Type: protocol.TypePolicy, Fleet: theFleet, Number: 3, Policy: protocol.Sum([]byte("[[rule]]")),
		Hosts: []protocol.HostID{"edge-07", "edge-08"}, IssuedMS: 1780000000000, Ring: theRing}
}

func sampleFenced() *protocol.Fenced {
	f := must(protocol.NewFenced(theFleet, theRing, "edge-07", protocol.Sum([]byte("silence")), "unplugged it myself", time.UnixMilli(1780000000000)))
	return &f
}

func documentSamples() []sample {
	var list []sample
	for _, d := range []struct {
		typ  protocol.Type
		from string
	}{{protocol.TypeRing, "owner"}, {protocol.TypeRoster, "coordinator"}, {protocol.TypeRevoked, "coordinator"}} {
		list = append(list, sample{name: string(d.typ[:len(d.typ)-2]), typ: d.typ, from: d.from,
			body: &document{d.typ, theFleet, 7}, decode: func() any { return new(document) }})
	}
	list = append(list,
		sample{name: "approval", typ: protocol.TypeApproval, from: "person", body: sampleApproval(), decode: func() any { return new(protocol.Approval) }},
		sample{name: "fenced", typ: protocol.TypeFenced, from: "person", body: sampleFenced(), decode: func() any { return new(protocol.Fenced) }},
		sample{name: "policy", typ: protocol.TypePolicy, from: "owner", body: samplePolicy(), decode: func() any { return new(protocol.PolicyDocument) }},
		sample{name: "policy_of_person", typ: protocol.TypePolicy, from: "person", body: samplePolicy(), decode: func() any { return new(protocol.PolicyDocument) }},
	)
	checkpoint := func() any { return new(protocol.Checkpoint) }
	return append(list,
		sample{name: "checkpoint", typ: protocol.TypeCheckpoint, from: "coordinator", body: sampleCheckpoint(protocol.Coordinator), decode: checkpoint},
		sample{name: "checkpoint_of_host", typ: protocol.TypeCheckpoint, from: "edge-07", body: sampleCheckpoint("host:edge-07"), decode: checkpoint},
	)
}

func samples() []sample {
	list := append(append(stateSamples(), itemSamples()...), documentSamples()...)
	for i := range list {
		s := &list[i]
		if s.from == "" {
			s.from = "edge-07"
		}
		for _, c := range channels {
			if t, _ := protocol.TypeOf(c); t == s.typ {
				s.channel = c
			}
		}
	}
	return list
}

var channels = []protocol.Channel{
	protocol.ChannelPresence, protocol.ChannelHeartbeat, protocol.ChannelLease, protocol.ChannelReport, protocol.ChannelAlert,
	protocol.ChannelAck, protocol.ChannelOut, protocol.ChannelSamples, protocol.ChannelOrder, protocol.ChannelControl, protocol.ChannelGrant,
	protocol.ChannelReceipt, protocol.ChannelIn, protocol.ChannelCoordinator, protocol.ChannelRing, protocol.ChannelRevoked,
}
