package contract_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol/contract"
)

func TestCheck(t *testing.T) {
	for _, c := range []contract.Check{
		{Off: true}, {Cmd: []string{"true"}}, {TCP: 80}, {HTTP: ":80"}, {HTTP: ":8080/health?deep=1", IntervalMS: 1000, TimeoutMS: 100, Retries: 100, StartMS: 5, Action: "mark"},
	} {
		if err := c.Check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []contract.Check{
		{}, {Off: true, TCP: 80}, {Off: true, Action: "mark"}, {Cmd: []string{"true"}, TCP: 80}, {Cmd: []string{""}}, {Cmd: make([]string, 33)}, {TCP: 65536}, {TCP: -1},
		{HTTP: "80"}, {HTTP: ":0/"}, {HTTP: ":65536/"}, {HTTP: ":80/a b"}, {HTTP: ":80/\r\nX: y"}, {HTTP: "http://elsewhere"}, {HTTP: ":80@elsewhere/"},
		{TCP: 80, IntervalMS: 999}, {TCP: 80, TimeoutMS: 99}, {TCP: 80, TimeoutMS: -5}, {TCP: 80, Retries: 101}, {TCP: 80, StartMS: -1}, {TCP: 80, Action: "shoot"},
	} {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, text := range []string{":80", ":8080/health?deep=1", ":80/a b", "80", ":80@elsewhere/", ":80//elsewhere"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := contract.Check{HTTP: text}
		if c.Check() != nil {
			return
		}
		port, path, err := c.Where()
		if err != nil && text != "" || text != "" && (port < 1 || port > 65535 || path[0] != '/') {
			t.Errorf("%q is port %d, path %q, %v", text, port, path, err)
		}
	})
}

// TestHealth holds the state to what was seen: unhealthy exactly after as many failures in
// a row as are needed, of which those right after the start do not count.
func TestHealth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := contract.Check{TCP: 80, Retries: int64(rapid.IntRange(0, 4).Draw(t, "retries")), StartMS: int64(rapid.IntRange(0, 60).Draw(t, "start")) * 1000}
		var h contract.Health
		row, ever := int64(0), false
		for i, ok := range rapid.SliceOf(rapid.Bool()).Draw(t, "checks") {
			since := time.Duration(i) * 10 * time.Second
			h = c.After(h, ok, since)
			switch {
			case ok:
				row, ever = 0, true
			case ever || since >= c.Start():
				row++
			}
			want := contract.Starting
			switch {
			case row >= c.Needs():
				want, ever = contract.Unhealthy, true
			case ever:
				want = contract.Healthy
			}
			if row > 0 && row < c.Needs() && h.State == contract.Unhealthy || row >= c.Needs() && h.State != want || ok && h.State != contract.Healthy {
				t.Fatalf("after %d failures in a row, of which %d are needed, it is %+v", row, c.Needs(), h)
			}
		}
	})
}
