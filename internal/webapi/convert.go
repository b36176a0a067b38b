package webapi

import (
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// At returns a time of a record, from Unix milliseconds.
func At(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Maybe returns a time that need not have come: 0 is not yet.
func Maybe(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := At(ms)
	return &t
}

// Texts keeps null out of an answer.
func Texts(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// Exit returns how a command ended; nil if it has not.
func Exit(x *protocol.Exit) *api.Exit {
	if x == nil {
		return nil
	}
	return &api.Exit{
		Code: x.Code, Signal: x.Signal, OOM: x.OOM, TimedOut: x.TimedOut, Cancelled: x.Cancelled, HungUp: x.HungUp, Unrecorded: x.Unrecorded, Error: x.Error,
		Run: (time.Duration(x.RunMS) * time.Millisecond).String(),
	}
}

// Output returns how much a command wrote; nil if that is not known yet.
func Output(all []protocol.Output) []api.Output {
	var out []api.Output
	for _, o := range all {
		x := api.Output{FD: string(o.FD), Bytes: o.Bytes, Dropped: o.Dropped, DropAt: o.DropAt, Ended: o.Ended, Archive: archive(o.Archive)}
		if !o.SHA256.IsZero() {
			x.SHA256 = o.SHA256.String()
		}
		out = append(out, x)
	}
	return out
}

func archive(a *protocol.Archive) *api.Archive {
	if a == nil {
		return nil
	}
	out := &api.Archive{SHA256: a.SHA256.String(), Files: a.Files, Bytes: a.Bytes, List: a.List.String()}
	for _, f := range a.Sums {
		out.Sums = append(out.Sums, api.FileSum{Name: f.Name, Bytes: f.Bytes, SHA256: f.SHA256.String()})
	}
	return out
}

// Container returns a container of a host.
func Container(host protocol.HostID, c protocol.Container) api.Container {
	out := api.Container{
		Host: string(host), Name: c.Name, Runtime: c.Runtime, State: c.State, Intended: c.Intended, Class: c.Class,
		Offline: c.Offline, Broken: c.Broken, Failures: c.Failures, Addresses: Texts(c.Addresses), Labels: Texts(c.Labels),
	}
	if !c.CTID.IsZero() {
		out.CTID = c.CTID.String()
	}
	return out
}
