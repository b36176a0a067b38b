package coordinator_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/samples"
	"github.com/hostler-io/hostler/coordinator/samples/samplestest"
	"github.com/hostler-io/hostler/protocol"
	packing "github.com/hostler-io/hostler/protocol/samples"
)

// withSink is a fleet whose coordinator has a sink, and a host that sends samples.
func withSink(t *testing.T, test func(*testing.T, *coordtest.Fleet, *coordtest.Host, *samplestest.Fake)) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(samplestest.Fake)
		f := coordtest.New(t)
		f.Tune(func(c *coordinator.Config) { c.Samples = sink })
		f.Restart()
		h := f.AddHost("edge-07")
		h.Lie(func(m *protocol.Hello) { m.Features = []string{packing.Feature} })
		h.Connect()
		synctest.Wait()
		test(t, f, h, sink)
	})
}

func sampleID(n int) protocol.ActionID {
	var random [10]byte
	binary.BigEndian.PutUint64(random[:], uint64(n))
	return protocol.NewActionID(1780000000000, random)
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	b, n, err := packing.Pack([]byte(text), packing.MaxPacked)
	if err != nil || n != len(text) {
		t.Fatal(n, err)
	}
	return b
}

// answered checks the one answer to the samples of an id: how much is taken, and whether
// they are to be sent again.
func answered(t *testing.T, h *coordtest.Host, n int, taken int64, again bool) {
	t.Helper()
	answers, _ := h.Measured(sampleID(n))
	if len(answers) != 1 || answers[0].Offset != taken || (answers[0].Window > 0) != again {
		t.Errorf("the answers to %d are %+v, want one that %d bytes are taken, again %v", n, answers, taken, again)
	}
}

// TestSamplesOfHosts: samples get the name of the host whose key has signed them, and are
// answered when the sink has them.
func TestSamplesOfHosts(t *testing.T) {
	withSink(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, sink *samplestest.Fake) {
		if _, taken := h.Measured(sampleID(0)); !taken {
			t.Error("the host was not told that samples are taken")
		}
		b := packed(t, "hostler_host cpu=1 1780000000000\n")
		h.Measure(sampleID(1), b)
		after(time.Second)
		answered(t, h, 1, int64(len(b)), false)
		// A name in the text is refused for good, with all that came with it.
		h.Measure(sampleID(2), packed(t, "hostler_host cpu=2 1780000000000\nhostler_host,host=edge-01 cpu=3 1780000000000\n"))
		after(time.Second)
		answered(t, h, 2, 0, false)
		if diff := cmp.Diff("hostler_host,fleet="+string(coordtest.FleetName)+",host=edge-07 cpu=1 1780000000000\n", sink.Held()); diff != "" {
			t.Error(diff)
		}
		want := samples.Counts{Taken: 1, Lines: 1, Malformed: 1}
		if diff := cmp.Diff(want, f.Coordinator().Samples().Counts()); diff != "" {
			t.Error(diff)
		}
		if n := f.Coordinator().Stats().Refused[protocol.ErrPayload]; n != 1 {
			t.Errorf("%d messages are refused for their payload", n)
		}
		believed(t, h)
	})
}

// TestSamplesAreNotKept: what neither database nor disk has taken is answered with "later",
// also if the sink is wrong about that, and comes again.
func TestSamplesAreNotKept(t *testing.T) {
	withSink(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, sink *samplestest.Fake) {
		b := packed(t, "hostler_host cpu=1 1780000000000\n")
		sink.Away(true)
		sink.Broken(true)
		h.Measure(sampleID(1), b)
		after(time.Second)
		answered(t, h, 1, 0, true)
		sink.Away(false)
		sink.Broken(false)
		sink.Lie(true)
		h.Measure(sampleID(2), b)
		after(time.Second)
		answered(t, h, 2, 0, true)
		sink.Lie(false)
		h.Measure(sampleID(3), b)
		after(time.Second)
		answered(t, h, 3, int64(len(b)), false)
		if n := strings.Count(sink.Held(), "cpu=1"); n != 2 {
			t.Errorf("the database was given %d lines, want 2, which are one point", n)
		}
		if n := f.Coordinator().Samples().Counts(); n.Failed != 2 || n.Taken != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// TestSamplesHoldUpNothing: while the database gives no answer, orders go on, and what has no
// place is answered with "later" at once.
func TestSamplesHoldUpNothing(t *testing.T) {
	withSink(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, sink *samplestest.Fake) {
		sink.Hang(true)
		b := packed(t, "hostler_host cpu=1 1780000000000\n")
		for i := range 20 {
			h.Measure(sampleID(i), b)
		}
		after(time.Second)
		answered(t, h, 19, 0, true)
		if answers, _ := h.Measured(sampleID(0)); len(answers) != 0 {
			t.Errorf("an answer came before the database took the samples: %+v", answers)
		}
		propose(t, f, h)
		after(time.Second)
		if len(h.Orders()) != 1 {
			t.Error("the order does not come")
		}
		sink.Hang(false)
		after(time.Second)
		answered(t, h, 0, int64(len(b)), false)
		if n := f.Coordinator().Samples().Counts(); n.Full != 12 || n.Taken != 8 {
			t.Errorf("%+v", n)
		}
	})
}

// TestSamplesAreLimited: a host that sends too much is told so, while another one is served,
// and after a pause it is served as well.
func TestSamplesAreLimited(t *testing.T) {
	withSink(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, sink *samplestest.Fake) {
		var text strings.Builder
		for i := range 1500 {
			fmt.Fprintf(&text, "hostler_container,container=c%d cpu=1 1780000000000\n", i)
		}
		b := packed(t, text.String())
		const all = 60 // of some 100 KiB each, with their tags
		for i := range all {
			h.Measure(sampleID(i), b)
			synctest.Wait()
		}
		after(100 * time.Millisecond)
		n := f.Coordinator().Samples().Counts()
		if n.Taken < 30 || n.Limited < 10 || n.Taken+n.Limited != all {
			t.Errorf("%+v", n)
		}
		answered(t, h, all-1, 0, true)
		other := f.AddHost("edge-08")
		other.Connect()
		synctest.Wait()
		other.Measure(sampleID(1000), b)
		after(100 * time.Millisecond)
		answered(t, other, 1000, int64(len(b)), false)
		after(10 * time.Second)
		h.Measure(sampleID(1001), b)
		after(100 * time.Millisecond)
		answered(t, h, 1001, int64(len(b)), false)
	})
}

// TestNoSamples: a coordinator without a sink takes none, and tells no host that it does; a
// host that has not asked is told nothing either.
func TestNoSamples(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Lie(func(m *protocol.Hello) { m.Features = []string{packing.Feature} })
		h.Reboot()
		after(time.Minute)
		h.Measure(sampleID(1), packed(t, "hostler_host cpu=1 1780000000000\n"))
		after(time.Second)
		if answers, taken := h.Measured(sampleID(1)); taken || len(answers) > 0 {
			t.Errorf("%v %+v", taken, answers)
		}
		if n := f.Coordinator().Stats().Refused[protocol.ErrPayload]; n != 1 {
			t.Errorf("%d messages are refused for their payload", n)
		}
	})
	withSink(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host, _ *samplestest.Fake) {
		old := f.AddHost("edge-08")
		old.Connect()
		after(time.Minute)
		if _, taken := old.Measured(sampleID(1)); taken {
			t.Error("a host that knows nothing of samples is told of them")
		}
		believed(t, old)
	})
}
