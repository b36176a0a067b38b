package sim

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/unique"
)

// Limits of files.
const (
	maxFile  = 1 << 20
	maxHosts = 1000
	maxUntil = 7 * 24 * time.Hour
)

// Parse reads a world. Each line is empty, a comment, or one of
//
//	lease [ttl=90s] [kill=15s] [drift=10] [margin=10s] [takeover=2m]
//	network [loss=5%] [latency=200ms]
//	seed N
//	host NAME [cpu=400%] [memory=8GiB] [fence=none|guard|reboot|watchdog] [drift=5] [latency=1s] [site=NAME] [pausable] [pinned]
//	workload NAME [on=HOST] [cpu=100%] [memory=1GiB] [priority=N] [data=none|shared|local|backup] [after=WORKLOAD,WORKLOAD] [keep]
//	fence [first=auto|lease|device] [action=reboot|off] [grace=10s] [per-hour=3] [reconnect=30s] [unfence=auto|manual] [witness]
//	device NAME hosts=HOST,HOST [level=1] [tries=2] [try=60s] [delay=0s] [no-status]
//	at TIME FAULT [HOST|DEVICE] [for TIME]
//	at TIME move WORKLOAD to HOST
//	until TIME
//
// Drift is in thousandths of the clock's rate; that of a host may be negative. An error
// names the line and what would be right.
func Parse(r io.Reader) (World, error) {
	w := World{Seed: 1, Timing: unique.Default(), Min: unique.FenceReboot, Latency: 50 * time.Millisecond, Fencing: fence.DefaultPolicy()}
	lines := bufio.NewScanner(io.LimitReader(r, maxFile+1))
	number, size := 0, 0
	for lines.Scan() {
		number++
		if size += len(lines.Bytes()) + 1; size > maxFile {
			return w, fmt.Errorf("the file is larger than %d bytes", maxFile)
		}
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if err := w.line(words[0], words[1:]); err != nil {
			return w, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return w, fmt.Errorf("line %d: %w", number+1, err)
	}
	return w, w.check()
}

func (w *World) line(word string, rest []string) (err error) {
	switch word {
	case "seed":
		if len(rest) != 1 {
			return fmt.Errorf("seed: want one number")
		}
		w.Seed, err = strconv.ParseUint(rest[0], 10, 32)
		if err != nil {
			return fmt.Errorf("seed: %q is no number", rest[0])
		}
		return nil
	case "until":
		if len(rest) != 1 {
			return fmt.Errorf("until: want one time, as in: until 20m")
		}
		w.Until, err = moment(rest[0])
		return err
	case "at":
		return w.fault(rest)
	case "lease":
		return options(rest, map[string]func(string) error{
			"ttl": into(&w.Timing.TTL, moment), "kill": into(&w.Timing.Kill, moment), "margin": into(&w.Timing.Margin, moment),
			"takeover": into(&w.Timing.Wait, moment), "drift": into(&w.Timing.DriftPermille, whole),
		})
	case "network":
		return options(rest, map[string]func(string) error{"loss": into(&w.Loss, share), "latency": into(&w.Latency, moment)})
	case "host":
		h := Host{Has: placement.Size{CPU: 4000, Memory: 8 << 30}, Fence: unique.FenceReboot}
		if h.Name, rest, err = name(word, rest); err != nil {
			return err
		}
		err = options(rest, map[string]func(string) error{
			"cpu": into(&h.Has.CPU, percent), "memory": into(&h.Has.Memory, bytes), "drift": into(&h.DriftPermille, whole), "latency": into(&h.Latency, moment),
			"fence": into(&h.Fence, oneOf(unique.FenceNone, unique.FenceGuard, unique.FenceReboot, unique.FenceWatchdog)), "pausable": alone(&h.Pausable), "pinned": alone(&h.Pinned), "site": into(&h.Site, func(s string) (string, error) { return s, nil }),
		})
		w.Hosts = append(w.Hosts, h)
		return err
	case "fence":
		return options(rest, map[string]func(string) error{
			"first":  into(&w.Fencing.Order, oneOf(fence.Auto, fence.LeaseFirst, fence.DeviceFirst)),
			"action": into(&w.Fencing.Action, oneOf(fence.ActionReboot, fence.ActionOff)),
			"grace":  into(&w.Fencing.Grace, moment), "reconnect": into(&w.Fencing.Reconnect, moment), "per-hour": into(&w.Fencing.PerHour, small),
			"unfence": into(&w.Fencing.Unfence, oneOf("auto", "manual")), "witness": alone(&w.Witness),
		})
	case "device":
		d := Device{Level: 1, Tries: fence.DefaultTries, Try: fence.DefaultTry}
		if d.Name, rest, err = name(word, rest); err != nil {
			return err
		}
		err = options(rest, map[string]func(string) error{
			"hosts": into(&d.Hosts, listed), "level": into(&d.Level, small), "tries": into(&d.Tries, small),
			"try": into(&d.Try, moment), "delay": into(&d.Delay, moment), "no-status": alone(&d.NoStatus),
		})
		w.Devices = append(w.Devices, d)
		return err
	case "workload":
		var x Workload
		if x.Name, rest, err = name(word, rest); err != nil {
			return err
		}
		err = options(rest, map[string]func(string) error{
			"on": into(&x.On, func(s string) (string, error) { return s, nil }), "cpu": into(&x.Size.CPU, percent), "memory": into(&x.Size.Memory, bytes),
			"priority": into(&x.Priority, small), "after": into(&x.After, listed),
			"data": into(&x.Data, oneOf(unique.DataNone, unique.DataShared, unique.DataLocal, unique.DataBackup)), "keep": alone(&x.Keeps),
		})
		w.Workloads = append(w.Workloads, x)
		return err
	}
	return fmt.Errorf("%.40q begins no line: use lease, network, seed, host, workload, fence, device, at or until", word)
}

// faults are the kinds, with whether they have a host or a device.
var faults = []struct {
	kind FaultKind
	host bool
}{
	{Cut, true}, {PowerOff, true}, {StopAgent, true}, {KillAgent, true}, {Pause, true}, {Unkillable, true}, {OldDisk, true}, {Drain, true}, {Maintenance, true},
	{Restart, false}, {CutAll, false},
	{DeviceHangs, true}, {DeviceLies, true}, {DeviceMixed, true},
}

// fault reads TIME FAULT [HOST] [for TIME].
func (w *World) fault(rest []string) (err error) {
	var f Fault
	if len(rest) < 2 {
		return fmt.Errorf("at: want a time and a fault, as in: at 2m cut edge-01 for 5m")
	}
	if f.At, err = moment(rest[0]); err != nil {
		return err
	}
	if f.Kind = FaultKind(rest[1]); f.Kind == Move {
		return w.move(f, rest[2:])
	}
	i := slices.IndexFunc(faults, func(k struct {
		kind FaultKind
		host bool
	}) bool {
		return k.kind == f.Kind
	})
	if i < 0 {
		var known []string
		for _, k := range faults {
			known = append(known, string(k.kind))
		}
		known = append(known, string(Move))
		return fmt.Errorf("%.40q is no fault: use %s", rest[1], strings.Join(known, ", "))
	}
	rest = rest[2:]
	if faults[i].host {
		if len(rest) == 0 {
			return fmt.Errorf("%s: of which host or device?", f.Kind)
		}
		f.Host, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		if len(rest) != 2 || rest[0] != "for" {
			return fmt.Errorf("%s: %q is not understood; how long it lasts is written: for 5m", f.Kind, strings.Join(rest, " "))
		}
		if f.For, err = moment(rest[1]); err != nil {
			return err
		}
	}
	w.Faults = append(w.Faults, f)
	return nil
}

// move reads WORKLOAD to HOST.
func (w *World) move(f Fault, rest []string) error {
	if len(rest) != 3 || rest[1] != "to" {
		return fmt.Errorf("move: want a workload and a host, as in: at 5m move db to edge-02")
	}
	f.Workload, f.Host = rest[0], rest[2]
	w.Faults = append(w.Faults, f)
	return nil
}

// check holds the lines together.
func (w *World) check() error {
	if err := w.Timing.Check(); err != nil {
		return err
	}
	if len(w.Hosts) == 0 || len(w.Hosts) > maxHosts {
		return fmt.Errorf("%d hosts: want 1 to %d", len(w.Hosts), maxHosts)
	}
	if w.Until <= 0 || w.Until > maxUntil {
		return fmt.Errorf("until: %s is not between 0 and %s; write how long it is played, as in: until 20m", w.Until, maxUntil)
	}
	known := make(map[string]bool)
	for _, h := range w.Hosts {
		if known[h.Name] {
			return fmt.Errorf("host %s stands there twice", h.Name)
		}
		if known[h.Name] = true; h.DriftPermille < -w.Timing.DriftPermille || h.DriftPermille > w.Timing.DriftPermille {
			return fmt.Errorf("host %s: its clock drifts by %d thousandths, and no lease is safe beyond %d: set lease drift", h.Name, h.DriftPermille, w.Timing.DriftPermille)
		}
	}
	workloads := make(map[string]bool)
	for _, x := range w.Workloads {
		if workloads[x.Name] || x.On != "" && !known[x.On] {
			return fmt.Errorf("workload %s stands there twice, or its host %q does not", x.Name, x.On)
		}
		workloads[x.Name] = true
	}
	if err := w.checkOrder(); err != nil {
		return err
	}
	devices, err := w.checkDevices(known)
	if err != nil {
		return err
	}
	for _, f := range w.Faults {
		switch device := slices.Contains([]FaultKind{DeviceHangs, DeviceLies, DeviceMixed}, f.Kind); {
		case device && !devices[f.Host]:
			return fmt.Errorf("there is no device %q", f.Host)
		case !device && f.Host != "" && !known[f.Host]:
			return fmt.Errorf("there is no host %q", f.Host)
		case f.Kind == Move && !workloads[f.Workload]:
			return fmt.Errorf("there is no workload %q", f.Workload)
		}
	}
	return nil
}

// checkOrder refuses workloads that would never start.
func (w *World) checkOrder() error {
	after := make(map[string][]string)
	for _, x := range w.Workloads {
		after[x.Name] = x.After
	}
	for _, x := range w.Workloads {
		for _, other := range x.After {
			if _, there := after[other]; !there {
				return fmt.Errorf("workload %s: there is no workload %q after which it could start", x.Name, other)
			}
		}
		if circle := placement.Circle(x.Name, after); circle != nil {
			return fmt.Errorf("none of these workloads would ever start: %s", strings.Join(circle, " starts after "))
		}
	}
	return nil
}

// checkDevices holds the devices to what the coordinator would accept of them.
func (w *World) checkDevices(hosts map[string]bool) (known map[string]bool, err error) {
	known = make(map[string]bool)
	if len(w.Devices) > fence.MaxDevices {
		return nil, fmt.Errorf("%d devices: want %d at most", len(w.Devices), fence.MaxDevices)
	}
	if len(w.Devices) > 0 {
		if err := w.Fencing.Check(); err != nil {
			return nil, err
		}
	}
	for _, d := range w.Devices {
		if known[d.Name] {
			return nil, fmt.Errorf("device %s stands there twice", d.Name)
		}
		known[d.Name] = true
		for _, h := range d.Hosts {
			if !hosts[h] {
				return nil, fmt.Errorf("device %s: there is no host %q", d.Name, h)
			}
		}
		x := newDevice(nil, d).known
		if err := x.Check(); err != nil {
			return nil, fmt.Errorf("device %s: %w", d.Name, err)
		}
	}
	return known, nil
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func name(word string, rest []string) (string, []string, error) {
	if len(rest) == 0 || !nameForm.MatchString(rest[0]) {
		return "", nil, fmt.Errorf("%s: want a name of lower-case letters, digits and hyphens", word)
	}
	return rest[0], rest[1:], nil
}

// options reads NAME=VALUE, and names alone.
func options(rest []string, known map[string]func(string) error) error {
	for _, o := range rest {
		name, value, _ := strings.Cut(o, "=")
		set, ok := known[name]
		if !ok {
			return fmt.Errorf("%.40q is not understood", o)
		}
		if err := set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// into sets a value that is read from a text.
func into[T any](to *T, read func(string) (T, error)) func(string) error {
	return func(s string) (err error) {
		*to, err = read(s)
		return err
	}
}

// listed reads a list.
func listed(s string) ([]string, error) { return strings.Split(s, ","), nil }

func alone(to *bool) func(string) error {
	return func(s string) error {
		if *to = true; s != "" {
			return fmt.Errorf("it takes no value")
		}
		return nil
	}
}

func oneOf[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		return "", fmt.Errorf("%.40q is none of %v", s, words)
	}
}

// moment reads a time that is not negative.
func moment(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%.40q is no time: write 200ms, 90s or 5m", s)
	}
	return d, nil
}

func whole(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no whole number", s)
	}
	return n, nil
}

// small reads a whole number.
func small(s string) (int, error) {
	n, err := whole(s)
	return int(n), err
}

// share reads a percentage, in thousandths.
func share(s string) (int, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !strings.HasSuffix(s, "%") || !(n >= 0 && n <= 40) {
		return 0, fmt.Errorf("%.40q is not between 0%% and 40%%", s)
	}
	return int(n * 10), nil
}

// percent reads processors, in thousandths: 150% is one and a half.
func percent(s string) (int64, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "%"), 10, 20)
	if err != nil || !strings.HasSuffix(s, "%") {
		return 0, fmt.Errorf("%.40q is no share of a processor: 100%% is one processor", s)
	}
	return int64(n) * 10, nil
}

// bytes reads a size.
func bytes(s string) (int64, error) {
	for unit, shift := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40} {
		if digits, ok := strings.CutSuffix(s, unit); ok {
			if n, err := strconv.ParseUint(digits, 10, 22); err == nil {
				return int64(n) << shift, nil
			}
		}
	}
	return 0, fmt.Errorf("%.40q is no size: write 512MiB or 8GiB", s)
}
