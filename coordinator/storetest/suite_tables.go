package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// host returns a host with every field set.
func host(n int) core.Host {
	return core.Host{
		ID: protocol.HostID(fmt.Sprintf("edge-%03d", n)), State: core.HostApproved, Key: keyID(n),
		PublicKey: []byte{0x99, byte(n)}, Labels: []string{"site=berlin", "käse=ja"}, ApprovedMS: 1, ApprovedBy: "alice",
		RevokedMS: 2, Reason: "gone", Quarantined: "rolled back", Store: storeID(n), AcceptSeq: 7, Adopted: protocol.Seq{Inc: 8, Conn: 1, K: 9},
		Former: []protocol.KeyID{keyID(100 + n), keyID(200 + n)}, CSR: []byte{0x30, byte(n)}, Awaits: "the digest of a secret",
		Availability: core.Availability{State: core.Draining, Reason: "new disks", By: "alice", SinceMS: 5, UntilMS: 6},
		Inventory: core.Inventory{
			AtMS: 3,
			Host: protocol.HostInfo{Hostname: "edge", CPUs: 4, Interfaces: []protocol.Interface{{Name: "eth0", Up: true, Addresses: []string{"10.0.0.1/24"}}}},
			Containers: []protocol.Container{
				{CTID: ctid(n), Name: "web", State: "running", Addresses: []string{"10.0.3.1/24"}, Labels: []string{"a=b"}},
				{Name: "foreign"},
			},
			Alerts: []protocol.AlertInfo{{ID: "disk", Severity: "warning", Text: "full", SinceMS: 4}},
		},
	}
}

func testHosts(t *testing.T, s core.Store) {
	missing(t, s, map[string]func(core.Tx) error{
		"host":     func(tx core.Tx) error { _, err := tx.Hosts.Get("edge-001"); return err },
		"standing": func(tx core.Tx) error { _, err := tx.Hosts.Standing("edge-001"); return err },
	})
	want := host(1)
	update(t, s, func(tx core.Tx) error { return tx.Hosts.Put(want) })
	read := func() (h core.Host) {
		t.Helper()
		view(t, s, func(tx core.Tx) error {
			return values(func() (core.Host, error) { return tx.Hosts.Get(want.ID) }, &h)
		})
		return h
	}
	got := read()
	equal(t, "host", got, want)
	bare := want
	bare.PublicKey, bare.Labels, bare.Inventory = nil, nil, core.Inventory{}
	bare.Former, bare.CSR, bare.Awaits, bare.Availability = nil, nil, "", core.Availability{}
	view(t, s, func(tx core.Tx) error {
		standing, err := tx.Hosts.Standing(want.ID)
		equal(t, "standing of a host", standing, bare)
		return err
	})
	// Neither side keeps what the other may change.
	got.Labels[0], got.PublicKey[0] = "changed", 0
	got.Inventory.Containers[0].Labels[0], got.Inventory.Host.Interfaces[0].Addresses[0] = "changed", "changed"
	equal(t, "host after a change of a copy", read(), host(1))
	want.Labels[0] = "changed"
	equal(t, "host after a change of the original", read(), host(1))

	// Replaced as a whole, with the zero value of everything that may be so.
	want = core.Host{ID: want.ID, State: core.HostRevoked, Key: keyID(9)}
	update(t, s, func(tx core.Tx) error { return tx.Hosts.Put(want) })
	equal(t, "replaced host", read(), want)

	twin := host(2)
	twin.Key = keyID(9)
	updateFails(t, s, core.ErrExists, func(tx core.Tx) error { return tx.Hosts.Put(twin) })
}

func testHostsPaging(t *testing.T, s core.Store) {
	var want []protocol.HostID
	update(t, s, func(tx core.Tx) error {
		want = nil
		for _, n := range []int{5, 3, 8, 1, 9, 2, 7} {
			if err := tx.Hosts.Put(host(n)); err != nil {
				return err
			}
			want = append(want, host(n).ID)
		}
		return nil
	})
	slices.Sort(want)
	for _, limit := range []int{1, 3, 7, 100} {
		got := pages(t, s, limit, func(tx core.Tx, last core.Host) ([]core.Host, error) {
			return tx.Hosts.List(last.ID, limit)
		})
		var ids []protocol.HostID
		for _, h := range got {
			ids = append(ids, h.ID)
		}
		equal(t, fmt.Sprintf("hosts in pages of %d", limit), ids, want)
	}
	noLimit(t, s, func(tx core.Tx, limit int) (int, error) {
		all, err := tx.Hosts.List("", limit)
		return len(all), err
	})
}

