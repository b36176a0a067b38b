package fencing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// book holds all devices, by name. It is one value of the store. Secrets are not in it:
// it names the files that hold them.
type book struct {
	Number  uint64         `json:"number"` // of changes
	Devices []fence.Device `json:"devices"`
}

const bookValue = "fence.devices"

func readBook(tx core.Tx) (b book, err error) {
	_, err = core.GetJSON(tx, bookValue, &b)
	return b, err
}

// Devices lists the devices, by name.
func (r *Room) Devices() []fence.Device {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.devices)
}

func (r *Room) device(name string) (fence.Device, bool) {
	for _, d := range r.Devices() {
		if d.Name == name {
			return d, true
		}
	}
	return fence.Device{}, false
}

// Device returns the device of a name.
func (r *Room) Device(name string) (fence.Device, error) {
	d, ok := r.device(name)
	if !ok {
		return d, fmt.Errorf("fence device %.63q: %w", name, core.ErrNotFound)
	}
	return d, nil
}

// Tag names a device as people have set it, in an ETag. What looking at it has found is not in it.
func Tag(d fence.Device) string {
	d.CheckedMS, d.Trouble, d.Targets = 0, "", slices.Clone(d.Targets)
	for i := range d.Targets {
		d.Targets[i].SeenMS, d.Targets[i].Unusable = 0, ""
	}
	return core.Tag(d)
}

// asRead refuses a change of a device that is not as the requester has read it, see [core.AsRead].
func (b *book) asRead(name, as string) error {
	is := ""
	if i := slices.IndexFunc(b.Devices, func(d fence.Device) bool { return d.Name == name }); i >= 0 {
		is = Tag(b.Devices[i])
	}
	return core.AsRead(fmt.Sprintf("fence device %.63q", name), as, is)
}

