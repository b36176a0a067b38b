package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

// Of the fleet whose unique container is taken over: its second host, the container, and
// its fence device, which takes a second.
const (
	otherHost = "edge-02"
	vault     = "vault"
	losses    = 3
	device    = `#!/bin/sh
while IFS='=' read -r key value; do
	case $key in
	action) action=$value ;;
	status_file) file=$value ;;
	esac
done
case $action in
metadata) echo '<resource-agent name="x"><parameters><parameter name="status_file"/></parameters><actions><action name="on"/><action name="off"/><action name="status"/><action name="monitor"/></actions></resource-agent>' ;;
off)
	sleep 1
	while read -r pid; do kill -9 "$pid"; done <"$file.pids"
	printf off >"$file" ;;
on) printf on >"$file" ;;
status) [ "$(cat "$file")" = on ] || exit 2 ;;
monitor) ;;
*) exit 1 ;;
esac
`
)

// Times of leases, in seconds, and what follows from them for how long after a host was
// heard last its container may start elsewhere: (ttl + kill) × 1.02 + margin, rounded up.
const (
	leaseTTL, leaseKill, leaseMargin = 12, 2, 1
	afterHeard                       = 16 * time.Second
)

// takeover measures for how long a unique container runs nowhere when its host is lost,
// beyond what is waited for: since the decision to fence the host, and since its lease has
// ended for certain.
type takeover struct{ *bench }

