package fencing

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/protocol"
)

var admin = core.Actor{Name: "ann", Role: core.RoleAdmin}

// stage is a room on virtual time, with devices that switch hosts of a map.
type stage struct {
	*testing.T
	*Room
	store *storetest.Mem
	stop  func()
	began time.Time

	mu       sync.Mutex
	on       map[string]bool // plug → whether it has power
	lies     string          // what every device says of a status
	asked    []string
	limit    time.Duration // of the newest question
	dead     bool          // the process has ended: nothing is stored, nothing is asked
	points   int           // how many moments are left until it ends; 0 is never
	suspects []fence.Host
	settling bool
	our      string
	heard    map[protocol.HostID]int64
	anew     map[protocol.HostID]int64 // when hosts were there anew
	told     map[protocol.HostID]int64 // when they told what they have
	mends    map[protocol.HostID]bool  // they are in maintenance
	during   func(agents.Call)         // what happens while a device is asked
}

// newStage is a stage with hosts a and b, which are heard, and one device for both.
func newStage(t *testing.T) *stage {
	s := &stage{T: t, began: time.Now().Add(-time.Hour), on: map[string]bool{"1": true, "2": true}, heard: make(map[protocol.HostID]int64), anew: make(map[protocol.HostID]int64), told: make(map[protocol.HostID]int64), mends: make(map[protocol.HostID]bool)}
	s.store = storetest.NewMem(storetest.Faults{Refuse: func() error {
		if s.point() {
			return errors.New("the process has ended")
		}
		return nil
	}})
	for _, h := range []protocol.HostID{"a", "b"} {
		err := s.store.Update(t.Context(), func(tx core.Tx) error {
			return tx.Hosts.Put(core.Host{ID: h, State: core.HostApproved, Key: protocol.KeyID{h[0]}})
		})
		if err != nil {
			t.Fatal(err)
		}
		s.heard[h] = s.boot()
	}
	s.begin()
	t.Cleanup(func() { s.stop() })
	d := fence.Device{Name: "pdu", Agent: "fence_test", Targets: []fence.Target{{Host: "a", Plug: "1"}, {Host: "b", Plug: "2"}}}
	if d, err := s.SetDevice(t.Context(), admin, d, ""); err != nil || d.Targets[0].SeenMS == 0 || d.Targets[1].SeenMS == 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	return s
}

func (s *stage) boot() int64 { return time.Since(s.began).Milliseconds() }

// begin is a new process on the same store.
func (s *stage) begin() {
	s.Helper()
	base := &core.Base{Store: s.store, Now: time.Now, Boot: s.boot, Rand: rand.Reader, Log: slog.New(slog.DiscardHandler), Ctx: s.Context()}
	s.Room = New(base, Config{Policy: fence.DefaultPolicy(), TTL: 90 * time.Second, Programs: s, Workloads: s, Secret: func(f string) (string, error) { return "secret of " + f, nil }})
	if err := s.store.View(s.Context(), s.Load); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Room.Run(ctx); err != nil {
			s.Error(err)
		}
	}()
	s.stop = func() {
		cancel()
		<-done
	}
}

// point is a moment at which the process may end. It reports whether it has.
func (s *stage) point() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.points > 0 {
		if s.points--; s.points == 0 {
			s.dead = true
		}
	}
	return s.dead
}

// Run implements [Programs].
func (s *stage) Run(_ context.Context, c agents.Call) agents.Result {
	if s.point() {
		return agents.Result{Outcome: fence.OutcomeFailed}
	}
	s.mu.Lock()
	during := s.during
	s.mu.Unlock()
	if during != nil {
		during(c)
	}
	s.mu.Lock()
	s.asked, s.limit = append(s.asked, c.Host+" "+c.Verb), c.Limit
	res := agents.Result{Outcome: fence.OutcomeOK, Took: time.Second}
	switch c.Verb {
	case "off":
		s.on[c.Plug] = false
	case "on":
		s.on[c.Plug] = true
	case "status":
		if !s.on[c.Plug] && s.lies == "" || s.lies == "off" {
			res.Outcome = fence.OutcomeOff
		}
	}
	s.mu.Unlock()
	s.point() // it has done so, and the process may not know
	return res
}

