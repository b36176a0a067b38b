package fence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// device is one that can switch host a, and has shown so.
func device(name string, level int, change ...func(*Device)) Device {
	d := Device{Name: name, Agent: "fence_dummy", Status: true, On: true, Targets: []Target{{Host: "a", Level: level, SeenMS: 1}}}
	for _, f := range change {
		f(&d)
	}
	if err := d.Check(); err != nil {
		panic(err)
	}
	return d
}

// answer is what a device answers to a verb, and how often; the last one stays.
type answer map[string][]Outcome

// play carries out an operation against devices that answer as told, and returns what was
// asked of them. cut is after how many questions the coordinator ends and begins anew.
func play(t *testing.T, o Op, answers answer, cut int) (Op, []string) {
	t.Helper()
	var asked []string
	o, e := o.Begin(1, 0.5)
	for n := 0; ; n++ {
		if n > 100 {
			t.Fatalf("it does not end: %v", asked)
		}
		switch {
		case e.Run != "":
			key := o.Steps[o.At].Device + " " + string(e.Run)
			asked = append(asked, key)
			if len(asked) == cut {
				asked = append(asked, "restart")
				o, e = o.Restarted(2)
				continue
			}
			all := answers[key]
			out := OutcomeOK
			if len(all) > 0 {
				out = all[0]
			} else if e.Run == Status {
				out = OutcomeOff
			}
			if len(all) > 1 {
				answers[key] = all[1:]
			}
			took := time.Second
			if out == OutcomeTimeout {
				took = time.Minute
			}
			o, e = o.Ran(out, "", took, 3)
		case e.Wait > 0:
			if e.Wait != pause {
				asked = append(asked, e.Wait.String())
			}
			o, e = o.Waited(2)
		default:
			return o, asked
		}
	}
}

func TestLevelsAndTries(t *testing.T) {
	slow := func(d *Device) { d.DelayMS, d.RandomMS, d.Targets[0].DelayMS = 1000, 2000, 500 }
	blind := func(d *Device) { d.Status = false }
	for name, c := range map[string]struct {
		devices []Device
		action  Action
		answers answer
		cut     int
		want    string
		state   State
	}{
		"one device":                      {[]Device{device("x", 1)}, ActionOff, nil, 0, "x off, x status", Done},
		"reboot":                          {[]Device{device("x", 1)}, ActionReboot, nil, 0, "x off, x status, x on", Done},
		"on fails":                        {[]Device{device("x", 1)}, ActionReboot, answer{"x on": {OutcomeFailed}}, 0, "x off, x status, x on", Done},
		"all of a level":                  {[]Device{device("y", 1), device("x", 1), device("z", 2)}, ActionReboot, nil, 0, "x off, x status, y off, y status, x on, y on", Done},
		"the first of a level fails":      {[]Device{device("x", 1), device("y", 1), device("z", 2)}, ActionOff, answer{"x off": {OutcomeTimeout}}, 0, "x off, z off, z status", Done},
		"the second of a level fails":     {[]Device{device("x", 1), device("y", 1), device("z", 9)}, ActionReboot, answer{"y off": {OutcomeMissing}}, 0, "x off, x status, y off, z off, z status, z on", Done},
		"it fails once":                   {[]Device{device("x", 1)}, ActionOff, answer{"x off": {OutcomeFailed, OutcomeOK}}, 0, "x off, x off, x status", Done},
		"it always fails":                 {[]Device{device("x", 1)}, ActionOff, answer{"x off": {OutcomeFailed}}, 0, "x off, x off", Failed},
		"too long is not tried again":     {[]Device{device("x", 1)}, ActionOff, answer{"x off": {OutcomeTimeout}}, 0, "x off", Failed},
		"off with the exit of a status":   {[]Device{device("x", 1, func(d *Device) { d.Tries = 1 })}, ActionOff, answer{"x off": {OutcomeOff}}, 0, "x off", Failed},
		"it lies":                         {[]Device{device("x", 1), device("y", 2)}, ActionOff, answer{"x status": {OutcomeOK}}, 0, "x off, x status, y off, y status", Done},
		"it does not answer for a status": {[]Device{device("x", 1)}, ActionOff, answer{"x status": {OutcomeTimeout}}, 0, "x off, x status", Failed},
		"it has no status":                {[]Device{device("x", 1, blind)}, ActionOff, nil, 0, "x off", Done},
		"delays, once":                    {[]Device{device("x", 1, slow), device("y", 2, slow)}, ActionOff, answer{"x off": {OutcomeTimeout}}, 0, "2.5s, x off, y off, y status", Done},
		"no device":                       {nil, ActionOff, nil, 0, "", Failed},
		"unfence":                         {[]Device{device("x", 1), device("y", 1), device("z", 2)}, ActionUnfence, nil, 0, "x on, y on", Done},

		"restart after off":                {[]Device{device("x", 1)}, ActionReboot, nil, 1, "x off, restart, x status", Done},
		"restart after off that failed":    {[]Device{device("x", 1), device("y", 2)}, ActionOff, answer{"x status": {OutcomeOK}}, 1, "x off, restart, x status", Failed},
		"restart while it is asked":        {[]Device{device("x", 1)}, ActionOff, nil, 2, "x off, x status, restart, x status", Done},
		"restart with more in the level":   {[]Device{device("x", 1), device("y", 1)}, ActionOff, nil, 1, "x off, restart", Failed},
		"restart of the last in the level": {[]Device{device("x", 1), device("y", 1)}, ActionOff, nil, 3, "x off, x status, y off, restart, y status", Done},
		"restart while it is switched on":  {[]Device{device("x", 1)}, ActionReboot, nil, 3, "x off, x status, x on, restart", Done},
		"restart, and nothing can be said": {[]Device{device("x", 1, blind)}, ActionOff, nil, 1, "x off, restart", Failed},
	} {
		o, asked := play(t, Op{Host: "a", Action: c.action, Steps: Plan(c.devices, "a")}, c.answers, c.cut)
		if got := strings.Join(asked, ", "); got != c.want || o.State != c.state {
			t.Errorf("%s: asked %s, want %s; it is %s, want %s\n%v", name, got, c.want, o.State, c.state, o.Log)
		}
		if off := o.Proof != ""; off != (c.state == Done && c.action != ActionUnfence) || o.Off() != off || o.Closes() != off {
			t.Errorf("%s: proof %q, off %t, closes %t", name, o.Proof, o.Off(), o.Closes())
		}
	}
}

