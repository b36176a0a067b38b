package unique

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// TestMoveTakesProof: a workload that a person moves is withheld first, is free under the
// next epoch when its host says that it has stopped it, and not before.
func TestMoveTakesProof(t *testing.T) {
	w, h, v := held()
	w, err := w.Ask(Move{To: "b", By: "ann"}, "")
	if err != nil {
		t.Fatal(err)
	}
	w, changed := Decide(w, h, v)
	if !changed || w.Phase != Withheld || w.Epoch.Counter != 7 || !strings.Contains(w.Why, "it moves to host b, as ann asked") {
		t.Fatalf("%+v", w)
	}
	if w, _ = Decide(w, h, v); w.Phase != Withheld {
		t.Fatalf("without any proof: %+v", w)
	}
	h.Quiet = true
	if w, _ = Decide(w, h, v); w.Phase != Free || w.Epoch.Counter != 8 {
		t.Fatalf("%+v", w)
	}
	w, err = w.Place("b", w.Epoch.Term)
	if err != nil || w.Host != "b" || w.Moving() || w.Leaves() || w.Move.To != "b" {
		t.Errorf("%+v, %v", w, err)
	}
	h.Quiet = false
	if next, changed := Decide(w, h, v); changed {
		t.Errorf("when it is there it goes on moving: %+v", next)
	}
	v.NowMS += time.Hour.Milliseconds()
	if w, _ = Decide(w, h, v); w.Phase != Withheld || w.Move != (Move{}) {
		t.Errorf("a move to a host that is lost lasts: %+v", w)
	}
}

// TestMoveIsDropped: a workload whose target cannot take it any more goes on where it is, or,
// if it was stopped already, wherever it may be.
func TestMoveIsDropped(t *testing.T) {
	w, h, v := held()
	w, err := w.Ask(Move{To: "b", By: "ann"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Follow(""); got != w {
		t.Errorf("a host that can take it: %+v", got)
	}
	if got := w.Follow("it is away"); got.Move != (Move{}) || got.Leaves() {
		t.Errorf("before it was withheld: %+v", got)
	}
	w, _ = Decide(w, h, v)
	back, _ := Decide(w.Follow("it is away"), h, v)
	if back.Phase != Held || back.Host != "a" || back.Epoch != w.Epoch {
		t.Errorf("before it was stopped: %+v", back)
	}
	h.Quiet = true
	w, _ = Decide(w, h, v)
	if w = w.Follow("it is away"); w.Phase != Free || w.Move != (Move{}) {
		t.Errorf("when it was stopped: %+v", w)
	}
	if w, err = w.Place("c", w.Epoch.Term); err != nil || w.Follow("it is away") != w {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestMoveIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Workload)
		to      protocol.HostID
		refused string
		want    string // within the error; empty: it is taken
	}{
		"as it should be": {func(*Workload) {}, "b", "", ""},
		"shared data":     {func(w *Workload) { w.Data = DataShared }, "b", "", ""},
		"drained":         {func(w *Workload) { w.Moves = true }, "b", "", ""},
		"local data":      {func(w *Workload) { w.Data = DataLocal }, "b", "", "its data are on host a"},
		"data in backups": {func(w *Workload) { w.Data = DataBackup }, "b", "", "since its newest backup would be lost"},
		"there already":   {func(*Workload) {}, "a", "", "it is on host a already"},
		"moving":          {func(w *Workload) { w.Move = Move{To: "c", By: "bob"} }, "b", "", "bob already moves it to host c"},
		"withheld":        {func(w *Workload) { w.Phase, w.Why = Withheld, "host a is lost" }, "b", "", "about to leave host a: host a is lost"},
		"free":            {func(w *Workload) { w.Phase, w.Why = Free, "no host can take it" }, "b", "", "it runs nowhere"},
		"stopped":         {func(w *Workload) { w.Stopped = true }, "b", "", "its user has stopped it"},
		"a full host":     {func(*Workload) {}, "b", "not enough memory", "host b cannot take it: not enough memory"},
	} {
		w, _, _ := held()
		c.change(&w)
		got, err := w.Ask(Move{To: c.to, By: "ann"}, c.refused)
		if c.want == "" && (err != nil || !got.Moving()) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || got != w) {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.want)
		}
	}
}
