package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
)

// finding is what one check has found.
type finding struct {
	Object string `json:"object"` // this machine, the coordinator, host edge-01
	api.Finding
}

// report collects findings about one object.
type report struct {
	object string
	all    []finding
}

// check notes a check whose cause is empty if all is well.
func (r *report) check(name, result, cause, mend string) {
	f := finding{r.object, api.Finding{Check: name, Result: api.FindingOK}}
	if cause != "" {
		f.Result, f.Cause, f.Mend = result, cause, mend
	}
	r.all = append(r.all, f)
}

// Bounds of what is well.
const (
	maxClockOffset = 2 * time.Second
	leastFree      = 10 // percent of a disk
)

// clock says what is wrong with an offset between two clocks.
func clock(offset time.Duration, of string) string {
	if offset.Abs() <= maxClockOffset {
		return ""
	}
	return fmt.Sprintf("%s differs by %s; people read its times, and nothing else depends on it", of, offset.Round(time.Second))
}

// examineFleet looks at what the coordinator tells of itself. offset is how far this
// machine's clock is ahead of the coordinator's, ring the newest that this machine has.
func examineFleet(s api.Status, offset time.Duration, version string, ring uint64) []finding {
	r := report{object: "coordinator"}
	r.check("recovery", api.FindingFailed, s.Recovery, "hostler-coordinator recover    # on the machine of the coordinator")
	behind := ""
	if s.Recovered != nil && s.Recovered.Answered < s.Recovered.Hosts {
		behind = fmt.Sprintf("%d of %d hosts have not told yet what they did before the recovery", s.Recovered.Hosts-s.Recovered.Answered, s.Recovered.Hosts)
	}
	r.check("recovered", api.FindingWarning, behind, "hostler host ls    # start those that are away")
	older := ""
	if ring > s.Ring {
		older = fmt.Sprintf("it has ring %d in force, and this machine has ring %d", s.Ring, ring)
	}
	r.check("ring", api.FindingFailed, older, "hostler fleet ring publish")
	r.check("clock", api.FindingWarning, clock(offset, "the clock of this machine"), "timedatectl set-ntp true    # on the machine whose clock is wrong")
	other := ""
	if s.Version != version {
		other = fmt.Sprintf("the coordinator is of version %s, this program of %s", s.Version, version)
	}
	r.check("version", api.FindingWarning, other, "hostler version    # install the same one")
	pending := ""
	if s.Pending > 0 {
		pending = fmt.Sprintf("%d hosts wait for approval", s.Pending)
	}
	r.check("enrolments", api.FindingWarning, pending, "hostler host pending")
	return r.all
}

// examineHost looks at what the coordinator knows of a host.
func examineHost(h api.Host, s api.Status, now time.Time) []finding {
	r := report{object: "host " + h.ID}
	if h.State != "approved" {
		r.check("membership", api.FindingWarning, "it is "+h.State, "hostler host show "+h.ID)
		return r.all
	}
	r.check("membership", api.FindingFailed, "", "")
	r.check("quarantine", api.FindingFailed, h.Quarantined, "hostler host readmit "+h.ID+"    # when the cause is known")
	away := ""
	switch {
	case h.Connectivity == "online":
	case h.SeenAt == nil:
		away = "it was not heard of since the coordinator started"
	default:
		away = fmt.Sprintf("it is %s, last heard of %s ago; it dials %s", h.Connectivity, now.Sub(*h.SeenAt).Round(time.Second), strings.Join(s.Brokers, ", "))
	}
	r.check("connection", api.FindingFailed, away, "hostler --local status    # on the host: does its agent run, and does it reach that address?")
	if h.InventoryAt == nil {
		r.check("inventory", api.FindingWarning, "it has never told its inventory", "hostler host show "+h.ID)
		return r.all
	}
	r.check("state", api.FindingFailed, h.Degraded, "hostler host show "+h.ID+"    # free space on its disk, or repair it")
	for _, missing := range h.Unsupported {
		what, why, _ := strings.Cut(missing, ": ")
		r.check(what, api.FindingWarning, why, "hostler host check "+h.ID+"    # the host looks, and names the command that brings it")
	}
	space := ""
	if h.DiskBytes > 0 && h.DiskFree*100/h.DiskBytes < leastFree {
		space = fmt.Sprintf("%d %% of the disk of its state directory are free", h.DiskFree*100/h.DiskBytes)
	}
	r.check("disk", api.FindingWarning, space, fmt.Sprintf("hostler run %s -- du -xh --max-depth 2 /var", h.ID))
	offset, _ := time.ParseDuration(h.ClockOffset) // of an older coordinator there is none
	r.check("clock", api.FindingWarning, clock(offset, "its clock"), fmt.Sprintf("hostler run %s -- timedatectl set-ntp true", h.ID))
	other := ""
	if h.Version != s.Version {
		other = fmt.Sprintf("its agent is of version %s, the coordinator of %s", h.Version, s.Version)
	}
	r.check("version", api.FindingWarning, other, fmt.Sprintf("hostler host upgrade %s --package FILE    # doc/upgrade.md", h.ID))
	behind := ""
	if h.Connectivity == "online" && h.Ring != 0 && h.Ring < s.Ring {
		behind = fmt.Sprintf("it has ring %d in force, and the coordinator ring %d; who was let in or removed since then is not known there", h.Ring, s.Ring)
	}
	r.check("ring", api.FindingWarning, behind, fmt.Sprintf("hostler run %s -- hostler-agent check    # does it reach the API of the coordinator, where it fetches rings, and can its version read them?", h.ID))
	if h.Policy == nil {
		r.check("policy", api.FindingWarning, "it has not told which policy is in force there", "hostler policy show "+h.ID)
	} else {
		r.check("policy", api.FindingFailed, h.Policy.Broken, "hostler policy show "+h.ID)
	}
	for _, a := range h.ActiveAlerts {
		r.check("alert "+a.ID, api.FindingWarning, a.Text, "hostler host show "+h.ID)
	}
	return r.all
}

// examineContainers looks at the containers of all hosts, or of this one.
func examineContainers(all []api.Container) []finding {
	var found []finding
	for _, c := range all {
		if c.Broken == "" {
			continue
		}
		r := report{object: "container " + strings.TrimPrefix(c.Host+"/"+c.Name, "/")}
		r.check("start", api.FindingFailed, c.Broken, "hostler ct reset "+strings.TrimPrefix(r.object, "container "))
		found = append(found, r.all...)
	}
	return found
}

// examineAgent looks at what the agent of this host tells.
func examineAgent(s api.AgentStatus, version string) []finding {
	r := report{object: "agent"}
	r.check("state", api.FindingFailed, s.Degraded, "hostler --local status    # free space on the disk, or repair it")
	away := ""
	if s.Fleet != "" && s.Connection != "online" {
		away = fmt.Sprintf("it is a member of fleet %s and %s", s.Fleet, map[string]string{"none": "has no connection", "connecting": "gets no connection"}[s.Connection])
	}
	r.check("connection", api.FindingFailed, away, "journalctl -u hostler-agent -n 20    # which address does it dial, and what is the answer?")
	r.check("policy", api.FindingFailed, s.Policy.Broken, "hostler-agent policy show")
	other := ""
	if s.Version != version {
		other = fmt.Sprintf("the agent is of version %s, this program of %s", s.Version, version)
	}
	r.check("version", api.FindingWarning, other, "hostler version    # install the same one")
	return r.all
}
