package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/protocol"
)

// get returns a copy of a row.
func get[K comparable, V any](t *memTx, rows map[K]V, key K, clone func(V) V) (V, error) {
	var none V
	if err := t.read(); err != nil {
		return none, err
	}
	v, ok := rows[key]
	if !ok {
		return none, fmt.Errorf("%v: %w", key, core.ErrNotFound)
	}
	return clone(v), nil
}

// pick returns copies of the rows that match, in the order of compare.
func pick[K comparable, V any](t *memTx, rows map[K]V, clone func(V) V, limit int, match func(V) bool, compare func(a, b V) int) ([]V, error) {
	if err := t.read(); err != nil {
		return nil, err
	}
	var all []V
	for v := range maps.Values(rows) {
		if match(v) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, compare)
	all = all[:min(len(all), max(limit, 0))]
	for i, v := range all {
		all[i] = clone(v)
	}
	return slices.Clip(all), nil
}

func same[V any](v V) V { return v }

func any1[V any](V) bool { return true }

// fits tells whether the numbers fit into a column of a database.
func fits(numbers ...uint64) error {
	if n := slices.Max(numbers); n > math.MaxInt64 {
		return fmt.Errorf("number %d: %w", n, core.ErrInvalid)
	}
	return nil
}

type memHosts struct{ *memTx }

func cloneHost(h core.Host) core.Host {
	h.PublicKey = bytes.Clone(h.PublicKey)
	h.Labels = slices.Clone(h.Labels)
	h.Former, h.CSR = slices.Clone(h.Former), bytes.Clone(h.CSR)
	h.Inventory.Host.Interfaces = slices.Clone(h.Inventory.Host.Interfaces)
	for i, v := range h.Inventory.Host.Interfaces {
		h.Inventory.Host.Interfaces[i].Addresses = slices.Clone(v.Addresses)
	}
	h.Inventory.Host.Unsupported = slices.Clone(h.Inventory.Host.Unsupported)
	h.Inventory.Containers = slices.Clone(h.Inventory.Containers)
	for i, c := range h.Inventory.Containers {
		h.Inventory.Containers[i].Addresses = slices.Clone(c.Addresses)
		h.Inventory.Containers[i].Labels = slices.Clone(c.Labels)
	}
	h.Inventory.Alerts = slices.Clone(h.Inventory.Alerts)
	return h
}

func (t memHosts) Get(id protocol.HostID) (core.Host, error) {
	return get(t.memTx, t.hosts.rows, id, cloneHost)
}

func (t memHosts) Standing(id protocol.HostID) (core.Host, error) {
	h, err := t.Get(id)
	h.PublicKey, h.Labels, h.Inventory = nil, nil, core.Inventory{}
	h.Former, h.CSR, h.Awaits, h.Availability = nil, nil, "", core.Availability{}
	return h, err
}

func (t memHosts) Put(h core.Host) error {
	if err := cmp.Or(t.write(), fits(h.AcceptSeq, h.Adopted.Inc, h.Adopted.Conn, h.Adopted.K)); err != nil {
		return err
	}
	for _, other := range t.hosts.rows {
		if other.Key == h.Key && other.ID != h.ID {
			return fmt.Errorf("host %s with the key of %s: %w", h.ID, other.ID, core.ErrExists)
		}
	}
	t.hosts.change(t.memTx)[h.ID] = cloneHost(h)
	return nil
}

func (t memHosts) List(after protocol.HostID, limit int) ([]core.Host, error) {
	return pick(t.memTx, t.hosts.rows, cloneHost, limit,
		func(h core.Host) bool { return h.ID > after },
		func(a, b core.Host) int { return cmp.Compare(a.ID, b.ID) })
}

func (t memHosts) Names(state core.HostState) ([]protocol.HostID, error) {
	all, err := pick(t.memTx, t.hosts.rows, same, len(t.hosts.rows),
		func(h core.Host) bool { return h.State == state },
		func(a, b core.Host) int { return cmp.Compare(a.ID, b.ID) })
	var ids []protocol.HostID
	for _, h := range all {
		ids = append(ids, h.ID)
	}
	return ids, err
}

func (t memHosts) Containers() (map[string]int, error) {
	n := make(map[string]int)
	for _, h := range t.hosts.rows {
		if h.State != core.HostApproved {
			continue
		}
		for _, c := range h.Inventory.Containers {
			n[c.State]++
		}
	}
	return n, t.read()
}

type memEnrolments struct{ *memTx }

func cloneInvite(v core.Invite) core.Invite {
	v.Secret, v.Labels = bytes.Clone(v.Secret), slices.Clone(v.Labels)
	return v
}

