package sim

import (
	"time"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/protocol"
)

// Device is a fence device of a world.
type Device struct {
	Name  string
	Hosts []string // that it switches
	Level int      // default: 1
	Tries int
	Try   time.Duration
	Delay time.Duration
	// NoStatus tells that it cannot say whether a host is on.
	NoStatus bool
}

// device is a fence device of a play, and what goes wrong with it.
type device struct {
	*play
	Device
	known fence.Device // what the coordinator knows of it
	// hangs tells that no answer comes, lies that an off which it tells to have done does
	// nothing, and mixed that it tells of another host whether that is on.
	hangs, lies, mixed bool
	free               int64 // when it has answered what it was asked last
}

// newDevice is a device that has shown all of its hosts as on.
func newDevice(p *play, d Device) *device {
	known := fence.Device{Name: d.Name, Agent: "fence_sim", Plugged: "plug", Status: !d.NoStatus, On: true, Tries: d.Tries, TryMS: d.Try.Milliseconds(), DelayMS: d.Delay.Milliseconds()}
	for _, h := range d.Hosts {
		known.Targets = append(known.Targets, fence.Target{Host: protocol.HostID(h), Plug: h, Level: d.Level, SeenMS: 1})
	}
	return &device{play: p, Device: d, known: known}
}

// Times of devices, ms: the longest answer is one of a slow controller.
const (
	quickest = 100
	slowest  = 3000
)

// ask has the device do something for a host, and answer. A device that hangs may have
// done it.
func (d *device) ask(verb fence.Verb, x *host, answer func(out fence.Outcome, took int64)) {
	took := quickest + d.rand.Int64N(slowest)
	done, hangs := true, d.hangs || d.head.cut
	if hangs {
		done = d.hangs && d.rand.IntN(2) == 0
	}
	limit := d.Try.Milliseconds()
	d.free = d.now + min(took, limit)
	if hangs {
		d.free = d.now + limit
	}
	out, spent := fence.OutcomeTimeout, d.free-d.now
	d.in(took, func() {
		if done {
			out = d.do(verb, x)
		}
	})
	d.in(spent, func() {
		if hangs || took > limit {
			out = fence.OutcomeTimeout
		}
		answer(out, spent)
	})
}

// do is what happens at the plug.
func (d *device) do(verb fence.Verb, x *host) fence.Outcome {
	switch verb {
	case fence.Off:
		if !d.lies {
			d.log("device %s switches %s off", d.Name, x.Name)
			x.outlet = true
			x.powerOff()
		}
	case fence.On:
		if d.log("device %s switches %s on", d.Name, x.Name); x.outlet {
			x.outlet = false
			x.power()
		}
	case fence.Status:
		if d.mixed {
			x = d.other(x)
		}
		if !x.on {
			return fence.OutcomeOff
		}
	}
	return fence.OutcomeOK
}

// other is the next host of the device.
func (d *device) other(x *host) *host {
	for i, name := range d.Hosts {
		if name == x.Name {
			return d.byName[protocol.HostID(d.Hosts[(i+1)%len(d.Hosts)])]
		}
	}
	return x
}