func (b takeover) measure(ctx context.Context) error {
	for _, m := range []struct {
		row      row
		contract []string
		prepare  func(relay, context.Context) error
		since    func(relay, context.Context) (time.Time, error)
	}{
		{row{name: "takeover_after_decision_s", unit: "s", target: 3}, []string{"--offline", "keep"}, relay.addDevices, relay.decided},
		{row{name: "takeover_by_lease_s", unit: "s", target: 2}, nil, func(relay, context.Context) error { return nil }, relay.leaseEnds},
	} {
		fmt.Fprintln(b.talk, "measuring", m.row.name)
		err := b.apart(ctx, makeDevices, func(there *bench, ctx context.Context) error {
			r, err := there.relay(ctx, m.contract)
			if err != nil {
				return err
			}
			if err := m.prepare(r, ctx); err != nil {
				return err
			}
			var took []float64
			for range losses {
				seconds, err := r.lose(ctx, m.since)
				if err != nil {
					return err
				}
				took = append(took, seconds)
			}
			there.report.figures = append(there.report.figures, m.row.figure(percentile(took, 50), floors{}))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// makeDevices prepares a fleet with short leases and a program of fence devices.
func makeDevices(_ context.Context, f *fleet) error {
	agents := f.path("agents")
	f.coordinatorToo = fmt.Sprintf("[lease]\nmin_self_fence = \"guard\"\nttl_seconds = %d\nkill_seconds = %d\nmargin_seconds = %d\n[fence]\ngrace_seconds = 1\nreconnect_seconds = 2\nagents_dir = %q\nsecrets_dir = %q\n",
		leaseTTL, leaseKill, leaseMargin, agents, agents)
	f.hostToo = "[unique]\nguard = true\npausable = \"no\"\n"
	if err := os.Mkdir(agents, 0o755); err != nil {
		return err
	}
	return os.WriteFile(agents+"/fence_second", []byte(device), 0o755)
}

// relay is a unique container that goes from one host to the other, as its hosts are lost.
type relay struct {
	*bench
	agents map[string]*exec.Cmd // of each host
	holder *string
}

// relay adds a host, and makes the container.
func (b *bench) relay(ctx context.Context, contract []string) (r relay, err error) {
	f, first := b.fleet, hostName
	second, err := f.addHost(ctx, otherHost, f.secondBridge())
	if err != nil {
		return r, err
	}
	r = relay{b, map[string]*exec.Cmd{otherHost: second}, &first}
	for _, d := range f.daemons {
		if d.Process.Pid == f.agent {
			r.agents[hostName] = d
		}
	}
	create := []string{"ct", "create", first + "/" + vault, "--template", "busybox", "--class", "unique", "--data", "none", "--start"}
	if _, err = f.must(ctx, "hostler", append(create, contract...)...); err != nil {
		return r, err
	}
	return r, r.runs(ctx, first)
}

// addDevices gives each host a fence device.
func (r relay) addDevices(ctx context.Context) error {
	for host := range r.agents {
		if err := os.WriteFile(r.power(host), []byte("on"), 0o600); err != nil {
			return err
		}
		if _, err := r.fleet.must(ctx, "hostler", "fence", "device", "add", "pdu-"+host, "--agent", "fence_second", "--host", host, "-p", "status_file="+r.power(host)); err != nil {
			return err
		}
	}
	return nil
}

// power is the file that is the power switch of a host.
func (r relay) power(host string) string { return r.fleet.path("power-" + host) }

// lose kills the agent of the holder, waits until the container runs on the other host, and
// lets the lost host return. It returns the seconds since the moment that since tells.
func (r relay) lose(ctx context.Context, since func(relay, context.Context) (time.Time, error)) (float64, error) {
	lost, other := *r.holder, otherHost
	if lost == otherHost {
		other = hostName
	}
	init, err := exec.CommandContext(ctx, "lxc-info", "-P", r.fleet.path(lost+"/lxc"), "-n", vault, "-pH").Output()
	if err != nil {
		return 0, fmt.Errorf("lxc-info: %w", err)
	}
	if err := os.WriteFile(r.power(lost)+".pids", init, 0o600); err != nil {
		return 0, err
	}
	agent := r.agents[lost]
	if err := agent.Process.Kill(); err != nil {
		return 0, err
	}
	_ = agent.Wait() // killed
	from, err := since(r, ctx)
	if err != nil {
		return 0, err
	}
	if err := r.runs(ctx, other); err != nil {
		return 0, err
	}
	took := time.Since(from).Seconds()
	*r.holder = other
	if r.agents[lost], err = r.fleet.spawnAgent(lost); err != nil {
		return 0, err
	}
	if err := r.fleet.online(ctx, lost); err != nil {
		return 0, err
	}
	return took, until(ctx, lost+" is let in again", func() bool {
		all, err := told[fencing](ctx, r.fleet, "fence", "history")
		return err == nil && !slices.ContainsFunc(all, func(f fencing) bool { return f.Returned == nil })
	})
}

// fencing is a row of the history of fences.
type fencing struct {
	Host     string
	Begun    *time.Time `json:"begun_at"`
	Returned *time.Time `json:"returned_at"`
}

// told are the rows that a command lists.
func told[T any](ctx context.Context, f *fleet, command ...string) (all []T, err error) {
	out, err := f.must(ctx, "hostler", append(command, "-o", "json")...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	return all, err
}

// runs waits until the agent of a host tells that the container runs there.
func (r relay) runs(ctx context.Context, host string) error {
	agent := r.fleet.socketOf(host)
	defer agent.client.CloseIdleConnections()
	return until(ctx, "the unique container runs on "+host, func() bool {
		var all []struct{ Name, State string }
		return agent.get(ctx, "/v1/containers", &all) == nil && slices.ContainsFunc(all, func(c struct{ Name, State string }) bool { return c.Name == vault && c.State == "running" })
	})
}

// decided waits until a host is being fenced, and returns since when.
func (r relay) decided(ctx context.Context) (at time.Time, err error) {
	return at, until(ctx, "the lost host is fenced", func() bool {
		all, err := told[fencing](ctx, r.fleet, "fence", "history")
		i := slices.IndexFunc(all, func(f fencing) bool { return f.Host == *r.holder && f.Returned == nil && f.Begun != nil })
		if err != nil || i < 0 {
			return false
		}
		at = *all[i].Begun
		return true
	})
}

// leaseEnds is when nothing of the holder can run any more, which is told from what is
// left of its lease.
func (r relay) leaseEnds(ctx context.Context) (time.Time, error) {
	now := time.Now()
	all, err := told[struct {
		LeftMS int64 `json:"left_ms"`
	}](ctx, r.fleet, "lease", "ls")
	if err != nil {
		return now, err
	}
	if len(all) != 1 || all[0].LeftMS <= 0 {
		return now, fmt.Errorf("the lease of %s is not good: %+v", *r.holder, all)
	}
	return now.Add(time.Duration(all[0].LeftMS)*time.Millisecond + afterHeard - leaseTTL*time.Second), nil
}