// Describe implements [Programs].
func (s *stage) Describe(context.Context, string) (agents.Metadata, error) {
	return agents.Metadata{Plug: "plug", On: true, Off: true, Status: true, Params: []string{"ip", "password", "login"}, Required: nil}, nil
}

// Suspects implements [Workloads].
func (s *stage) Suspects() []fence.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.suspects)
}

// OurSide implements [Workloads].
func (s *stage) OurSide() (bool, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settling, s.our
}

// Heard implements [Workloads].
func (s *stage) Heard(h protocol.HostID) (lastMS, anewMS, toldMS int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[h], s.anew[h], s.told[h]
}

// Maintenance implements [Workloads].
func (s *stage) Maintenance(h protocol.HostID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mends[h]
}

// lose has a host lost for a long time, with a workload that goes on without a lease.
func (s *stage) lose(h protocol.HostID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[h] = s.boot() - time.Hour.Milliseconds()
	s.suspects = append(s.suspects, fence.Host{ID: h, Lost: true, Silent: time.Hour, Work: []fence.Work{{CTID: "1", Name: "db", Why: "it goes on without a lease", Runs: true}}})
}

// back has a host heard again and again for a time.
func (s *stage) back(h protocol.HostID, d time.Duration) {
	for range int(d / (10 * time.Second)) {
		s.mu.Lock()
		s.heard[h] = s.boot()
		s.suspects = nil
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
	}
}

// tells has a host tell what it has.
func (s *stage) tells(h protocol.HostID, all ...protocol.Container) {
	s.Helper()
	err := s.store.Update(s.Context(), func(tx core.Tx) error {
		x, err := tx.Hosts.Get(h)
		x.Inventory = core.Inventory{AtMS: s.base.NowMS(), Containers: all}
		return errors.Join(err, tx.Hosts.Put(x))
	})
	if err != nil {
		s.Fatal(err)
	}
	s.set(func() { s.told[h] = s.boot() })
}

// set changes what the stage plays.
func (s *stage) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// questions are what devices were asked.
func (s *stage) questions() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, ", ")
}

func (s *stage) offs() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if strings.HasSuffix(a, " off") {
			n++
		}
	}
	return n
}

// TestLostHostIsFenced: a host that is lost is switched off, once; what it was sent is
// lost; it is let in when it was heard for a while and has told what it has.
func TestLostHostIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		sent, waits := core.Action{ID: protocol.NewActionID(1, [10]byte{1}), Host: "a", Kind: protocol.KindPing, State: protocol.StateRunning, N: 1}, core.Action{ID: protocol.NewActionID(1, [10]byte{2}), Host: "a", Kind: protocol.KindPing, State: protocol.StatePendingSchedule}
		if err := s.store.Update(t.Context(), func(tx core.Tx) error { return errors.Join(tx.Actions.Insert(sent), tx.Actions.Insert(waits)) }); err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.asked = nil })
		s.lose("a")
		time.Sleep(5 * time.Second)
		if got := s.questions(); got != "a off, a status, a on" {
			t.Fatalf("asked: %s", got)
		}
		s.set(func() {
			if s.limit != fence.DefaultTry {
				t.Errorf("a try may take %s", s.limit)
			}
		})
		if off, person := s.Off("a"); !off || person || s.Closed("a") == "" || s.Closed("b") != "" {
			t.Errorf("off %t, person %t, closed %q", off, person, s.Closed("a"))
		}
		o := s.Ops()[0]
		if o.Cause != fence.CauseLost || !strings.Contains(strings.Join(o.Evidence, " "), "silent for 1h0m0s") || o.Proof != "device pdu says that it is off" || len(o.Log) < 5 || o.By != "coordinator" {
			t.Errorf("%+v", o)
		}
		for id, want := range map[protocol.ActionID]protocol.State{sent.ID: protocol.StateLost, waits.ID: protocol.StatePendingSchedule} {
			a, err := core.Read(t.Context(), s.base, func(tx core.Tx) (core.Action, error) { return tx.Actions.Get(id) })
			if err != nil || a.State != want {
				t.Errorf("action is %s, want %s, %v", a.State, want, err)
			}
		}
		time.Sleep(10 * time.Minute) // it is silent: nothing more is sent
		if s.offs() != 1 {
			t.Errorf("asked: %v", s.questions())
		}
		s.back("a", time.Minute)
		if s.Closed("a") == "" {
			t.Error("it is let in before it has told what it has")
		}
		s.tells("a", protocol.Container{Name: "db", Class: "unique", State: "running"})
		s.back("a", time.Minute)
		if s.Closed("a") == "" {
			t.Error("it is let in while it runs what it is not granted")
		}
		s.tells("a")
		s.back("a", 20*time.Second)
		if off, _ := s.Off("a"); off || s.Closed("a") != "" {
			t.Errorf("it is not let in: off %t, closed %q", off, s.Closed("a"))
		}
	})
}

