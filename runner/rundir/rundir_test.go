package rundir

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testSpec() *Spec {
	return &Spec{
		Action: "0190-a.b_c", Attempt: 3,
		Argv: []string{"/bin/echo", "a b", "\"quoted\"\\", "$(x);`y`", "tab\tnl\n\x01", "é€😀", ""},
		Env:  []string{"A=1", "B="}, Dir: "/tmp", User: "nobody",
		TimeoutMS: 60_000, GraceMS: -1, CapBytes: 1 << 20, Target: map[string]string{"b": "2", "a": "1"},
	}
}

func TestSpecRoundTrip(t *testing.T) {
	want := testSpec()
	b := AppendSpec(nil, want)
	got, err := ParseSpec(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !json.Valid(b) {
		t.Errorf("not JSON: %s", b)
	}
}

// What was added is left out when it says nothing: programs of before read it.
func TestAddedMembers(t *testing.T) {
	plain := string(AppendSpec(nil, testSpec()))
	if strings.Contains(plain, "terminal") || strings.Contains(plain, "login") {
		t.Errorf("a spec without a terminal speaks of one: %s", plain)
	}
	if x := string(AppendExit(nil, &Exit{})); strings.Contains(x, "hung_up") {
		t.Errorf("an end that was none of a terminal speaks of one: %s", x)
	}
	want := testSpec()
	want.Argv, want.Login, want.Terminal = []string{}, true, &Terminal{Rows: 24, Cols: 65535, HangUpMS: 30_000}
	got, err := ParseSpec(AppendSpec(nil, want))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	x, err := ParseExit(AppendExit(nil, &Exit{HungUp: true}))
	if err != nil || !x.HungUp {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	exit := &Exit{
		WaitStatus: 0xffffffff, Code: 137, Signal: 9, OOM: true, TimedOut: true, Cancelled: true, NeverBegan: true,
		Emptied: true, Reason: ReasonSpec, Detail: "why \"x\"", Stdout: Stream{100, 10, 50, 20}, Stderr: Stream{Bytes: 1},
		StartedMS: 5, EndedMS: 7, Unrecorded: true, RecordingEnded: "no room",
	}
	gotExit, err := ParseExit(AppendExit(nil, exit))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(exit, gotExit); d != "" {
		t.Error(d)
	}
	start := &Start{Boot: "b", PID: 7, StartTicks: 9, Leaf: "/sys/fs/cgroup/hostler.a.1", StartedMS: 4, Keep: NewKeep(1<<20, true)}
	gotStart, err := ParseStart(AppendStart(nil, start))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(start, gotStart); d != "" {
		t.Error(d)
	}
	holder := &Holder{PID: 1, StartTicks: 2, Leaf: ""}
	gotHolder, err := ParseHolder(AppendHolder(nil, holder))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(holder, gotHolder); d != "" {
		t.Error(d)
	}
}

func TestParseSpecRefuses(t *testing.T) {
	object, err := CheckSum(AppendSpec(nil, testSpec()))
	if err != nil {
		t.Fatal(err)
	}
	good := string(object)
	cases := map[string]struct {
		text string
		want error
	}{
		"empty":          {"", ErrFormat},
		"truncated":      {good[:len(good)/2], ErrFormat},
		"trailing":       {good + "{}", ErrFormat},
		"unknown field":  {strings.Replace(good, `"user":`, `"colour":"red","user":`, 1), ErrFormat},
		"repeated field": {strings.Replace(good, `"user":`, `"user":"root","user":`, 1), ErrFormat},
		"missing field":  {strings.Replace(good, `"user":"nobody",`, ``, 1), ErrFormat},
		"other version":  {strings.Replace(good, `"version":1`, `"version":2`, 1), ErrVersion},
		"bad UTF-8":      {strings.Replace(good, `"nobody"`, "\"\xff\"", 1), ErrFormat},
		"NUL":            {strings.Replace(good, `"nobody"`, `"\u0000"`, 1), ErrFormat},
		"fraction":       {strings.Replace(good, `"attempt":3`, `"attempt":3.0`, 1), ErrFormat},
		"no program":     {strings.Replace(good, `"/bin/echo"`, `""`, 1), ErrFormat},
		"path as action": {strings.Replace(good, `"0190-a.b_c"`, `"../x"`, 1), ErrFormat},
		"marked field":   {strings.Replace(good, `"user":`, `"?login":true,"user":`, 1), ErrFormat},
		"login and argv": {strings.Replace(good, `"user":`, `"login":true,"user":`, 1), ErrFormat},
		"half terminal":  {strings.Replace(good, `"user":`, `"terminal":{"rows":1},"user":`, 1), ErrFormat},
		"huge terminal":  {strings.Replace(good, `"user":`, `"terminal":{"rows":65536,"cols":1,"hang_up_ms":0},"user":`, 1), ErrFormat},
		"oversized":      {good + strings.Repeat(" ", MaxSpec), ErrTooLarge},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := []byte(c.text)
			if strings.HasSuffix(c.text, "}") {
				text = AppendSum(text) // it was written so
			}
			if _, err := ParseSpec(text); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// A leaf is killed by whoever reads it, so nothing but a leaf may pass.
func TestParseStartRefusesForeignLeaf(t *testing.T) {
	for _, leaf := range []string{"/", "/sys/fs/cgroup/system.slice", "hostler.a.1", "/x/hostler."} {
		b := AppendStart(nil, &Start{Boot: "b", PID: 7, Leaf: leaf, Keep: NewKeep(1<<20, true)})
		if _, err := ParseStart(b); !errors.Is(err, ErrFormat) {
			t.Errorf("leaf %q: got %v, want ErrFormat", leaf, err)
		}
	}
}

// What is kept stays within the cap, nothing is dropped below it, and the
// dropped range only grows.
func TestKeep(t *testing.T) {
	for _, limit := range []int64{MinCap, MinCap + 1, 1 << 20, DefaultCap, DefaultCap + 12345} {
		for _, punch := range []bool{true, false} {
			k := NewKeep(limit, punch)
			if !k.valid() {
				t.Fatalf("cap %d: invalid %+v", limit, k)
			}
			if from, to := k.Dropped(limit); from != to {
				t.Errorf("cap %d: %d bytes of exactly the cap are dropped", limit, to-from)
			}
			last := int64(0)
			for size := int64(0); size < 3*limit; size += limit / 97 {
				from, to := k.Dropped(size)
				if from > to || to > from && to > size {
					t.Fatalf("cap %d size %d: range [%d, %d)", limit, size, from, to)
				}
				if kept := size - (to - from); kept > limit {
					t.Fatalf("cap %d size %d: %d bytes kept", limit, size, kept)
				}
				if size <= limit && to > from {
					t.Fatalf("cap %d size %d: %d bytes dropped below the cap", limit, size, to-from)
				}
				if to < last {
					t.Fatalf("cap %d size %d: dropped range shrank", limit, size)
				}
				last = to
			}
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add(AppendSpec(nil, testSpec()))
	f.Add(AppendSpec(nil, &Spec{Action: "a", Attempt: 1, Login: true, Terminal: &Terminal{Rows: 24, Cols: 80, HangUpMS: 30_000}}))
	f.Add([]byte(`{"version":1,"action":"a"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSpec(b)
		if err != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("accepted what is not JSON: %q", b)
		}
		again, err := ParseSpec(AppendSpec(nil, s))
		if err != nil {
			t.Fatalf("own encoding of %q: %v", b, err)
		}
		if d := cmp.Diff(s, again); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzParseStart(f *testing.F) {
	f.Add(AppendStart(nil, &Start{Boot: "b", PID: 7, Leaf: "/x/hostler.a.1", Keep: NewKeep(1<<20, true)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStart(b)
		if err != nil {
			return
		}
		again, err := ParseStart(AppendStart(nil, s))
		if err != nil || *s != *again || !json.Valid(b) {
			t.Fatalf("%q: %v, %v, %v", b, s, again, err)
		}
	})
}

func FuzzParseExit(f *testing.F) {
	f.Add(AppendExit(nil, &Exit{Code: 1, Stdout: Stream{100, 10, 50, 20}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ParseExit(b)
		if err != nil {
			return
		}
		again, err := ParseExit(AppendExit(nil, x))
		if err != nil || *x != *again || !json.Valid(b) {
			t.Fatalf("%q: %v, %v, %v", b, x, again, err)
		}
	})
}

func FuzzParseHolder(f *testing.F) {
	f.Add(AppendHolder(nil, &Holder{PID: 1, StartTicks: 2, Leaf: "/x/hostler.a.1"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHolder(b)
		if err != nil {
			return
		}
		again, err := ParseHolder(AppendHolder(nil, h))
		if err != nil || *h != *again || !json.Valid(b) {
			t.Fatalf("%q: %v, %v, %v", b, h, again, err)
		}
	})
}

// TestCreditOfOneStream: what supervisors of other versions say and hear. Those of
// before NotTaken refuse what is below zero.
func TestCreditOfOneStream(t *testing.T) {
	if b := string(AppendRequest(nil, Request{Op: OpCredit, Taken: [2]int64{7, NotTaken}})); strings.Contains(b, "stderr") || strings.Contains(b, "-1") {
		t.Errorf("of a stream that nobody follows it says %s", b)
	}
	for b, want := range map[string][2]int64{
		`{"version":1,"op":"credit","stdout":7,"stderr":0}`: {7, 0},
		`{"version":1,"op":"credit","stderr":7}`:            {NotTaken, 7},
		`{"version":1,"op":"cancel"}`:                       {},
	} {
		if r, err := ParseRequest([]byte(b)); err != nil || r.Taken != want {
			t.Errorf("%s is read as %v, %v", b, r, err)
		}
	}
	for _, b := range []string{`{"version":1,"op":"credit","stdout":-2}`, `{"version":1,"op":"cancel","stdout":0}`} {
		if r, err := ParseRequest([]byte(b)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s is read as %v, %v", b, r, err)
		}
	}
}

func FuzzParsePackets(f *testing.F) {
	f.Add(AppendRequest(nil, Request{Op: OpCancel}))
	f.Add(AppendRequest(nil, Request{Op: OpCredit, Taken: [2]int64{1, 1 << 40}}))
	f.Add(AppendRequest(nil, Request{Op: OpCredit, Taken: [2]int64{NotTaken, 1}}))
	f.Add(AppendReply(nil, Reply{ResultEnded}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseRequest(b); err == nil {
			if again, err := ParseRequest(AppendRequest(nil, r)); err != nil || r != again {
				t.Fatalf("%q: %v, %v, %v", b, r, again, err)
			}
		}
		if r, err := ParseReply(b); err == nil {
			if again, err := ParseReply(AppendReply(nil, r)); err != nil || r != again {
				t.Fatalf("%q: %v, %v, %v", b, r, again, err)
			}
		}
	})
}
