package chaos

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// TestTwiceAndShuffled delivers every message twice, both times anywhere within
// a window, whichever way it goes and whatever it says: nothing is done twice,
// nothing is lost, and both sides agree in the end. With restarts, what was
// said to a process also reaches its successor.
func TestTwiceAndShuffled(t *testing.T) {
	for _, window := range []time.Duration{3 * time.Millisecond, 2 * time.Second, 20 * time.Second, 2 * time.Minute} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/restarts=%v", window, restarts), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { shuffle(t, window, restarts) })
			})
		}
	}
}

func shuffle(t *testing.T, window time.Duration, restarts bool) {
	w := newWorld(t, 1)
	w.plan = plan{length: 4 * time.Minute, harm: harm{shuffle: window}}
	var steps []step
	for at := 2 * time.Second; at < 3*time.Minute; at += 20 * time.Second {
		steps = append(steps, step{at, "everything", func() { w.everything() }})
		if restarts {
			steps = append(steps, step{at + 10*time.Second, "restart", func() { w.replaceAll() }})
		}
	}
	w.through(steps)
	w.broker.mu.Lock()
	must := []protocol.Channel{protocol.ChannelOrder, protocol.ChannelControl, protocol.ChannelReceipt, protocol.ChannelReport, protocol.ChannelAck}
	// Processes that live shorter than messages travel leave few chunks and hear of few
	// leases, and a host sends few chunks within a credit that is minutes under way.
	if window >= 2*time.Minute && !restarts { // leases are 30 s apart
		must = append(must, protocol.ChannelLease, protocol.ChannelGrant)
	}
	if !restarts && window < 2*time.Minute {
		must = append(must, protocol.ChannelOut)
	}
	for _, c := range must {
		if w.broker.passed[c] == 0 {
			t.Errorf("no message on %s overtook another", c)
		}
	}
	t.Logf("%d messages about %d actions; overtook another: %v", len(w.broker.said), len(w.asked), w.broker.passed)
	w.broker.mu.Unlock()
	w.end()
}

// everything asks each host for what makes messages of every channel: commands
// that end by themselves, are cancelled at once, later or too late, print, and
// are read meanwhile; the life of a container that is stopped past everything
// that waits for it; and more of it all than a window of a stream.
func (w *world) everything() {
	for _, h := range w.hosts {
		r := rand.New(rand.NewPCG(w.r.Uint64(), w.r.Uint64()))
		ask := func(s protocol.Spec) asked { return asked{id: actionID(r), host: h, spec: s} }
		run := func(argv ...string) asked {
			return ask(protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: argv}, TimeLimit: protocol.TimeLimit{TimeoutMS: protocol.NoTimeout}}})
		}
		for _, patience := range []time.Duration{0, time.Millisecond, time.Second, 10 * time.Second} {
			w.want(run("hang"), true, patience)
			w.want(run("true"), true, patience)
		}
		w.want(run("false"), false, 0)
		w.want(run("print", "90000", "3s"), false, 0)
		read := run("print", "1600000", "5s")
		read.followed = new([]byte)
		w.want(read, false, 0)
		ct := protocol.NewCTID(1, [10]byte{h.id[len(h.id)-1], byte(r.IntN(200))})
		w.want(ask(protocol.Spec{Kind: protocol.KindCreate, Target: ct, Name: "ct-1", Args: &protocol.CreateArgs{Template: "busybox", Start: true}}), false, 0)
		for _, k := range []protocol.Kind{protocol.KindStop, protocol.KindStart, protocol.KindStopNow, protocol.KindReset, protocol.KindStopNow, protocol.KindDestroy} {
			w.want(ask(protocol.Spec{Kind: k, Target: ct}), false, 0)
		}
	}
	for range stream.Window / 4 {
		w.want(asked{id: actionID(w.r), host: w.hosts[0], spec: protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: []string{"true"}}, TimeLimit: protocol.TimeLimit{TimeoutMS: protocol.NoTimeout}}}}, false, 0)
	}
}

// replaceAll kills all processes and starts others at once.
func (w *world) replaceAll() {
	w.center.end(true)
	for _, h := range w.hosts {
		h.end(true)
		h.start()
	}
	w.center.start()
}
