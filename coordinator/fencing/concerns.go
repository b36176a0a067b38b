package fencing

import (
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/protocol"
)

// Concerns are the alerts about hosts that follow from fencing, by host: what waits for a
// person, hosts that are kept out, and devices that cannot be used.
func (r *Room) Concerns() map[protocol.HostID][]protocol.AlertInfo {
	all := make(map[protocol.HostID][]protocol.AlertInfo)
	now := r.base.NowMS()
	add := func(host protocol.HostID, code warnings.Code, subject, text string) {
		all[host] = append(all[host], warnings.New(code, subject, text, now))
	}
	held := make(map[protocol.HostID]string)
	for _, d := range r.Held() {
		held[d.Host] = "it is held back: " + d.Held
	}
	for _, h := range r.cfg.Workloads.Suspects() {
		why := held[h.ID]
		if why == "" && h.Lost && h.Silent >= r.cfg.TTL+r.cfg.Policy.Grace && r.Closed(h.ID) == "" && len(fence.Plan(r.Devices(), h.ID)) == 0 {
			why = r.noDevice(h.ID)
		}
		var names []string
		for _, w := range h.Work {
			if !w.ByLease || w.Stuck {
				names = append(names, w.Name)
			}
		}
		if why != "" && len(names) > 0 {
			add(h.ID, warnings.FenceNeeded, "", fmt.Sprintf("%s cannot start elsewhere: %s", strings.Join(names, ", "), why))
		}
	}
	for _, o := range r.Ops() {
		if o.Closes() && o.State.Ended() && len(all[o.Host]) == 0 {
			add(o.Host, warnings.HostFenced, "", "it is "+word(&o)+": "+o.Proof)
		}
	}
	for _, d := range r.Devices() {
		for _, t := range d.Targets {
			switch {
			case t.Unusable != "":
				add(t.Host, warnings.FenceDevice, d.Name, "fence device "+d.Name+" is not used: "+t.Unusable)
			case d.Trouble != "":
				add(t.Host, warnings.FenceDevice, d.Name, "fence device "+d.Name+" does not answer: "+d.Trouble)
			}
		}
	}
	return all
}

// Standing says in a few words what is known of a host here; empty if nothing is.
func (r *Room) Standing(h core.Host) string {
	if closed := r.Closed(h.ID); closed != "" {
		return closed
	}
	for _, d := range r.Held() {
		if d.Host == h.ID {
			return "would be fenced, and is held back: " + d.Held
		}
	}
	first := r.cfg.Policy.First(fence.Host{ID: h.ID, Site: siteOf(h), Pinned: pinned(h)})
	switch n := len(fence.Plan(r.Devices(), h.ID)); n {
	case 0:
		return ""
	case 1:
		return "1 fence device can switch it off; " + first
	default:
		return fmt.Sprintf("%d fence devices can switch it off; %s", n, first)
	}
}
