package copiestest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

const ms = time.Millisecond

// life are the beats of a copy, every 10 ms from one time to another.
func life(host protocol.HostID, counter uint64, from, to time.Duration) (all []Beat) {
	c := Copy{Host: host, Epoch: protocol.Epoch{Term: protocol.Term{Ring: 2, Counter: 1}, Counter: counter}, Born: from}
	for at := from; at <= to; at += 10 * ms {
		all = append(all, Beat{c, at})
	}
	return all
}

// TestJudge plants each fault in a good history: two lives on one host, then one on
// another host.
func TestJudge(t *testing.T) {
	free := []Span{{0, 100 * ms}, {700 * ms, 900 * ms}}
	for name, c := range map[string]struct {
		lives [][]Beat
		free  []Span
		wrong []string // a part of each sentence
	}{
		"good":                                {nil, free, nil},
		"two hosts at once":                   {[][]Beat{life("edge-03", 7, 750*ms, 760*ms)}, free, []string{"ran at once", "epoch fell", "two hosts"}},
		"two hosts in one moment":             {[][]Beat{life("edge-02", 9, 900*ms, 950*ms)}, free, []string{"ran at once"}},
		"two copies on one host":              {[][]Beat{life("edge-02", 9, 850*ms, 950*ms)}, free, []string{"ran at once"}},
		"the same epoch on another host":      {[][]Beat{life("edge-01", 8, 910*ms, 950*ms)}, free, []string{"two hosts"}},
		"an epoch that falls":                 {[][]Beat{life("edge-01", 7, 910*ms, 950*ms)}, free, []string{"epoch fell"}},
		"an epoch that falls below all":       {[][]Beat{life("edge-01", 6, 910*ms, 950*ms)}, free, []string{"epoch fell"}},
		"a short copy within a long one":      {[][]Beat{life("edge-01", 9, 820*ms, 820*ms), life("edge-03", 10, 850*ms, 850*ms)}, free, []string{"ran at once", "ran at once"}},
		"silence between two lives":           {nil, []Span{{410 * ms, 490 * ms}}, []string{"silent"}},
		"silence for ever":                    {nil, []Span{{time.Second, time.Minute}}, []string{"silent"}},
		"a life in a term that is older":      {[][]Beat{{{Copy{"edge-01", protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 9}, Counter: 99}, 910 * ms}, 910 * ms}}}, free, []string{"epoch fell"}},
		"a life in a term that is newer":      {[][]Beat{{{Copy{"edge-01", protocol.Epoch{Term: protocol.Term{Ring: 3}, Counter: 1}, 910 * ms}, 910 * ms}}}, free, nil},
		"the next life under the same epoch":  {[][]Beat{life("edge-02", 8, 910*ms, 950*ms)}, free, nil},
		"a restart that keeps its old birth":  {[][]Beat{life("edge-02", 8, 700*ms, 900*ms)}, free, nil},
		"back on the first host, once it may": {[][]Beat{life("edge-01", 9, 910*ms, 950*ms)}, free, nil},
	} {
		t.Run(name, func(t *testing.T) {
			beats := append(life("edge-02", 8, 700*ms, 900*ms), life("edge-01", 7, 0, 200*ms)...)
			beats = append(beats, life("edge-01", 7, 250*ms, 400*ms)...)
			for _, l := range c.lives {
				beats = append(beats, l...)
			}
			v := Judge(beats, c.free)
			overlaps := 0
			for i, w := range v.Wrong {
				if strings.Contains(w, "at once") {
					overlaps++
				}
				if i >= len(c.wrong) || !strings.Contains(w, c.wrong[i]) {
					t.Errorf("it finds %q, want %q", v.Wrong, c.wrong)
				}
			}
			if len(v.Wrong) < len(c.wrong) || v.Overlaps != overlaps {
				t.Errorf("it finds %q and counts %d overlaps, want %q", v.Wrong, v.Overlaps, c.wrong)
			}
		})
	}
}

// TestCounts: what was seen of a good history, and of one without a line.
func TestCounts(t *testing.T) {
	beats := append(life("edge-01", 1, 0, 100*ms), life("edge-01", 1, 150*ms, 200*ms)...)
	beats = append(beats, life("edge-02", 2, 700*ms, 800*ms)...)
	beats = append(beats, life("edge-01", 3, 1100*ms, 1200*ms)...)
	if v := Judge(beats, nil); v.Wrong != nil || v.Copies != 4 || v.Takeovers != 2 || v.Shortest != 300*ms {
		t.Errorf("%+v", v)
	}
	if v := Judge(nil, []Span{{0, ms}}); len(v.Wrong) != 1 || v.Copies != 0 {
		t.Errorf("of a container that never ran: %+v", v)
	}
}

// TestParse: lines are read as they are written, and nothing else is.
func TestParse(t *testing.T) {
	want := life("edge-01", 3, 0, 50*ms)
	var text strings.Builder
	for _, b := range want {
		fmt.Fprintln(&text, b)
	}
	got, err := Parse(text.String())
	if err != nil || len(got) != len(want) || got[5] != want[5] {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"\n", "edge-01 2.1.3 5\n", "edge-01 2.1.3 5 6", "edge-01 2.1.3 5 6 7\n", "edge-01 2.1 5 6\n", "edge-01 2.1.3 5 6x\n", "edge-01 2.1.3 5 6edge-02 2.1.3 5 6\n"} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