// pages collects all pages, each asked for with the last record of the one before.
func pages[T any](t *testing.T, s core.Store, limit int, page func(core.Tx, T) ([]T, error)) []T {
	t.Helper()
	var all, next []T
	var last T
	for {
		view(t, s, func(tx core.Tx) error {
			return values(func() ([]T, error) { return page(tx, last) }, &next)
		})
		if len(next) > limit {
			t.Fatalf("a page of %d with limit %d", len(next), limit)
		}
		if len(next) == 0 {
			return all
		}
		all = append(all, next...)
		last = next[len(next)-1]
	}
}

// noLimit wants nothing for a limit of 0 or less.
func noLimit(t *testing.T, s core.Store, count func(tx core.Tx, limit int) (int, error)) {
	t.Helper()
	for _, limit := range []int{0, -1} {
		var n int
		view(t, s, func(tx core.Tx) error { return values(func() (int, error) { return count(tx, limit) }, &n) })
		if n != 0 {
			t.Errorf("%d records with limit %d", n, limit)
		}
	}
}

func testInvites(t *testing.T, s core.Store) {
	missing(t, s, map[string]func(core.Tx) error{
		"invite": func(tx core.Tx) error { _, err := tx.Enrolments.Invite("i"); return err },
	})
	for _, want := range []core.Invite{
		{ID: "i", Secret: []byte("0123456789abcdef"), Labels: []string{"a=b"}, CreatedMS: 1, CreatedBy: "alice", ExpiresMS: 2, Wrong: 3, BoundKey: keyID(1), RevokedMS: 4, Host: "edge-001"},
		{ID: "i"},
	} {
		update(t, s, func(tx core.Tx) error { return tx.Enrolments.PutInvite(want) })
		var got core.Invite
		view(t, s, func(tx core.Tx) error {
			return values(func() (core.Invite, error) { return tx.Enrolments.Invite("i") }, &got)
		})
		equal(t, "invite", got, want)
	}
}

func testEnrolments(t *testing.T, s core.Store) {
	missing(t, s, map[string]func(core.Tx) error{
		"enrolment":          func(tx core.Tx) error { _, err := tx.Enrolments.Get("e"); return err },
		"enrolment of a key": func(tx core.Tx) error { _, err := tx.Enrolments.ByKey(keyID(1)); return err },
	})
	enrolment := func(id string, key int, state core.EnrolmentState, created int64) core.Enrolment {
		return core.Enrolment{ID: id, Invite: "i", Host: "edge-1", Key: keyID(key), PublicKey: []byte{1}, CSR: []byte{2},
			Offer: []byte{3}, Words: "one two three four", Labels: []string{"a=b"}, State: state, Reason: "r",
			CreatedMS: created, DecidedMS: 5, DecidedBy: "alice", Certificate: []byte("PEM")}
	}
	a := enrolment("a", 1, core.EnrolmentPending, 30)
	b := enrolment("b", 1, core.EnrolmentDenied, 20)
	c := enrolment("c", 2, core.EnrolmentPending, 10)
	d := enrolment("d", 1, core.EnrolmentPending, 30)
	d.Labels, d.Certificate, d.Reason = nil, nil, ""
	update(t, s, func(tx core.Tx) error {
		for _, e := range []core.Enrolment{a, b, c, d} {
			if err := tx.Enrolments.Put(e); err != nil {
				return err
			}
		}
		return nil
	})
	lists := map[string]struct {
		state core.EnrolmentState
		limit int
		want  []core.Enrolment
	}{
		"all":      {"", 10, []core.Enrolment{c, b, a, d}},
		"pending":  {core.EnrolmentPending, 10, []core.Enrolment{c, a, d}},
		"two":      {core.EnrolmentPending, 2, []core.Enrolment{c, a}},
		"approved": {core.EnrolmentApproved, 10, nil},
		"none":     {"", -1, nil},
	}
	for name, l := range lists {
		var got []core.Enrolment
		view(t, s, func(tx core.Tx) error {
			return values(func() ([]core.Enrolment, error) { return tx.Enrolments.List(l.state, l.limit) }, &got)
		})
		equal(t, name, got, l.want)
	}
	var byKey, byID core.Enrolment
	view(t, s, func(tx core.Tx) error {
		return errors.Join(
			values(func() (core.Enrolment, error) { return tx.Enrolments.ByKey(keyID(1)) }, &byKey),
			values(func() (core.Enrolment, error) { return tx.Enrolments.Get("b") }, &byID))
	})
	equal(t, "newest of a key", byKey, d)
	equal(t, "by id", byID, b)
}