func (t memEnrolments) Invite(id string) (core.Invite, error) {
	return get(t.memTx, t.invites.rows, id, cloneInvite)
}

func (t memEnrolments) PutInvite(v core.Invite) error {
	if err := t.write(); err != nil {
		return err
	}
	t.invites.change(t.memTx)[v.ID] = cloneInvite(v)
	return nil
}

func cloneEnrolment(e core.Enrolment) core.Enrolment {
	e.PublicKey, e.CSR, e.Offer = bytes.Clone(e.PublicKey), bytes.Clone(e.CSR), bytes.Clone(e.Offer)
	e.Labels, e.Certificate = slices.Clone(e.Labels), bytes.Clone(e.Certificate)
	return e
}

func byAge(a, b core.Enrolment) int {
	return cmp.Or(cmp.Compare(a.CreatedMS, b.CreatedMS), cmp.Compare(a.ID, b.ID))
}

func (t memEnrolments) Get(id string) (core.Enrolment, error) {
	return get(t.memTx, t.enrolments.rows, id, cloneEnrolment)
}

func (t memEnrolments) ByKey(key protocol.KeyID) (core.Enrolment, error) {
	newest, err := pick(t.memTx, t.enrolments.rows, cloneEnrolment, 1,
		func(e core.Enrolment) bool { return e.Key == key },
		func(a, b core.Enrolment) int { return byAge(b, a) })
	if err == nil && len(newest) == 0 {
		err = fmt.Errorf("enrolment of key %s: %w", key, core.ErrNotFound)
	}
	if err != nil {
		return core.Enrolment{}, err
	}
	return newest[0], nil
}

func (t memEnrolments) Put(e core.Enrolment) error {
	if err := t.write(); err != nil {
		return err
	}
	t.enrolments.change(t.memTx)[e.ID] = cloneEnrolment(e)
	return nil
}

func (t memEnrolments) List(state core.EnrolmentState, limit int) ([]core.Enrolment, error) {
	return pick(t.memTx, t.enrolments.rows, cloneEnrolment, limit,
		func(e core.Enrolment) bool { return state == "" || e.State == state }, byAge)
}

type memActions struct{ *memTx }

func cloneAction(a core.Action) core.Action {
	a.Spec, a.Conflict, a.Output = bytes.Clone(a.Spec), bytes.Clone(a.Conflict), slices.Clone(a.Output)
	if a.Exit != nil {
		a.Exit = new(*a.Exit)
	}
	a.Needs, a.Approvals = slices.Clone(a.Needs), slices.Clone(a.Approvals)
	for i := range a.Needs {
		a.Needs[i].From = slices.Clone(a.Needs[i].From)
	}
	for i := range a.Approvals {
		o := &a.Approvals[i].Signed
		o.Signed, o.Path = bytes.Clone(o.Signed), bytes.Clone(o.Path)
	}
	return a
}

func olderFirst(a, b core.Action) int { return bytes.Compare(a.ID[:], b.ID[:]) }

func newerFirst(a, b core.Action) int { return olderFirst(b, a) }

func (t memActions) Get(id protocol.ActionID) (core.Action, error) {
	return get(t.memTx, t.actions.rows, id, cloneAction)
}

func (t memActions) Count() (map[protocol.State]int, error) {
	n := make(map[protocol.State]int)
	for _, a := range t.actions.rows {
		n[a.State]++
	}
	return n, t.read()
}

func (t memActions) Insert(a core.Action) error {
	if _, ok := t.actions.rows[a.ID]; ok {
		return fmt.Errorf("action %s: %w", a.ID, core.ErrExists)
	}
	if err := t.keep(a); err != nil {
		return err
	}
	t.lastAsked++
	t.asked.change(t.memTx)[a.ID] = t.lastAsked
	return nil
}

func (t memActions) Put(a core.Action) error {
	if _, ok := t.actions.rows[a.ID]; !ok {
		return fmt.Errorf("action %s: %w", a.ID, core.ErrNotFound)
	}
	return t.keep(a)
}

func (t memActions) keep(a core.Action) error {
	if err := cmp.Or(t.write(), fits(a.N, a.AcceptSeq)); err != nil {
		return err
	}
	t.actions.change(t.memTx)[a.ID] = cloneAction(a)
	return nil
}

func (t memActions) Find(part string, limit int) ([]protocol.ActionID, error) {
	found, err := pick(t.memTx, t.actions.rows, same[core.Action], limit,
		func(a core.Action) bool {
			return strings.HasPrefix(a.ID.String(), part) || strings.HasSuffix(a.ID.String(), part)
		}, olderFirst)
	var ids []protocol.ActionID
	for _, a := range found {
		ids = append(ids, a.ID)
	}
	return ids, err
}

