package fencing

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDateBackLetsIn: a host that was fenced before the date of the coordinator went back, or
// forward, is let in as any other is: when it has told what it has since, and not before.
func TestDateBackLetsIn(t *testing.T) {
	for name, years := range map[string]int{"back": -1, "forward": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.tells("a")
				s.lose("a")
				time.Sleep(5 * time.Second)
				if off, _ := s.Off("a"); !off {
					t.Fatal("it is not fenced")
				}
				s.set(func() { s.base.Now = func() time.Time { return time.Now().AddDate(years, 0, 0) } })
				s.back("a", time.Minute)
				if s.Closed("a") == "" {
					t.Error("it is let in before it has told what it has")
				}
				s.tells("a")
				s.back("a", 10*time.Second)
				if why := s.Closed("a"); why != "" {
					t.Errorf("it has told what it has, and is %s", why)
				}

				// A person lets it in, too, and so does the next process.
				s.cfg.Policy.Unfence = "manual"
				s.lose("a")
				time.Sleep(5 * time.Second)
				s.stop()
				s.begin()
				s.cfg.Policy.Unfence = "manual"
				s.set(func() { s.told["a"] = 0 })
				s.back("a", time.Minute)
				if _, err := s.Unfence(t.Context(), admin, Request{Host: "a"}); err == nil {
					t.Error("it is let in before it has told what it has")
				}
				s.tells("a")
				s.back("a", 10*time.Second)
				if _, err := s.Unfence(t.Context(), admin, Request{Host: "a"}); err != nil || s.Closed("a") != "" {
					t.Errorf("%v, closed %q", err, s.Closed("a"))
				}
			})
		})
	}
}