// TestHeldBack: nobody is fenced while our own side is suspected; what is held back is told,
// and a person releases it.
func TestHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		asked := make(chan struct{}) // closed when both requests are made
		release := sync.OnceFunc(func() { close(asked) })
		defer release()
		s.set(func() {
			s.our = "half of the hosts went at once"
			s.during = func(c agents.Call) {
				if c.Verb == "off" {
					<-asked
				}
			}
		})
		s.lose("a")
		time.Sleep(time.Hour)
		if held := s.Held(); s.offs() != 0 || len(held) != 1 || held[0].Host != "a" || !strings.HasPrefix(held[0].Held, "half") {
			t.Fatalf("held %+v, asked %v", held, s.questions())
		}
		o, err := s.Fence(t.Context(), admin, Request{Host: "a", Action: fence.ActionOff, Reason: "it is dead"})
		if err != nil || !strings.Contains(strings.Join(o.Evidence, " "), "it was held back: half of the hosts") {
			t.Fatalf("%+v, %v", o, err)
		}
		again, err := s.Fence(t.Context(), admin, Request{Host: "a", Action: fence.ActionOff})
		if err != nil || again.ID != o.ID {
			t.Errorf("a second request is no part of the first: %+v, %v", again, err)
		}
		release()
		time.Sleep(5 * time.Second)
		if o, err = s.Op(o.ID); err != nil || o.State != fence.Done || s.offs() != 1 || o.By != "token:ann" {
			t.Errorf("%+v, %v, asked %v", o, err, s.questions())
		}
	})
}

// TestWitness: while no witness answers nobody is fenced, and what is held back says so. The
// witness is asked about hosts that are to be fenced, and about none else.
func TestWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.stop()
		answers, asked := "no witness answers", 0
		s.cfg.Witness = func(context.Context) string {
			s.mu.Lock()
			defer s.mu.Unlock()
			asked++
			return answers
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Room.Run(ctx) }() // waited for below
		s.stop = func() {}
		time.Sleep(time.Minute)
		s.set(func() {
			if asked > 0 {
				t.Errorf("it was asked %d times, and no host is lost", asked)
			}
		})
		s.lose("a")
		time.Sleep(time.Hour)
		if held := s.Held(); s.offs() != 0 || len(held) != 1 || held[0].Held != "no witness answers" {
			t.Errorf("held %+v, asked %v", held, s.questions())
		}
		s.set(func() { answers = "" })
		time.Sleep(5 * time.Second)
		if off, _ := s.Off("a"); !off || s.offs() != 1 || len(s.Held()) > 0 {
			t.Errorf("when it answers: off %t, held %+v, asked %v", off, s.Held(), s.questions())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestLiar: a device that names a host as off that is heard is not used, until it says
// otherwise; and one that says on after its off proves nothing.
func TestLiar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.set(func() { s.lies = "off" })
		d, err := s.Test(t.Context(), admin, "pdu")
		if err != nil || !strings.Contains(d.Targets[0].Unusable, "host a is off, which talks") {
			t.Fatalf("%+v, %v", d, err)
		}
		if _, err := s.Fence(t.Context(), admin, Request{Host: "a"}); !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), "the device of another host, or it lies") {
			t.Errorf("%v", err)
		}
		s.lose("a")
		time.Sleep(time.Minute)
		if s.offs() != 0 {
			t.Errorf("it is used: %v", s.questions())
		}
		s.set(func() { s.lies = "on" })
		s.set(func() { s.heard["a"] = s.boot() })
		if d, err = s.Test(t.Context(), admin, "pdu"); err != nil || d.Targets[0].Unusable != "" {
			t.Fatalf("%+v, %v", d, err)
		}
		s.set(func() { s.heard["a"] = 0 })
		time.Sleep(2 * time.Second)
		if off, _ := s.Off("a"); off || s.offs() != 1 || s.Ops()[0].State != fence.Failed || s.Closed("a") != "" {
			t.Errorf("off %t, %+v, asked %v", off, s.Ops()[0], s.questions())
		}
	})
}