// TestRestartBeforeAnything: what only waited is over, and nothing is ever sent.
func TestRestartBeforeAnything(t *testing.T) {
	o, e := Op{Host: "a", Action: ActionOff, Steps: Plan([]Device{device("x", 1, func(d *Device) { d.DelayMS = 1000 })}, "a")}.Begin(1, 0)
	if o.State != Delayed || o.Closes() || e.Wait != time.Second {
		t.Fatalf("%+v, %+v", o, e)
	}
	if o, e = o.Restarted(2); o.State != Failed || e != (Effect{}) {
		t.Errorf("%s, %+v", o.State, e)
	}
}

// TestUsable: a device that has not shown that it is that of the host switches nothing, and
// takes its level with it.
func TestUsable(t *testing.T) {
	unseen := device("u", 1, func(d *Device) { d.Targets[0].SeenMS = 0 })
	wrong := device("w", 1, func(d *Device) { d.Targets[0].Unusable = "it lies" })
	for _, bad := range []Device{unseen, wrong} {
		if plan := Plan([]Device{bad, device("x", 1), device("y", 2)}, "a"); len(plan) != 1 || plan[0].Device != "y" {
			t.Errorf("%s: %+v", bad.Name, plan)
		}
	}
	if plan := Plan([]Device{device("x", 1)}, "b"); len(plan) != 0 {
		t.Errorf("of another host: %+v", plan)
	}
}