// change makes a change of the devices durable.
func (r *Room) change(ctx context.Context, fn func(tx core.Tx, b *book) error) error {
	var b book
	err := r.base.Update(ctx, failpoint.FenceDevicesSet, func(tx core.Tx) (err error) {
		if b, err = readBook(tx); err != nil {
			return err
		}
		b.Number++
		if err := fn(tx, &b); err != nil {
			return err
		}
		return core.PutJSON(tx, bookValue, b)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	if b.Number > r.number {
		r.devices, r.number = b.Devices, b.Number
	}
	r.mu.Unlock()
	r.base.Wake.Fire(core.EventsKey{})
	return nil
}

// SetDevice adds a device, or replaces the one of its name. Its program must be there and
// describe itself; then it is asked about its hosts, see [Room.Test]. as is the [Tag] of the
// device that the requester has read; of empty any will do, or none.
func (r *Room) SetDevice(ctx context.Context, by core.Actor, d fence.Device, as string) (fence.Device, error) {
	if err := r.base.Allow(by, core.RoleAdmin, "set fence devices"); err != nil {
		return d, err
	}
	refuse := func(err error) (fence.Device, error) {
		return d, fmt.Errorf("%w: fence device %.63q: %w", core.ErrInvalid, d.Name, err)
	}
	d.AddedBy, d.AddedMS, d.CheckedMS, d.Trouble = by.LogName(), r.base.NowMS(), 0, ""
	for i := range d.Targets {
		d.Targets[i].SeenMS, d.Targets[i].Unusable = 0, ""
	}
	if err := fence.CheckName(d.Name); err != nil {
		return refuse(err)
	}
	if err := describe(ctx, r, &d); err != nil {
		return refuse(err)
	}
	if _, err := r.call(&d, "status", "", ""); err != nil {
		return refuse(err)
	}
	err := r.change(ctx, func(tx core.Tx, b *book) error {
		if err := b.asRead(d.Name, as); err != nil {
			return err
		}
		for _, host := range append(hostsOf(&d), string(d.Via)) {
			if _, err := tx.Hosts.Get(protocol.HostID(host)); err != nil && host != "" {
				return fmt.Errorf("host %s: %w", host, core.ErrUnknownHost)
			}
		}
		b.Devices = slices.DeleteFunc(b.Devices, func(x fence.Device) bool { return x.Name == d.Name })
		b.Devices = append(b.Devices, d)
		slices.SortFunc(b.Devices, func(x, y fence.Device) int { return strings.Compare(x.Name, y.Name) })
		if len(b.Devices) > fence.MaxDevices {
			return fmt.Errorf("%w: there are %d fence devices, and no more can be", core.ErrInvalid, fence.MaxDevices)
		}
		detail := map[string]any{"agent": d.Agent, "via": string(d.Via), "hosts": hostsOf(&d), "params": slices.Sorted(maps.Keys(d.Params)), "secrets": slices.Sorted(maps.Keys(d.Secrets))}
		return errors.Join(r.base.Audit(tx, by, "fence.device_set", d.Name, detail), r.base.Event(tx, "fence.device_set", "", d.Name, detail))
	})
	if err != nil {
		return d, err
	}
	return r.look(ctx, d.Name)
}

// fits refuses a device that its program cannot use: parameters that it does not know are
// most often typing errors, and it would ignore them.
func fits(d *fence.Device, m agents.Metadata) error {
	plain := func(key string) string { return strings.ReplaceAll(key, "-", "_") }
	given := make(map[string]bool)
	for _, all := range []map[string]string{d.Params, d.Secrets} {
		for key := range all {
			given[plain(key)] = true
			if !slices.Contains(m.Params, plain(key)) && !slices.Contains(m.Params, key) {
				return fmt.Errorf("%s knows no parameter %s; see: %s --help", d.Agent, key, d.Agent)
			}
		}
	}
	for _, key := range m.Required {
		if !given[plain(key)] {
			return fmt.Errorf("%s needs parameter %s", d.Agent, key)
		}
	}
	for _, t := range d.Targets {
		if t.Plug != "" && m.Plug == "" {
			return fmt.Errorf("%s knows no plugs, so host %s has none", d.Agent, t.Host)
		}
	}
	return nil
}

func hostsOf(d *fence.Device) (all []string) {
	for _, t := range d.Targets {
		all = append(all, string(t.Host))
	}
	return all
}

// RemoveDevice removes a device. as is as for [Room.SetDevice].
func (r *Room) RemoveDevice(ctx context.Context, by core.Actor, name, as string) error {
	if err := r.base.Allow(by, core.RoleAdmin, "remove fence devices"); err != nil {
		return err
	}
	return r.change(ctx, func(tx core.Tx, b *book) error {
		if err := b.asRead(name, as); err != nil {
			return err
		}
		n := len(b.Devices)
		if b.Devices = slices.DeleteFunc(b.Devices, func(x fence.Device) bool { return x.Name == name }); len(b.Devices) == n {
			return fmt.Errorf("fence device %.63q: %w", name, core.ErrNotFound)
		}
		return errors.Join(r.base.Audit(tx, by, "fence.device_removed", name, nil), r.base.Event(tx, "fence.device_removed", "", name, nil))
	})
}

// Test asks a device for the status of each of its hosts. One that names a host as off that
// talks to the coordinator is not used for it any more, until a test finds otherwise.
// Nothing is switched.
func (r *Room) Test(ctx context.Context, by core.Actor, name string) (fence.Device, error) {
	if err := r.base.Allow(by, core.RoleOperator, "test fence devices"); err != nil {
		return fence.Device{}, err
	}
	return r.look(ctx, name)
}

// look asks a device about its hosts, and stores what it says.
func (r *Room) look(ctx context.Context, name string) (fence.Device, error) {
	d, err := r.Device(name)
	if err != nil {
		return d, err
	}
	type finding struct {
		heard             bool
		unusable, trouble string
	}
	found := make(map[protocol.HostID]finding)
	for _, t := range d.Targets {
		before := r.heardNow(t.Host)
		res, err := r.status(ctx, &d, t)
		if err != nil {
			return d, err
		}
		f := finding{heard: before && r.heardNow(t.Host)}
		f.unusable, f.trouble = fence.MustSayOn(t.Host, res.Outcome, res.Text)
		if !f.heard {
			f.unusable = "" // of a host that is silent it may be right
		}
		found[t.Host] = f
	}
	var fresh fence.Device
	var wrong []string
	err = r.change(ctx, func(tx core.Tx, b *book) error {
		wrong = nil
		i := slices.IndexFunc(b.Devices, func(x fence.Device) bool { return x.Name == name })
		if i < 0 {
			return fmt.Errorf("fence device %.63q: %w", name, core.ErrNotFound)
		}
		x := &b.Devices[i]
		x.Targets = slices.Clone(x.Targets)
		x.CheckedMS, x.Trouble = r.base.NowMS(), ""
		for n := range x.Targets {
			t := &x.Targets[n]
			f, ok := found[t.Host]
			switch {
			case !ok:
			case f.trouble != "":
				x.Trouble = f.trouble
			case f.heard && f.unusable == "":
				t.SeenMS, t.Unusable = x.CheckedMS, ""
			case f.heard:
				if t.Unusable == "" {
					wrong = append(wrong, string(t.Host))
				}
				t.Unusable = f.unusable
			}
		}
		fresh = *x
		for _, host := range wrong {
			detail := map[string]any{"host": host, "why": found[protocol.HostID(host)].unusable}
			if err := errors.Join(r.base.Audit(tx, core.Self(), "fence.device_unusable", name, detail), r.base.Event(tx, "fence.device_unusable", protocol.HostID(host), name, detail)); err != nil {
				return err
			}
		}
		return nil
	})
	return fresh, err
}

// heardNow reports whether a host talks to us.
func (r *Room) heardNow(host protocol.HostID) bool {
	heard, _, _ := r.cfg.Workloads.Heard(host)
	return heard > 0 && r.base.Boot()-heard < r.cfg.TTL.Milliseconds()/2
}

func (r *Room) status(ctx context.Context, d *fence.Device, t fence.Target) (agents.Result, error) {
	verb := "monitor" // all that a device without a status can be asked
	if d.Status {
		verb = string(fence.Status)
	}
	call, err := r.call(d, verb, string(t.Host), t.Plug)
	if err != nil {
		return agents.Result{Outcome: fence.OutcomeFailed, Text: err.Error()}, nil
	}
	defer r.lock(d.Name)()
	res := r.run(ctx, d, call)
	return res, context.Cause(ctx)
}

// auditLoop asks every device about its hosts again and again: a cable that was moved is
// found before the device switches off the wrong host. A device that does not answer takes its
// time for each of its hosts, and the others are not to wait for that.
func (r *Room) auditLoop(ctx context.Context) error {
	t := time.NewTicker(auditEvery)
	defer t.Stop()
	looked := make(map[string]int64) // when each device was looked at last, boot clock
	var under sync.Map               // devices that are looked at now
	var looks errgroup.Group
	looks.SetLimit(auditAtOnce)
	for {
		select {
		case <-ctx.Done():
			return looks.Wait()
		case <-t.C:
		}
		for _, d := range r.Devices() {
			if !due(r, &d, looked[d.Name]) {
				continue
			}
			if _, still := under.LoadOrStore(d.Name, true); still {
				continue
			}
			looked[d.Name] = r.base.Boot()
			looks.Go(func() error {
				defer under.Delete(d.Name)
				if _, err := r.look(ctx, d.Name); err != nil && ctx.Err() == nil && !errors.Is(err, core.ErrNotFound) {
					r.base.Log.ErrorContext(ctx, "cannot look at a fence device; it is tried again", "device", d.Name, "err", err)
				}
				return nil
			})
		}
	}
}

// due reports whether a device is to be looked at now. One that another host asks is looked at
// when its last look was long ago, or says nothing of now: the device did not answer, it is not
// used for a host that is heard, or a host is back, which may have another cable since. The date
// of the last look says nothing: dates step.
func due(r *Room, d *fence.Device, lookedMS int64) bool {
	if d.Via == "" || d.Trouble != "" || lookedMS == 0 || r.base.Boot()-lookedMS >= auditOthersEvery.Milliseconds() {
		return true
	}
	return slices.ContainsFunc(d.Targets, func(t fence.Target) bool {
		_, anew, _ := r.cfg.Workloads.Heard(t.Host)
		return r.heardNow(t.Host) && (d.Usable(t) != "" || anew >= lookedMS)
	})
}
