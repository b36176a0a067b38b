package data

import (
	"fmt"
	"time"
)

// Fence asks a fence device of a host about another host. What the device is told beside it
// stands in a file of the host that asks, and never in a message.
type Fence struct {
	_       struct{} `required:"device,verb,host"`
	Device  string   `json:"device,omitempty" example:"\"pdu-1\"" doc:"Name of the device: DEVICE.toml in the host's directory of fence devices describes it."`
	Verb    string   `json:"verb,omitempty" enum:"describe,status,monitor,on,off" example:"\"status\"" doc:"What is asked for: describe (what the device can do), status, monitor, on, or off."`
	Plug    string   `json:"plug,omitempty" example:"\"4\"" doc:"What the device calls the other host."`
	Host    string   `json:"host,omitempty" example:"\"edge-07\"" doc:"The other host."`
	LimitMS int64    `json:"limit_ms,omitzero" min:"0" max:"600000" example:"60000" doc:"How long the device may take, in milliseconds. 0 is a minute."`
}

// Limit is how long the device may take.
func (f *Fence) Limit() time.Duration {
	if f.LimitMS == 0 {
		return time.Minute
	}
	return time.Duration(f.LimitMS) * time.Millisecond
}

// The longest names, in bytes, as package fence takes them.
const (
	maxFenceName = 63
	maxFencePlug = 128
)

// Check refuses names that no device has.
func (f *Fence) Check() error {
	if len(f.Device) > maxFenceName || len(f.Plug) > maxFencePlug {
		return fmt.Errorf("device, plug: a device has %d bytes, a plug %d at most", maxFenceName, maxFencePlug)
	}
	return nil
}