func (t memActions) List(f core.ActionFilter) ([]core.Action, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	return pick(t.memTx, t.actions.rows, cloneAction, f.Limit, func(a core.Action) bool {
		return (f.Host == "" || a.Host == f.Host) &&
			(f.Target.IsZero() || a.Target == f.Target) &&
			(f.Batch.IsZero() || a.Batch == f.Batch) &&
			(len(f.States) == 0 || slices.Contains(f.States, a.State)) &&
			(f.Before.IsZero() || bytes.Compare(a.ID[:], f.Before[:]) < 0)
	}, newerFirst)
}

func (t memActions) Unsent(host protocol.HostID, on protocol.Stream, limit int) ([]core.Action, error) {
	return pick(t.memTx, t.actions.rows, cloneAction, limit, func(a core.Action) bool {
		return a.Host == host && a.State == protocol.StatePendingSchedule && a.Unnumbered() && core.StreamOf(a.Kind) == on
	}, func(a, b core.Action) int { return cmp.Compare(t.asked.rows[a.ID], t.asked.rows[b.ID]) })
}

func (t memActions) Expired(nowMS int64, limit int) ([]core.Action, error) {
	return pick(t.memTx, t.actions.rows, cloneAction, limit, func(a core.Action) bool {
		waits := a.State == protocol.StatePendingApprove || a.State == protocol.StatePendingSchedule
		return waits && a.Unnumbered() && a.ExpiresMS < nowMS
	}, func(a, b core.Action) int {
		return cmp.Or(cmp.Compare(a.ExpiresMS, b.ExpiresMS), olderFirst(a, b))
	})
}

type memStreams struct{ *memTx }

type memOutputs struct{ *memTx }

func (t memStreams) Get(host protocol.HostID, stream protocol.Stream) (core.StreamState, error) {
	s := t.streams.rows[streamKey{host, stream}]
	s.Host, s.Pos.Stream, s.Freed.Stream = host, stream, stream
	return s, t.read()
}

func (t memStreams) Put(s core.StreamState) error {
	if err := cmp.Or(t.write(), fits(s.Pos.N, s.Freed.N)); err != nil {
		return err
	}
	t.streams.change(t.memTx)[streamKey{s.Host, s.Pos.Stream}] = s
	return nil
}

func (t memStreams) Append(host protocol.HostID, stream protocol.Stream, it core.Item) error {
	if err := cmp.Or(t.write(), fits(it.N)); err != nil {
		return err
	}
	key := itemKey{streamKey{host, stream}, it.N}
	if _, ok := t.items.rows[key]; ok {
		return fmt.Errorf("item %d of host %s: %w", it.N, host, core.ErrExists)
	}
	t.items.change(t.memTx)[key] = cloneItem(it)
	return nil
}

func cloneItem(it core.Item) core.Item {
	it.Item = bytes.Clone(it.Item)
	return it
}

func (t memStreams) Items(host protocol.HostID, stream protocol.Stream, first, last uint64) ([]core.Item, error) {
	mine := make(map[uint64]core.Item)
	for key, it := range t.items.rows {
		if key.streamKey == (streamKey{host, stream}) {
			mine[key.n] = it
		}
	}
	return pick(t.memTx, mine, cloneItem, len(mine),
		func(it core.Item) bool { return it.N >= first && it.N <= last },
		func(a, b core.Item) int { return cmp.Compare(a.N, b.N) })
}

func (t memStreams) Free(host protocol.HostID, stream protocol.Stream, n uint64) error {
	if err := t.write(); err != nil {
		return err
	}
	maps.DeleteFunc(t.items.change(t.memTx), func(key itemKey, _ core.Item) bool {
		return key.streamKey == streamKey{host, stream} && key.n <= n
	})
	return nil
}

func (t memOutputs) Get(action protocol.ActionID, attempt int, fd protocol.FD) (core.OutputState, error) {
	return t.outputs.rows[outputKey{action, attempt, fd}], t.read()
}

func (t memOutputs) Put(o core.OutputState) error {
	if err := t.write(); err != nil {
		return err
	}
	t.outputs.change(t.memTx)[outputKey{o.Action, o.Attempt, o.FD}] = o
	return nil
}

type memAccess struct{ *memTx }

func (t memAccess) Token(id string) (core.Token, error) {
	return get(t.memTx, t.tokens.rows, id, same)
}

func (t memAccess) TokenByHash(hash protocol.Digest) (core.Token, error) {
	for _, k := range t.tokens.rows {
		if k.Hash == hash {
			return k, t.read()
		}
	}
	return core.Token{}, cmp.Or(t.read(), fmt.Errorf("token by its hash: %w", core.ErrNotFound))
}