// TestDeviceOfMovedCable: what is looked at again and again finds it without a person.
func TestDeviceOfMovedCable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.set(func() { s.on["2"] = false })
		s.back("b", auditEvery+20*time.Second)
		d, err := s.Device("pdu")
		if b, _ := d.Target("b"); err != nil || b.Unusable == "" {
			t.Errorf("%+v, %v", d, err)
		}
		if a, _ := d.Target("a"); a.Unusable != "" {
			t.Errorf("%+v", a)
		}
	})
}

// TestKilledInEachStep ends the process at every moment of a fence, before and after each
// write and each question, and begins another one. An off is never sent twice for one
// silence without a new decision, and nothing counts as off that is on.
func TestKilledInEachStep(t *testing.T) {
	for n := 1; ; n++ {
		passed := false
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.set(func() { s.asked = nil })
			s.lose("a")
			s.mu.Lock()
			s.points = n
			s.mu.Unlock()
			time.Sleep(20 * time.Second)
			s.mu.Lock()
			passed = !s.dead
			s.mu.Unlock()
			s.stop()
			before := s.offs()
			s.mu.Lock()
			s.dead, s.points, s.settling = false, 0, true
			s.mu.Unlock()
			s.begin()
			time.Sleep(20 * time.Second)
			if s.offs() != before || before > 1 {
				t.Errorf("killed at %d: after the restart an off was sent: %v", n, s.questions())
			}
			for _, o := range s.Ops() {
				if !o.State.Ended() {
					t.Errorf("killed at %d: it does not end: %+v", n, o)
				}
			}
			if off, _ := s.Off("a"); off && before == 0 {
				t.Errorf("killed at %d: a host that was not switched off counts as off", n)
			}
			s.mu.Lock()
			s.settling = false
			s.mu.Unlock()
			time.Sleep(time.Minute) // it is decided anew if nothing was proved
			if off, _ := s.Off("a"); !off {
				t.Errorf("killed at %d: in the end it is not off: %+v", n, s.Ops())
			}
		})
		if passed {
			t.Logf("%d moments", n-1)
			return
		}
	}
}

// TestSecretsStay: the store has the names of files, and not what is in them.
func TestSecretsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		d := fence.Device{Name: "bmc", Agent: "fence_test", Secrets: map[string]string{"password": "bmc-a"}, Params: map[string]string{"ip": "192.0.2.1"}, Targets: []fence.Target{{Host: "a", Plug: "1", Level: 2}}}
		if _, err := s.SetDevice(t.Context(), admin, d, ""); err != nil {
			t.Fatal(err)
		}
		b, err := core.Read(t.Context(), s.base, readBook)
		text, _ := json.Marshal(b)
		if err != nil || strings.Contains(string(text), "secret of") || !strings.Contains(string(text), "bmc-a") {
			t.Errorf("%s, %v", text, err)
		}
		for want, change := range map[string]func(*fence.Device){
			"knows no parameter colour": func(d *fence.Device) { d.Params = map[string]string{"colour": "red"} },
			"host c":                    func(d *fence.Device) { d.Targets = []fence.Target{{Host: "c"}} },
		} {
			x := d
			change(&x)
			if _, err := s.SetDevice(t.Context(), admin, x, ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if _, err := s.SetDevice(t.Context(), core.Actor{Name: "bob", Role: core.RoleOperator}, d, ""); !errors.Is(err, core.ErrRole) {
			t.Errorf("an operator sets a device: %v", err)
		}
		if err := s.RemoveDevice(t.Context(), admin, "bmc", ""); err != nil || len(s.Devices()) != 1 {
			t.Errorf("%v, %d devices", err, len(s.Devices()))
		}
	})
}

