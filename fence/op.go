package fence

import (
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Verb is what a device is asked for.
type Verb string

// The verbs.
const (
	Off    Verb = "off"
	On     Verb = "on"
	Status Verb = "status"
)

// Action is what is to become of a host.
type Action string

// The actions. A reboot is an off that is confirmed, and then an on: a device's own
// reboot tells success before anything has shown that the host was off.
const (
	ActionOff     Action = "off"
	ActionReboot  Action = "reboot"
	ActionUnfence Action = "unfence" // on again
	ActionConfirm Action = "confirm" // nothing is switched: a person has signed that the host is off
)

// State is where an operation stands.
type State string

// The states. What has ended stays in the history.
//
//	delayed ──▶ sending ──▶ confirming ──▶ (next device of the level) ──▶ powering ──▶ done
//	               │            │                                          reboot only
//	               └──fails─────┴──▶ first device of the next level, or failed
const (
	Delayed    State = "delayed"    // the delay of the first device
	Sending    State = "sending"    // an off may be on its way to a device
	Confirming State = "confirming" // the device is asked whether the host is off
	Powering   State = "powering"   // the host is off for certain, and is switched on again
	Done       State = "done"
	Failed     State = "failed"
)

// Ended reports whether nothing more happens.
func (s State) Ended() bool { return s == Done || s == Failed }

// Step is one device in the plan of an operation.
type Step struct {
	Level    int    `json:"level"`
	Device   string `json:"device"`
	Plug     string `json:"plug,omitempty"`
	Status   bool   `json:"status"` // it can tell whether the host is off
	On       bool   `json:"on"`
	Tries    int    `json:"tries"`
	TryMS    int64  `json:"try_ms"`
	DelayMS  int64  `json:"delay_ms,omitempty"`
	RandomMS int64  `json:"random_ms,omitempty"`
}

// Line is a line of the log of an operation.
type Line struct {
	AtMS int64  `json:"at_ms"` // Unix
	Text string `json:"text"`
}

// Cause is what has led to an operation.
type Cause string

// The causes.
const (
	CausePerson Cause = "person"      // a person asked for it
	CauseLost   Cause = "host_lost"   // the host is lost, and nothing else shows that it runs nothing
	CauseStop   Cause = "stop_failed" // a workload there could not be stopped
)

// maxLog is how many lines of an operation are kept, the last ones.
const maxLog = 100

// Op is one operation: what switches one host off, step by step. It is stored before each
// effect.
type Op struct {
	ID       string          `json:"id"`
	Host     protocol.HostID `json:"host"`
	Site     string          `json:"site,omitempty"`
	Action   Action          `json:"action"`
	Cause    Cause           `json:"cause"`
	By       string          `json:"by"` // who asked for it
	Reason   string          `json:"reason,omitempty"`
	Evidence []string        `json:"evidence,omitempty"`
	// Work are the ids of the workloads because of which it was decided.
	Work    []string `json:"work,omitempty"`
	State   State    `json:"state"`
	Steps   []Step   `json:"steps,omitempty"`
	At      int      `json:"at"`                // the step that is under way
	Try     int      `json:"try"`               // of that step, from 1
	UsedMS  int64    `json:"used_ms,omitempty"` // what its tries have taken
	BegunMS int64    `json:"begun_ms"`          // Unix
	EndedMS int64    `json:"ended_ms,omitempty"`
	Log     []Line   `json:"log,omitempty"`
	// Proof says what shows that the host is off; empty if nothing does.
	Proof string `json:"proof,omitempty"`
	// Signed is what a person has signed of it.
	Signed []byte `json:"signed,omitempty"`
	// ReturnedMS is when the host was let in again; until then it is granted nothing.
	ReturnedMS int64 `json:"returned_ms,omitempty"`
}

// Closes reports whether the operation keeps its host from being granted anything: from
// the moment at which an off may be on its way until the host is let in again.
func (o *Op) Closes() bool {
	switch {
	case o.Action == ActionUnfence || o.State == Failed || o.ReturnedMS != 0:
		return false
	}
	return o.State != Delayed
}

// Off reports whether the host was shown to be off, by a device or by a person's word, and
// was not let in again since.
func (o *Op) Off() bool {
	return o.ReturnedMS == 0 && o.Proof != "" && o.Action != ActionUnfence
}

// Outcome is what came of asking a device.
type Outcome string

// The outcomes. Everything that is not known for certain is a failure.
const (
	OutcomeOK      Outcome = "ok"
	OutcomeOff     Outcome = "off" // of status: the host is off
	OutcomeFailed  Outcome = "failed"
	OutcomeTimeout Outcome = "timed_out"
	OutcomeMissing Outcome = "not_installed"
)

// Effect is what is to be done next, after the operation was stored. The zero value is
// that nothing is.
type Effect struct {
	Wait time.Duration // then a Waited follows
	Run  Verb          // of the step that is under way; then a Ran follows
}

// pause is waited before an off is sent again. Source: Pacemaker.
const pause = time.Second

// note adds a line to the log, and drops the oldest ones beyond its bound.
func (o *Op) note(nowMS int64, format string, args ...any) {
	o.Log = append(slices.Clip(o.Log), Line{nowMS, fmt.Sprintf(format, args...)})
	if n := len(o.Log) - maxLog; n > 0 {
		o.Log = slices.Clone(o.Log[n:])
	}
}

// Begin is the first step of an operation. chance, within [0, 1), stretches the random
// delay. Times of operations are Unix milliseconds, for people; nothing is decided by them.
func (o Op) Begin(nowMS int64, chance float64) (Op, Effect) {
	o.BegunMS, o.Try = nowMS, 1
	if len(o.Steps) == 0 {
		return o.fail(nowMS, "no usable device can switch host %s", o.Host), Effect{}
	}
	if o.Action == ActionUnfence {
		return o.power(nowMS, 0)
	}
	first := o.Steps[0]
	wait := first.DelayMS + int64(chance*float64(first.RandomMS))
	if wait == 0 {
		return o.send(nowMS)
	}
	o.State = Delayed
	o.note(nowMS, "waits for %s before level %d", time.Duration(wait)*time.Millisecond, first.Level)
	return o, Effect{Wait: time.Duration(wait) * time.Millisecond}
}

// Waited follows a wait.
func (o Op) Waited(nowMS int64) (Op, Effect) { return o.send(nowMS) }

func (o Op) send(nowMS int64) (Op, Effect) {
	o.State = Sending
	s := o.Steps[o.At]
	o.note(nowMS, "level %d: off is sent to device %s%s, try %d of %d", s.Level, s.Device, plugged(s), o.Try, s.Tries)
	return o, Effect{Run: Off}
}

func plugged(s Step) string {
	if s.Plug == "" {
		return ""
	}
	return " for plug " + s.Plug
}

// GiveUp ends an operation of which nothing is on its way.
func (o Op) GiveUp(nowMS int64, why string) Op { return o.fail(nowMS, "it is given up: %s", why) }

// Ran takes what a device has answered: outcome, what it printed, and how long it took.
func (o Op) Ran(out Outcome, text string, took time.Duration, nowMS int64) (Op, Effect) {
	s := o.Steps[o.At]
	o.note(nowMS, "device %s answered after %s: %s%s", s.Device, took.Round(time.Millisecond), out, after(": ", text))
	switch o.State {
	case Sending:
		o.UsedMS += took.Milliseconds()
		if out != OutcomeOK {
			return o.again(out, nowMS)
		}
		if !s.Status {
			return o.confirmed(nowMS)
		}
		o.State = Confirming
		return o, Effect{Run: Status}
	case Confirming:
		if out == OutcomeOff {
			return o.confirmed(nowMS)
		}
		o.note(nowMS, "device %s does not say that host %s is off, so its off counts for nothing", s.Device, o.Host)
		return o.again(OutcomeTimeout, nowMS)
	case Powering:
		return o.power(nowMS, o.At+1)
	}
	return o, Effect{}
}

func after(sep, text string) string {
	if text == "" {
		return ""
	}
	return sep + text
}

// again tries the same device once more, or goes to the next level. What took too long is
// not tried again, nor what has used most of its time: the next level must have its own.
func (o Op) again(out Outcome, nowMS int64) (Op, Effect) {
	s := o.Steps[o.At]
	if out == OutcomeFailed && o.Try < s.Tries && o.UsedMS*10 < 7*s.TryMS*int64(s.Tries) {
		o.Try++
		o.State = Sending
		return o, Effect{Wait: pause}
	}
	next := slices.IndexFunc(o.Steps, func(x Step) bool { return x.Level > s.Level })
	if next < 0 {
		return o.fail(nowMS, "no device has switched host %s off", o.Host), Effect{}
	}
	o.note(nowMS, "level %d has failed", s.Level)
	o.At, o.Try, o.UsedMS = next, 1, 0
	return o.send(nowMS)
}

// confirmed follows a device that has done its part: the next one of the level, or the
// proof.
func (o Op) confirmed(nowMS int64) (Op, Effect) {
	s := o.Steps[o.At]
	if o.At+1 < len(o.Steps) && o.Steps[o.At+1].Level == s.Level {
		o.At, o.Try, o.UsedMS = o.At+1, 1, 0
		return o.send(nowMS)
	}
	return o.prove(nowMS)
}

func (o Op) prove(nowMS int64) (Op, Effect) {
	s := o.Steps[o.At]
	o.Proof = fmt.Sprintf("device %s says that it is off", s.Device)
	if !s.Status {
		o.Proof = fmt.Sprintf("device %s, which cannot be asked for a status, has switched it off", s.Device)
	}
	o.note(nowMS, "host %s is off: %s", o.Host, o.Proof)
	if o.Action == ActionReboot {
		return o.power(nowMS, o.first())
	}
	return o.end(nowMS), Effect{}
}

// first is the first step of the level that is under way.
func (o *Op) first() int {
	level := o.Steps[o.At].Level
	return slices.IndexFunc(o.Steps, func(s Step) bool { return s.Level == level })
}

// power switches a host on, by all devices of one level from step n on. It must not fail a
// fence: the host is off, and a person can switch it on.
func (o Op) power(nowMS int64, n int) (Op, Effect) {
	level := o.Steps[min(n, len(o.Steps)-1)].Level
	if n > 0 && o.State == Powering {
		level = o.Steps[o.At].Level
	}
	for ; n < len(o.Steps) && o.Steps[n].Level == level; n++ {
		if o.Steps[n].On {
			o.At, o.State = n, Powering
			o.note(nowMS, "on is sent to device %s%s", o.Steps[n].Device, plugged(o.Steps[n]))
			return o, Effect{Run: On}
		}
	}
	return o.end(nowMS), Effect{}
}

func (o Op) end(nowMS int64) Op {
	o.State, o.EndedMS = Done, nowMS
	return o
}

func (o Op) fail(nowMS int64, format string, args ...any) Op {
	o.note(nowMS, format, args...)
	o.State, o.EndedMS = Failed, nowMS
	return o
}

// Restarted is what becomes of an operation that a process before has left. Nothing is sent
// again: an off of long ago would kill a host that has recovered. An off that was sent may
// have worked, so its device is asked.
func (o Op) Restarted(nowMS int64) (Op, Effect) {
	o.note(nowMS, "the coordinator was restarted")
	switch {
	case o.State.Ended():
		return o, Effect{}
	case o.State == Powering:
		return o.end(nowMS), Effect{} // what was to be proved is proved, or was never to be
	case o.State == Delayed || len(o.Steps) == 0 || !o.Steps[o.At].Status:
		return o.fail(nowMS, "nothing is sent again after a restart"), Effect{}
	}
	// The other devices of the level, and all further levels, would have to be sent
	// something.
	rest := o.Steps[o.At+1:]
	if len(rest) > 0 && rest[0].Level == o.Steps[o.At].Level {
		return o.fail(nowMS, "nothing is sent again after a restart, and level %d has devices that were not asked", o.Steps[o.At].Level), Effect{}
	}
	o.Steps = slices.Clone(o.Steps[:o.At+1])
	if o.Action == ActionReboot {
		o.Action = ActionOff
	}
	o.State, o.Try = Confirming, o.Steps[o.At].Tries
	return o, Effect{Run: Status}
}