func TestDevicesAreChecked(t *testing.T) {
	for want, change := range map[string]func(*Device){
		"the name is not":          func(d *Device) { d.Name = "X y" },
		"no program":               func(d *Device) { d.Agent = "../bin/sh" },
		"1 to 200 hosts":           func(d *Device) { d.Targets = nil },
		"level 10":                 func(d *Device) { d.Targets[0].Level = 10 },
		"named twice":              func(d *Device) { d.Plugged, d.Targets = "plug", append(d.Targets, d.Targets[0]) },
		"knows no plugs":           func(d *Device) { d.Targets = append(d.Targets, Target{Host: "b"}) },
		"plug \"1; rm\"":           func(d *Device) { d.Targets[0].Plug = "1; rm" },
		"is set for each":          func(d *Device) { d.Params = map[string]string{"action": "on"} },
		"a line end":               func(d *Device) { d.Params = map[string]string{"x": "y\naction=off"} },
		"no address":               func(d *Device) { d.Params = map[string]string{"ip": "1.2.3.4 -x"} },
		"a name has small letters": func(d *Device) { d.Params = map[string]string{" action": "on"} },
		"given twice": func(d *Device) {
			d.Params, d.Secrets = map[string]string{"power_wait": "1"}, map[string]string{"power-wait": "f"}
		},
		"no name of a file": func(d *Device) { d.Secrets = map[string]string{"password": "../key"} },
		"9 tries":           func(d *Device) { d.Tries = 9 },
		"delays are longer": func(d *Device) { d.DelayMS, d.RandomMS = 200_000, 200_000 },
		"1s to 10m":         func(d *Device) { d.TryMS = 10 },
	} {
		d := device("x", 1)
		change(&d)
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// fleet is a view with n hosts that are well, and host a, which is lost and holds work.
func fleet(n int, change ...func(*View)) View {
	v := View{Policy: DefaultPolicy(), TTL: 90 * time.Second, NowMS: 100 * hour.Milliseconds()}
	v.Hosts = append(v.Hosts, Host{ID: "a", Lost: true, Silent: 2 * time.Minute, Device: true, Work: []Work{{CTID: "1", Name: "db", Why: "it goes on without a lease", Runs: true}}})
	for i := range n {
		v.Hosts = append(v.Hosts, Host{ID: protocol.HostID(fmt.Sprintf("h%02d", i)), Device: true, Work: []Work{{CTID: fmt.Sprint(100 + i), Runs: true}}})
	}
	for _, f := range change {
		f(&v)
	}
	return v
}

func TestTriggers(t *testing.T) {
	a := func(f func(*Host)) func(*View) { return func(v *View) { f(&v.Hosts[0]) } }
	stuck := func(h *Host) { h.Lost, h.Work[0].Stuck = false, true }
	for name, c := range map[string]struct {
		view View
		want string // host: cause, or host held: why; empty for none
	}{
		"one dead host among N":     {fleet(20), "a host_lost"},
		"nothing is held":           {fleet(3, a(func(h *Host) { h.Work = nil })), ""},
		"not for long enough":       {fleet(3, a(func(h *Host) { h.Silent = 95 * time.Second })), ""},
		"maintenance":               {fleet(3, a(func(h *Host) { h.Maintenance = true })), ""},
		"no device":                 {fleet(3, a(func(h *Host) { h.Device = false })), ""},
		"goodbye, all stopped":      {fleet(3, a(func(h *Host) { h.Goodbye, h.Work[0].Runs = true, false })), ""},
		"goodbye, and it runs":      {fleet(3, a(func(h *Host) { h.Goodbye = true })), "a host_lost"},
		"we have just begun":        {fleet(3, func(v *View) { v.Settling = true }), "a held: the coordinator has just started"},
		"our side":                  {fleet(3, func(v *View) { v.OurSide = "the broker is down" }), "a held: the broker is down"},
		"the lease proves it":       {fleet(3, a(func(h *Host) { h.Work[0].ByLease, h.Pinned = true, true })), ""},
		"a device is faster":        {fleet(3, a(func(h *Host) { h.Work[0].ByLease = true })), "a host_lost"},
		"the lease comes first":     {fleet(3, a(func(h *Host) { h.Work[0].ByLease = true }), func(v *View) { v.Policy.Order = LeaseFirst }), ""},
		"the device comes first":    {fleet(3, a(func(h *Host) { h.Work[0].ByLease, h.Pinned = true, true }), func(v *View) { v.Policy.Order = DeviceFirst }), "a host_lost"},
		"pinned, and no lease":      {fleet(3, a(func(h *Host) { h.Pinned = true })), "a host_lost"},
		"a stop has failed":         {fleet(3, a(stuck)), "a stop_failed"},
		"it is on its way":          {fleet(3, func(v *View) { v.Ops = []Op{{Host: "a", State: Delayed}} }), ""},
		"it is off":                 {fleet(3, func(v *View) { v.Ops = []Op{{Host: "a", State: Done, Proof: "x"}} }), ""},
		"it was off and returned":   {fleet(3, func(v *View) { v.Ops = []Op{{Host: "a", State: Done, Proof: "x", ReturnedMS: 1}} }), "a host_lost"},
		"one of a site at a time":   {fleet(3, func(v *View) { v.Ops = []Op{{Host: "h00", State: Sending, Cause: CauseLost}} }), "a held: another host is being fenced"},
		"a person's does not count": {fleet(3, func(v *View) { v.Ops = []Op{{Host: "h00", State: Sending, Cause: CausePerson}} }), "a host_lost"},
		"of another site":           {fleet(3, func(v *View) { v.Ops = []Op{{Host: "h00", State: Sending, Cause: CauseLost, Site: "x"}} }), "a host_lost"},
		"so many an hour": {fleet(3, func(v *View) {
			for range 3 {
				v.Ops = append(v.Ops, Op{Host: "h00", State: Failed, Cause: CauseLost, BegunMS: v.NowMS - 1000})
			}
		}), "a held: 3 hosts were fenced within an hour"},
		"not after the hour": {fleet(3, func(v *View) {
			for range 3 {
				v.Ops = append(v.Ops, Op{Host: "h00", State: Failed, Cause: CauseLost, BegunMS: v.NowMS - hour.Milliseconds()})
			}
		}), "a host_lost"},
		"the date went back": {fleet(3, a(stuck), func(v *View) {
			for range 10 {
				v.Ops = append(v.Ops, Op{Host: "a", State: Failed, Cause: CauseStop, Work: []string{"1"}, BegunMS: v.NowMS + 1000*hour.Milliseconds(), EndedMS: v.NowMS + 1000*hour.Milliseconds()},
					Op{Host: "h00", State: Failed, Cause: CauseStop, Work: []string{"1"}, BegunMS: v.NowMS + 1000*hour.Milliseconds()})
			}
		}), "a stop_failed"},
		"the date went back a little": {fleet(3, func(v *View) {
			for range 3 {
				v.Ops = append(v.Ops, Op{Host: "h00", State: Failed, Cause: CauseLost, BegunMS: v.NowMS + 1000})
			}
		}), "a held: 3 hosts were fenced within an hour"},
		"the same container once more": {fleet(3, a(stuck), func(v *View) {
			v.Ops = []Op{{Host: "h00", State: Done, ReturnedMS: 1, Cause: CauseStop, Work: []string{"1"}, BegunMS: v.NowMS - 2*hour.Milliseconds()}}
		}), "a held: host h00 was fenced because of the same container"},
		"it has just failed": {fleet(3, func(v *View) { v.Ops = []Op{{Host: "a", State: Failed, EndedMS: v.NowMS - 1000}} }), "a held: 1 fences of it have failed; the next try is in 4s"},
		"it failed too often": {fleet(3, func(v *View) {
			for range 10 {
				v.Ops = append(v.Ops, Op{Host: "a", State: Failed, Cause: CausePerson, EndedMS: v.NowMS - 10*60_000})
			}
		}), "a held: 10 fences of it have failed; the next try is in 5m0s"},
	} {
		var got []string
		for _, d := range Judge(c.view) {
			text := string(d.Host) + " " + string(d.Cause)
			if d.Held != "" {
				text = string(d.Host) + " held: " + d.Held
			}
			if len(d.Evidence) == 0 || len(d.Work) == 0 {
				t.Errorf("%s: no evidence or work: %+v", name, d)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); !strings.HasPrefix(text, c.want) || c.want == "" && text != "" {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// TestOrderOfASite: a site can have an order of its own, and what was begun by that says so.
func TestOrderOfASite(t *testing.T) {
	policy := DefaultPolicy()
	policy.Order, policy.Sites = LeaseFirst, map[string]Order{"lab": DeviceFirst, "north": Auto}
	if err := policy.Check(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		site   string
		pinned bool
		want   string // the evidence of the order; empty: it is not fenced
	}{
		"no site":               {"", false, ""},
		"the order of all":      {"south", false, ""},
		"a device first":        {"lab", true, "a device comes before the end of the lease at site lab (fence.first_at: lab=device)"},
		"where nothing else is": {"north", false, "a device comes before the end of the lease at site north (fence.first_at: north=auto)"},
		"where other work is":   {"north", true, ""},
	} {
		v := fleet(3, func(v *View) {
			h := &v.Hosts[0]
			v.Policy, h.Site, h.Pinned, h.Work[0].ByLease = policy, c.site, c.pinned, true
		})
		all := Judge(v)
		if fenced := len(all) == 1 && slices.Contains(all[0].Evidence, c.want); fenced != (c.want != "") || len(all) > 1 {
			t.Errorf("%s: %+v, want %q", name, all, c.want)
		}
	}
	for site, order := range map[string]Order{"": Auto, "lab": "never"} {
		policy.Sites = map[string]Order{site: order}
		if err := policy.Check(); err == nil || !strings.Contains(err.Error(), "fence.first_at: ") {
			t.Errorf("%s=%s: %v", site, order, err)
		}
	}
}

// TestOneAfterTheOther: of hosts that are lost together one is fenced, then the next.
func TestOneAfterTheOther(t *testing.T) {
	v := fleet(20)
	for i := range 2 {
		v.Hosts[i+1].Lost, v.Hosts[i+1].Silent = true, time.Hour
	}
	var fenced []protocol.HostID
	for range 10 {
		for _, d := range Judge(v) {
			if d.Held == "" {
				fenced = append(fenced, d.Host)
				v.Ops = append(v.Ops, Op{Host: d.Host, Cause: d.Cause, Work: d.Work, State: Done, Proof: "x", BegunMS: v.NowMS, EndedMS: v.NowMS})
			}
		}
	}
	if want := []protocol.HostID{"a", "h00", "h01"}; !slices.Equal(fenced, want) {
		t.Errorf("%v, want %v", fenced, want)
	}
}

// TestMoot: what has changed since a fence was decided stops it, but not that of a person.
func TestMoot(t *testing.T) {
	for _, c := range []struct {
		cause              Cause
		heard, maintenance bool
		want               string
	}{
		{CauseLost, false, false, ""}, {CauseLost, true, false, "the host is heard again"}, {CauseLost, false, true, "the host is in maintenance"},
		{CauseStop, true, false, ""}, {CauseStop, true, true, "the host is in maintenance"}, {CausePerson, true, true, ""},
	} {
		if got := Moot(Op{Cause: c.cause}, c.heard, c.maintenance); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestMerged(t *testing.T) {
	ops := []Op{{ID: "1", Host: "a", Action: ActionOff, State: Done, Proof: "x", EndedMS: 50_000}, {ID: "2", Host: "b", Action: ActionOff, State: Sending}}
	for _, c := range []struct {
		host      protocol.HostID
		action    Action
		tolerance time.Duration
		want      string
	}{
		{"b", ActionOff, 0, "2"}, {"b", ActionReboot, 0, ""}, {"a", ActionOff, 0, ""}, {"a", ActionOff, 11 * time.Second, "1"}, {"a", ActionOff, 10 * time.Second, ""},
	} {
		if o, ok := Same(ops, c.host, c.action, c.tolerance, 60_000); o.ID != c.want || ok != (c.want != "") {
			t.Errorf("%+v: %q", c, o.ID)
		}
	}
	ops[0].ReturnedMS = 55_000
	if _, ok := Same(ops, "a", ActionOff, time.Hour, 60_000); ok {
		t.Error("a fence of a host that has returned counts")
	}
}

func TestMapping(t *testing.T) {
	if u, _ := MustSayOn("a", OutcomeOff, ""); !strings.Contains(u, "host a is off") {
		t.Errorf("off: %q", u)
	}
	if u, tr := MustSayOn("a", OutcomeTimeout, "no answer"); u != "" || tr != "timed_out: no answer" {
		t.Errorf("no answer: %q, %q", u, tr)
	}
}

// TestHarmfulParameters: nothing that a device is told runs a program of somebody's choice
// on the machine of the coordinator, or writes a file there.
func TestHarmfulParameters(t *testing.T) {
	for _, key := range []string{"passwd_script", "password-script", "snmp_priv_passwd_script", "ipmitool_path", "ssh-path", "sudo_path", "ssh_options", "debug", "debug_file", "cmd_prompt_file"} {
		if err := CheckParam(key, "x"); err == nil || !strings.Contains(err.Error(), "cannot be configured") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range []string{"ip", "login", "lanplus", "identity_file", "status_file", "ssh", "power_wait"} {
		if err := CheckParam(key, "x"); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
