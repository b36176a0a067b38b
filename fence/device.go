// Package fence decides how a host is cut off for certain: which fence devices are asked
// in which order, when what they say is believed, and what leads to a fence at all. It is
// pure: what is known and the time go in, what is to be done comes out. Coordinator,
// simulator and tests run the same code.
//
// # Levels
//
// Four things show that a host runs nothing any more: it stops its work and says so, a
// fence device has switched it off, its lease has ended and it has shown a self-fence, or
// a person confirms it. This package is about the second one, and about when it is used
// before the third; package unique takes all four as proof.
package fence

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Bounds of what people configure.
const (
	MaxDevices = 500
	MaxTargets = 200 // hosts of one device
	maxParams  = 32
	maxValue   = 512 // bytes of a parameter
	MaxLevel   = 9
	maxDelay   = 5 * time.Minute
	maxTries   = 5
)

// Defaults of devices. Source: Pacemaker's times (60 s for a device, two executions at
// most), with a limit for each try, which Pacemaker lacks.
const (
	DefaultTry   = 60 * time.Second
	DefaultTries = 2
)

// Target is a host that a device can switch off.
type Target struct {
	Host protocol.HostID `json:"host"`
	// Plug is what the device calls the host; empty if the device is of one host.
	Plug string `json:"plug,omitempty"`
	// Level is when the device is used: level 1 first. All devices of a level must
	// succeed; the next level follows if one of them does not.
	Level int `json:"level"`
	// DelayMS is waited before the first device of the host is used, beside the delay
	// of the device.
	DelayMS int64 `json:"delay_ms,omitempty"`
	// SeenMS is when the device last said that the host is on while the host talked to us
	// (Unix ms): only that shows that it is the device of this host.
	SeenMS int64 `json:"seen_ms,omitempty"`
	// Unusable says why the device is not used for the host: it named the host as off
	// while that talked to us, so it is the device of another one, or it lies.
	Unusable string `json:"unusable,omitempty"`
}