// TestHungDeviceHoldsUpNoLook: while a device does not answer, the others are looked at in time.
func TestHungDeviceHoldsUpNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.set(func() { s.on["3"] = true })
		if _, err := s.SetDevice(t.Context(), admin, fence.Device{Name: "rack", Agent: "fence_test", Targets: []fence.Target{{Host: "b", Plug: "3"}}}, ""); err != nil {
			t.Fatal(err)
		}
		s.set(func() {
			s.on["3"] = false
			s.during = func(c agents.Call) {
				if c.Plug == "1" || c.Plug == "2" {
					time.Sleep(c.Limit)
				}
			}
		})
		s.back("b", auditEvery+20*time.Second)
		d, err := s.Device("rack")
		if b, _ := d.Target("b"); err != nil || b.Unusable == "" {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestUnfence: a host that is silent is switched on, and one that is heard is let in.
func TestUnfence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.lose("a")
		if _, err := s.Fence(t.Context(), admin, Request{Host: "a", Action: fence.ActionOff}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		o, err := s.Unfence(t.Context(), admin, Request{Host: "a"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if o, err = s.Op(o.ID); err != nil || o.State != fence.Done || !strings.HasSuffix(s.questions(), "a on") {
			t.Errorf("%+v, %v", o, err)
		}
		if off, _ := s.Off("a"); !off || s.Closed("a") == "" {
			t.Error("a host that nothing was heard of is let in")
		}
		s.tells("a")
		s.back("a", 10*time.Second)
		s.set(func() { s.heard["a"] = s.boot() })
		s.tells("a")
		if o, err = s.Unfence(t.Context(), admin, Request{Host: "a"}); err != nil || o.ReturnedMS == 0 || s.Closed("a") != "" {
			t.Errorf("%+v, %v, closed %q", o, err, s.Closed("a"))
		}
	})
}

// TestHistoryIsBounded: the oldest go, and none that still keeps its host out.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		for i := range maxOps + 1 {
			o := fence.Op{ID: fmt.Sprintf("%04d", i), Host: "b", Action: fence.ActionOff, State: fence.Failed}
			if i == 0 {
				o.State, o.Proof = fence.Done, "it is off"
			}
			if err := s.Room.store(t.Context(), core.Self(), o); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := s.Ops()
		if len(all) != maxOps/2 || all[len(all)-1].ID != "0000" || all[0].ID != fmt.Sprintf("%04d", maxOps) {
			t.Errorf("%d are kept, from %s to %s", len(all), all[0].ID, all[len(all)-1].ID)
		}
	})
}

// TestConcerns: what waits for a person, a host that is kept out, and a device that lies are
// alerts of the host that they are about.
func TestConcerns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		want := func(what, code, text string) {
			t.Helper()
			all := s.Concerns()["a"]
			if code == "" && len(all) > 0 || code != "" && (len(all) != 1 || all[0].ID != code || !strings.Contains(all[0].Text, text)) {
				t.Errorf("%s: %+v, want %s: %s", what, all, code, text)
			}
		}
		want("all is well", "", "")
		standing := func(want string) {
			t.Helper()
			h, err := core.Read(t.Context(), s.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get("a") })
			if got := s.Standing(h); err != nil || !strings.Contains(got, want) {
				t.Errorf("it stands so: %s, want %s; %v", got, want, err)
			}
		}
		standing("1 fence device can switch it off; a device comes before the end of its lease (fence.first = auto)")
		s.set(func() { s.our = "half of the hosts went at once" })
		s.lose("a")
		time.Sleep(2 * time.Second)
		want("held back", "coordinator.fence_needed", "db cannot start elsewhere: it is held back: half of the hosts")
		standing("held back")
		s.set(func() { s.our = "" })
		time.Sleep(10 * time.Second)
		s.set(func() { s.suspects = nil })
		want("fenced", "coordinator.fenced", "device pdu says that it is off")
		if err := s.RemoveDevice(t.Context(), admin, "pdu", ""); err != nil {
			t.Fatal(err)
		}
		s.tells("a")
		s.back("a", 2*time.Minute)
		s.tells("a")
		s.back("a", 20*time.Second)
		want("let in", "", "")
		s.lose("a")
		time.Sleep(2 * time.Second)
		want("no device", "coordinator.fence_needed", "no fence device is configured for host a")
	})
}