func testStreams(t *testing.T, s core.Store) {
	get := func(host protocol.HostID, stream protocol.Stream) (st core.StreamState) {
		t.Helper()
		view(t, s, func(tx core.Tx) error {
			return values(func() (core.StreamState, error) { return tx.Streams.Get(host, stream) }, &st)
		})
		return st
	}
	zero := core.StreamState{Host: "a", Pos: protocol.Position{Stream: protocol.StreamOrder}, Freed: protocol.Position{Stream: protocol.StreamOrder}}
	equal(t, "stream without a state", get("a", protocol.StreamOrder), zero)
	for n := range 2 {
		want := core.StreamState{
			Host:  "a",
			Pos:   protocol.Position{Store: storeID(n), Stream: protocol.StreamOrder, N: 9, H: protocol.Sum([]byte{9, byte(n)})},
			Freed: protocol.Position{Store: storeID(n + 1), Stream: protocol.StreamOrder, N: 8, H: protocol.Sum([]byte{8, byte(n)})},
		}
		update(t, s, func(tx core.Tx) error { return tx.Streams.Put(want) })
		equal(t, "stream", get("a", protocol.StreamOrder), want)
	}
	update(t, s, func(tx core.Tx) error { return tx.Streams.Put(zero) })
	equal(t, "stream that began anew", get("a", protocol.StreamOrder), zero)
	if other := get("a", protocol.StreamControl); other.Pos.N != 0 || other.Pos.Stream != protocol.StreamControl {
		t.Errorf("another stream of the host: %+v", other)
	}
	if other := get("b", protocol.StreamOrder); other.Pos.N != 0 || other.Host != "b" {
		t.Errorf("the stream of another host: %+v", other)
	}
}

func testItems(t *testing.T, s core.Store) {
	item := func(n uint64) core.Item {
		return core.Item{N: n, H: protocol.Sum([]byte{byte(n)}), Item: []byte{byte(n)}, Action: actionID(int(n))}
	}
	bare := core.Item{N: 6, Item: []byte{6}}
	update(t, s, func(tx core.Tx) error {
		for _, n := range []uint64{2, 1, 4, 3, 5} {
			if err := tx.Streams.Append("a", protocol.StreamOrder, item(n)); err != nil {
				return err
			}
		}
		return errors.Join(
			tx.Streams.Append("a", protocol.StreamOrder, bare),
			tx.Streams.Append("a", protocol.StreamControl, item(1)),
			tx.Streams.Append("b", protocol.StreamOrder, item(1)))
	})
	updateFails(t, s, core.ErrExists, func(tx core.Tx) error {
		return tx.Streams.Append("a", protocol.StreamOrder, item(3))
	})
	check := func(host protocol.HostID, stream protocol.Stream, first, last uint64, want ...core.Item) {
		t.Helper()
		var got []core.Item
		view(t, s, func(tx core.Tx) error {
			return values(func() ([]core.Item, error) { return tx.Streams.Items(host, stream, first, last) }, &got)
		})
		equal(t, fmt.Sprintf("items %d to %d of %s/%s", first, last, host, stream), got, want)
	}
	check("a", protocol.StreamOrder, 2, 4, item(2), item(3), item(4))
	check("a", protocol.StreamOrder, 5, math.MaxUint64, item(5), bare)
	check("a", protocol.StreamOrder, 7, 9)
	check("a", protocol.StreamReport, 0, 9)
	update(t, s, func(tx core.Tx) error { return tx.Streams.Free("a", protocol.StreamOrder, 4) })
	check("a", protocol.StreamOrder, 0, 9, item(5), bare)
	check("a", protocol.StreamControl, 0, 9, item(1))
	check("b", protocol.StreamOrder, 0, 9, item(1))
	update(t, s, func(tx core.Tx) error {
		return tx.Streams.Free("a", protocol.StreamOrder, math.MaxUint64)
	})
	check("a", protocol.StreamOrder, 0, math.MaxUint64)
}