func (t memAccess) PutToken(k core.Token) error {
	if err := t.write(); err != nil {
		return err
	}
	for _, other := range t.tokens.rows {
		if other.Hash == k.Hash && other.ID != k.ID {
			return fmt.Errorf("token %s with the secret of %s: %w", k.ID, other.ID, core.ErrExists)
		}
	}
	t.tokens.change(t.memTx)[k.ID] = k
	return nil
}

func (t memAccess) Tokens() ([]core.Token, error) {
	return pick(t.memTx, t.tokens.rows, same, len(t.tokens.rows), any1,
		func(a, b core.Token) int { return cmp.Compare(a.ID, b.ID) })
}

func (t memAccess) Viewer(name string) (core.Viewer, error) {
	return get(t.memTx, t.viewers.rows, name, same)
}

func (t memAccess) PutViewer(v core.Viewer) error {
	if err := t.write(); err != nil {
		return err
	}
	t.viewers.change(t.memTx)[v.Name] = v
	return nil
}

func (t memAccess) Viewers() ([]core.Viewer, error) {
	return pick(t.memTx, t.viewers.rows, same, len(t.viewers.rows), any1,
		func(a, b core.Viewer) int { return cmp.Compare(a.Name, b.Name) })
}

type memEvents struct{ *memTx }

func (t memEvents) Append(e core.Event) (uint64, error) {
	if err := t.write(); err != nil {
		return 0, err
	}
	t.lastEvent++
	e.ID, e.Data = t.lastEvent, bytes.Clone(e.Data)
	t.events.change(t.memTx)[e.ID] = e
	return e.ID, nil
}

func (t memEvents) List(after uint64, limit int) ([]core.Event, error) {
	return pick(t.memTx, t.events.rows,
		func(e core.Event) core.Event { e.Data = bytes.Clone(e.Data); return e }, limit,
		func(e core.Event) bool { return e.ID > after },
		func(a, b core.Event) int { return cmp.Compare(a.ID, b.ID) })
}

func (t memEvents) Restart(n uint64) error {
	if err := cmp.Or(t.write(), fits(n)); err != nil {
		return err
	}
	clear(t.events.change(t.memTx))
	t.lastEvent = n
	return nil
}

func (t memEvents) Last() (uint64, error) { return t.lastEvent, t.read() }

func (t memEvents) Trim(upTo uint64) error {
	if err := t.write(); err != nil {
		return err
	}
	maps.DeleteFunc(t.events.change(t.memTx), func(id uint64, _ core.Event) bool { return id <= upTo })
	return nil
}

type memValues struct{ *memTx }

func (t memValues) Get(name string) ([]byte, error) {
	return get(t.memTx, t.values.rows, name, bytes.Clone)
}

func (t memValues) Put(name string, value []byte) error {
	if err := t.write(); err != nil {
		return err
	}
	t.values.change(t.memTx)[name] = bytes.Clone(value)
	return nil
}

func (t memValues) SetStore(id protocol.StoreID) error {
	if err := t.write(); err != nil {
		return err
	}
	t.id = id
	return nil
}

type memWorkloads struct{ *memTx }

func (t memWorkloads) Get(id protocol.CTID) (core.Workload, error) {
	return get(t.memTx, t.workloads.rows, id, func(w core.Workload) core.Workload { return w })
}

func (t memWorkloads) Put(w core.Workload) error {
	if err := t.write(); err != nil {
		return err
	}
	t.workloads.change(t.memTx)[w.CTID] = w
	return nil
}

func (t memWorkloads) Remove(id protocol.CTID) error {
	if err := t.write(); err != nil {
		return err
	}
	delete(t.workloads.change(t.memTx), id)
	return nil
}

func (t memWorkloads) List() ([]core.Workload, error) {
	if err := t.read(); err != nil {
		return nil, err
	}
	all := slices.Collect(maps.Values(t.workloads.rows))
	slices.SortFunc(all, func(a, b core.Workload) int { return strings.Compare(a.CTID.String(), b.CTID.String()) })
	return all, nil
}

type memFences struct{ *memTx }

func (t memFences) Put(o fence.Op) error {
	if err := t.write(); err != nil {
		return err
	}
	t.fences.change(t.memTx)[o.ID] = o
	return nil
}

func (t memFences) Remove(id string) error {
	if err := t.write(); err != nil {
		return err
	}
	delete(t.fences.change(t.memTx), id)
	return nil
}

func (t memFences) List() ([]fence.Op, error) {
	if err := t.read(); err != nil {
		return nil, err
	}
	all := slices.Collect(maps.Values(t.fences.rows))
	slices.SortFunc(all, func(a, b fence.Op) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