// Device is a fence device: a program of fence-agents, what it is told, and the hosts
// that it can switch off.
type Device struct {
	Name  string `json:"name"`
	Agent string `json:"agent"` // the program, such as fence_ipmilan
	// Via is the host that asks the device, because the coordinator does not reach it. That
	// host knows what the device is told: Params and Secrets are empty then. Empty: the
	// coordinator asks it.
	Via     protocol.HostID   `json:"via,omitempty"`
	Params  map[string]string `json:"params,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty"` // parameter → name of the file that holds its value
	Targets []Target          `json:"targets"`
	// DelayMS is waited before the device is used first for a host, and up to RandomMS
	// more, by chance.
	DelayMS  int64 `json:"delay_ms,omitempty"`
	RandomMS int64 `json:"random_ms,omitempty"`
	// Tries is how often an off is sent at most, and TryMS how long each may take.
	Tries int   `json:"tries"`
	TryMS int64 `json:"try_ms"`
	// Plugged tells that the program wants to know the plug, and Status that it can tell
	// whether a host is on: its own description says both.
	Plugged string `json:"plugged,omitempty"` // the parameter: plug or port
	Status  bool   `json:"status"`
	On      bool   `json:"on"`
	// CheckedMS is when it was asked last (Unix ms), and Trouble why it did not answer then.
	CheckedMS int64  `json:"checked_ms,omitempty"`
	Trouble   string `json:"trouble,omitempty"`
	AddedBy   string `json:"added_by"`
	AddedMS   int64  `json:"added_ms"`
}

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	agentForm = regexp.MustCompile(`^fence_[a-z0-9_]{1,40}$`)
	keyForm   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	plugForm  = regexp.MustCompile(`^[A-Za-z0-9._:@/-]{1,128}$`)
	fileForm  = regexp.MustCompile(`^(credential:)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
)

// ours are parameters that are set for each operation. A device that set one of them
// could turn a question into a switch.
var ours = []string{"action", "option", "nodename", "plug", "port", "delay", "disable_timeout"}

// harmful reports whether a parameter names a program or a file that the programs of
// fence-agents would run or write as the coordinator: passwd_script is given to a shell,
// ipmitool_path is run, and so is what ssh_options names.
func harmful(plain string) bool {
	switch plain {
	case "ssh_options", "debug", "debug_file", "cmd_prompt_file":
		return true
	}
	return strings.HasSuffix(plain, "_script") || strings.HasSuffix(plain, "_path")
}

// CheckName refuses what is not the name of a device.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return errors.New("the name is not made of up to 63 small letters, digits, dots and hyphens")
	}
	return nil
}

// CheckAgent refuses what is not the name of a program of fence-agents.
func CheckAgent(name string) error {
	if !agentForm.MatchString(name) {
		return fmt.Errorf("%.63q is no program of fence-agents: use a name such as fence_ipmilan", name)
	}
	return nil
}

// CheckParam refuses a parameter that the programs of fence-agents would read otherwise:
// a line end in a value begins the next parameter.
func CheckParam(key, value string) error {
	plain := strings.ReplaceAll(key, "-", "_")
	switch {
	case !keyForm.MatchString(key):
		return fmt.Errorf("parameter %.63q: a name has small letters, digits and underscores", key)
	case slices.Contains(ours, plain):
		return fmt.Errorf("parameter %s is set for each operation, and cannot be configured", key)
	case harmful(plain):
		return fmt.Errorf("parameter %s names a program or a file that would be run or written on the coordinator's machine, and cannot be configured; for a password use a secret", key)
	case len(value) > maxValue:
		return fmt.Errorf("parameter %s: the value has more than %d bytes", key, maxValue)
	case strings.ContainsAny(value, "\r\n\x00"):
		return fmt.Errorf("parameter %s: the value has a line end or a zero byte", key)
	case (plain == "ip" || plain == "ipaddr") && !plugForm.MatchString(value):
		return fmt.Errorf("parameter %s: %.63q is no address", key, value)
	}
	return nil
}

// CheckPlug refuses a plug that is no plain word: some programs give it to a shell.
func CheckPlug(plug string) error {
	if plug != "" && !plugForm.MatchString(plug) {
		return fmt.Errorf("plug %.63q: use letters, digits and . _ : @ / -", plug)
	}
	return nil
}

// CheckVia refuses a device that the host which asks it could not ask: it needs no answer
// of that host.
func (d *Device) CheckVia() error {
	switch {
	case d.Via == "":
		return nil
	case len(d.Params)+len(d.Secrets) > 0:
		return fmt.Errorf("host %s asks the device, and knows what it is told: write the parameters and secrets into %s.toml there", d.Via, d.Name)
	}
	if _, itself := d.Target(d.Via); itself {
		return fmt.Errorf("host %s cannot switch itself off: let another host ask the device", d.Via)
	}
	return nil
}

// Check refuses a device that cannot work, and fills in what is not said.
func (d *Device) Check() error {
	d.Tries, d.TryMS = cmp.Or(d.Tries, DefaultTries), cmp.Or(d.TryMS, DefaultTry.Milliseconds())
	switch {
	case len(d.Params)+len(d.Secrets) > maxParams:
		return fmt.Errorf("there are more than %d parameters", maxParams)
	case len(d.Targets) < 1 || len(d.Targets) > MaxTargets:
		return fmt.Errorf("a device is for 1 to %d hosts", MaxTargets)
	case d.DelayMS < 0 || d.RandomMS < 0 || d.DelayMS+d.RandomMS > maxDelay.Milliseconds():
		return fmt.Errorf("the delays are longer than %s together", maxDelay)
	case d.Tries < 1 || d.Tries > maxTries:
		return fmt.Errorf("%d tries: use 1 to %d", d.Tries, maxTries)
	case d.TryMS < 1000 || d.TryMS > (10*time.Minute).Milliseconds():
		return errors.New("a try may take 1s to 10m")
	}
	if err := cmp.Or(CheckName(d.Name), CheckAgent(d.Agent), d.CheckVia()); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, key := range slices.Sorted(maps.Keys(d.Params)) {
		if err := CheckParam(key, d.Params[key]); err != nil {
			return err
		}
		seen[strings.ReplaceAll(key, "-", "_")] = true
	}
	for _, key := range slices.Sorted(maps.Keys(d.Secrets)) {
		if err := CheckParam(key, ""); err != nil {
			return err
		}
		if seen[strings.ReplaceAll(key, "-", "_")] {
			return fmt.Errorf("parameter %s is given twice", key)
		}
		if !fileForm.MatchString(d.Secrets[key]) {
			return fmt.Errorf("secret %s: %.63q is no name of a file in the directory of secrets", key, d.Secrets[key])
		}
	}
	return d.checkTargets()
}

func (d *Device) checkTargets() error {
	hosts := make(map[protocol.HostID]bool)
	for i := range d.Targets {
		t := &d.Targets[i]
		t.Level = cmp.Or(t.Level, 1)
		if _, err := protocol.ParseHostID(string(t.Host)); err != nil {
			return err
		}
		switch {
		case hosts[t.Host]:
			return fmt.Errorf("host %s is named twice", t.Host)
		case t.Level < 1 || t.Level > MaxLevel:
			return fmt.Errorf("host %s: level %d is not between 1 and %d", t.Host, t.Level, MaxLevel)
		case t.DelayMS < 0 || t.DelayMS > maxDelay.Milliseconds():
			return fmt.Errorf("host %s: the delay is not between 0s and %s", t.Host, maxDelay)
		case d.Plugged == "" && len(d.Targets) > 1:
			return fmt.Errorf("%s knows no plugs, so it switches one host: add a device for each host", d.Agent)
		}
		if err := CheckPlug(t.Plug); err != nil {
			return fmt.Errorf("host %s: %w", t.Host, err)
		}
		hosts[t.Host] = true
	}
	return nil
}

// Target returns what the device knows of a host.
func (d *Device) Target(host protocol.HostID) (Target, bool) {
	i := slices.IndexFunc(d.Targets, func(t Target) bool { return t.Host == host })
	if i < 0 {
		return Target{}, false
	}
	return d.Targets[i], true
}

// Usable says why a device is not used for a host; empty if it is. What a device says is
// worth nothing before it has said once that the host is on while the host was heard.
func (d *Device) Usable(t Target) string {
	switch {
	case t.Unusable != "":
		return t.Unusable
	case d.Status && t.SeenMS == 0:
		return fmt.Sprintf("it has never said that host %s is on while that was heard", t.Host)
	}
	return ""
}

// Plan lists what is to be done to switch a host off: the devices, by level and name. A
// level with a device that is not usable is left out as a whole, because all devices of
// a level are needed.
func Plan(devices []Device, host protocol.HostID) (steps []Step) {
	bad := make(map[int]bool)
	for _, d := range devices {
		t, ok := d.Target(host)
		if !ok {
			continue
		}
		bad[t.Level] = bad[t.Level] || d.Usable(t) != ""
		steps = append(steps, Step{
			Level: t.Level, Device: d.Name, Plug: t.Plug, Status: d.Status, On: d.On, Tries: d.Tries, TryMS: d.TryMS,
			DelayMS: d.DelayMS + t.DelayMS, RandomMS: d.RandomMS,
		})
	}
	steps = slices.DeleteFunc(steps, func(s Step) bool { return bad[s.Level] })
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Device, b.Device)) })
	return steps
}