// TestLateOffIsNotSent: while the device is busy with one host, the other one waits for
// it; an off that would come late is not sent, nor one to a host that is heard again.
func TestLateOffIsNotSent(t *testing.T) {
	for _, heard := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.during = func(c agents.Call) {
				if c.Verb == "off" {
					time.Sleep(30 * time.Second)
				}
			}
			s.set(func() { s.asked = nil })
			s.lose("a")
			if _, err := s.Fence(t.Context(), admin, Request{Host: "b", Action: fence.ActionOff}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if heard {
				s.set(func() { s.heard["a"], s.suspects = s.boot(), nil })
			} else {
				s.set(func() { s.suspects = nil })
			}
			time.Sleep(2 * time.Minute)
			if n := s.offs(); n != 1 {
				t.Errorf("%d offs were sent: %s", n, s.questions())
			}
			failed := 0
			for _, o := range s.Ops() {
				if o.State == fence.Failed {
					failed++
					want := "an off that late is not sent"
					if heard {
						want = "the host is heard again"
					}
					if log := fmt.Sprint(o.Log); !strings.Contains(log, want) {
						t.Errorf("the log does not say that %s: %s", want, log)
					}
				}
			}
			if failed == 0 {
				t.Error("no fence has failed")
			}
			s.stop()
		})
	}
}

// TestMaintenanceStopsAFence: a person who sets a host in maintenance while its fence waits for
// its delay is spared the off.
func TestMaintenanceStopsAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		d, err := s.Device("pdu")
		if err != nil {
			t.Fatal(err)
		}
		d.DelayMS = 5000
		if _, err := s.SetDevice(t.Context(), admin, d, ""); err != nil {
			t.Fatal(err)
		}
		s.lose("a")
		time.Sleep(3 * time.Second)
		s.set(func() { s.mends["a"], s.suspects = true, nil })
		time.Sleep(time.Minute)
		if o := s.Ops()[0]; o.State != fence.Failed || s.offs() != 0 || !strings.Contains(fmt.Sprint(o.Log), "the host is in maintenance") {
			t.Errorf("%+v, asked %v", o, s.questions())
		}
		if _, err := s.Fence(t.Context(), admin, Request{Host: "a", Action: fence.ActionOff}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if s.offs() != 1 {
			t.Errorf("a person's is not carried out: %v", s.questions())
		}
	})
}

// TestUnfencedAtOnce: a person lets a host in that has told what it has since it was
// fenced, whenever that was, and all that keeps it closed ends.
func TestUnfencedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.cfg.Policy.Unfence = "manual"
		s.lose("a")
		time.Sleep(5 * time.Second)
		s.set(func() { s.suspects = nil })
		if _, err := s.Fence(t.Context(), admin, Request{Host: "a"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.tells("a")
		s.back("a", time.Minute)
		if s.Closed("a") == "" {
			t.Fatal("it is let in without a person")
		}
		if o, err := s.Unfence(t.Context(), admin, Request{Host: "a"}); err != nil || o.ReturnedMS == 0 {
			t.Fatalf("%+v, %v", o, err)
		}
		if why := s.Closed("a"); why != "" {
			t.Errorf("it is closed still: %s", why)
		}
	})
}