func testOutput(t *testing.T, s core.Store) {
	get := func(attempt int, fd protocol.FD) (o core.OutputState) {
		t.Helper()
		view(t, s, func(tx core.Tx) error {
			return values(func() (core.OutputState, error) { return tx.Outputs.Get(actionID(1), attempt, fd) }, &o)
		})
		return o
	}
	equal(t, "output of which nothing is held", get(1, protocol.Stdout), core.OutputState{})
	for have := range int64(2) {
		want := core.OutputState{Action: actionID(1), Attempt: 1, FD: protocol.Stdout, Held: window.Held{Have: have, TailFrom: 1 << 40, TailTo: 1<<40 + have, Gone: []window.Range{{From: 1, To: have}}}, RemovedMS: have}
		update(t, s, func(tx core.Tx) error { return tx.Outputs.Put(want) })
		equal(t, "output", get(1, protocol.Stdout), want)
	}
	equal(t, "output of another attempt", get(2, protocol.Stdout), core.OutputState{})
	equal(t, "output of the other stream", get(1, protocol.Stderr), core.OutputState{})
}

func testTokens(t *testing.T, s core.Store) {
	missing(t, s, map[string]func(core.Tx) error{
		"token":           func(tx core.Tx) error { _, err := tx.Access.Token("t"); return err },
		"token by secret": func(tx core.Tx) error { _, err := tx.Access.TokenByHash(protocol.Sum(nil)); return err },
	})
	a := core.Token{ID: "a", Name: "alice", Person: "ann", Role: core.RoleAdmin, Hash: protocol.Sum([]byte("a")), CreatedMS: 1, CreatedBy: "root", ExpiresMS: 2, RevokedMS: 3}
	b := core.Token{ID: "b", Role: core.RoleViewer, Hash: protocol.Sum([]byte("b"))}
	update(t, s, func(tx core.Tx) error { return errors.Join(tx.Access.PutToken(b), tx.Access.PutToken(a)) })
	twin := a
	twin.ID = "c"
	updateFails(t, s, core.ErrExists, func(tx core.Tx) error { return tx.Access.PutToken(twin) })
	a.Name = "alice b."
	update(t, s, func(tx core.Tx) error { return tx.Access.PutToken(a) })
	var byID, byHash core.Token
	var all []core.Token
	view(t, s, func(tx core.Tx) error {
		return errors.Join(
			values(func() (core.Token, error) { return tx.Access.Token("a") }, &byID),
			values(func() (core.Token, error) { return tx.Access.TokenByHash(b.Hash) }, &byHash),
			values(tx.Access.Tokens, &all))
	})
	equal(t, "by id", byID, a)
	equal(t, "by hash", byHash, b)
	equal(t, "all", all, []core.Token{a, b})
}

func testViewers(t *testing.T, s core.Store) {
	missing(t, s, map[string]func(core.Tx) error{
		"viewer": func(tx core.Tx) error { _, err := tx.Access.Viewer("v"); return err },
	})
	a := core.Viewer{Name: "a", Serial: "0f", CreatedMS: 1, CreatedBy: "alice"}
	b := core.Viewer{Name: "b"}
	update(t, s, func(tx core.Tx) error { return errors.Join(tx.Access.PutViewer(b), tx.Access.PutViewer(a)) })
	a.RevokedMS = 2
	update(t, s, func(tx core.Tx) error { return tx.Access.PutViewer(a) })
	var one core.Viewer
	var all []core.Viewer
	view(t, s, func(tx core.Tx) error {
		return errors.Join(
			values(func() (core.Viewer, error) { return tx.Access.Viewer("a") }, &one),
			values(tx.Access.Viewers, &all))
	})
	equal(t, "viewer", one, a)
	equal(t, "all", all, []core.Viewer{a, b})
}

func testEvents(t *testing.T, s core.Store) {
	last := func() (id uint64) {
		t.Helper()
		view(t, s, func(tx core.Tx) error { return values(tx.Events.Last, &id) })
		return id
	}
	equal(t, "newest of none", last(), uint64(0))
	add := func(tx core.Tx, n int) (uint64, error) {
		return tx.Events.Append(core.Event{ID: 99, AtMS: int64(n), Type: "t", Host: "h", Object: "o", Data: fmt.Appendf(nil, "{%d}", n)})
	}
	var ids []uint64
	update(t, s, func(tx core.Tx) error {
		ids = nil
		for n := range 3 {
			id, err := add(tx, n+1)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	equal(t, "given ids", ids, []uint64{1, 2, 3})
	undone := errors.New("undone")
	updateFails(t, s, undone, func(tx core.Tx) error { _, err := add(tx, 4); return errors.Join(err, undone) })
	equal(t, "newest after an undone one", last(), uint64(3))
	read := func(after uint64, limit int) (all []core.Event) {
		t.Helper()
		view(t, s, func(tx core.Tx) error {
			return values(func() ([]core.Event, error) { return tx.Events.List(after, limit) }, &all)
		})
		return all
	}
	event := func(n int) core.Event {
		return core.Event{ID: uint64(n), AtMS: int64(n), Type: "t", Host: "h", Object: "o", Data: fmt.Appendf(nil, "{%d}", n)}
	}
	equal(t, "all", read(0, 10), []core.Event{event(1), event(2), event(3)})
	equal(t, "a page", read(1, 1), []core.Event{event(2)})
	equal(t, "no limit", read(0, -1), []core.Event(nil))
	equal(t, "after everything", read(math.MaxUint64, 10), []core.Event(nil))
	update(t, s, func(tx core.Tx) error { return tx.Events.Trim(2) })
	equal(t, "after trimming", read(0, 10), []core.Event{event(3)})
	update(t, s, func(tx core.Tx) error { return tx.Events.Trim(99) })
	equal(t, "newest after trimming all", last(), uint64(3))
	update(t, s, func(tx core.Tx) error { _, err := add(tx, 4); return err })
	equal(t, "numbers go on", read(0, 10), []core.Event{event(4)})
	update(t, s, func(tx core.Tx) error { return tx.Events.Restart(1 << 40) })
	equal(t, "newest after a restart", last(), uint64(1<<40))
	update(t, s, func(tx core.Tx) error { _, err := add(tx, 1<<40+1); return err })
	equal(t, "after a restart", read(0, 10), []core.Event{event(1<<40 + 1)})
}

func testValues(t *testing.T, s core.Store) {
	missing(t, s, map[string]func(core.Tx) error{
		"value": func(tx core.Tx) error { _, err := tx.Values.Get("v"); return err },
	})
	for _, want := range [][]byte{{1, 0, 255}, nil, []byte("x")} {
		var got []byte
		update(t, s, func(tx core.Tx) error { return tx.Values.Put("v", want) })
		view(t, s, func(tx core.Tx) error {
			return values(func() ([]byte, error) { return tx.Values.Get("v") }, &got)
		})
		equal(t, "value", got, want)
	}
	undone, kept := errors.New("undone"), protocol.StoreID{1}
	err := s.Update(t.Context(), func(tx core.Tx) error { return errors.Join(tx.Values.SetStore(protocol.StoreID{2}), undone) })
	if !errors.Is(err, undone) || s.ID() == (protocol.StoreID{2}) {
		t.Errorf("the id of a transaction that was undone: %s, %v", s.ID(), err)
	}
	update(t, s, func(tx core.Tx) error { return tx.Values.SetStore(kept) })
	if err := s.View(t.Context(), func(tx core.Tx) error { return tx.Values.SetStore(kept) }); err == nil {
		t.Error("a view gave the store an id")
	}
}
