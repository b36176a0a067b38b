package coordinator_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// decade is how wrong clocks are here.
const decade = 10 * 365 * 24 * time.Hour

// TestDateBackLengthensNoLife sets the date back while an invite and a token
// live, with and without a restart: they end when they would have ended, or at
// once.
func TestDateBackLengthensNoLife(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
				code := invite(t, f)
				secret, _, err := f.Coordinator().Access().CreateToken(t.Context(), f.Admin(), access.Wish{Name: "ci", Role: core.RoleViewer, Life: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				after(30 * time.Minute)
				f.SetDate(-decade)
				if restart {
					f.Restart()
					synctest.Wait()
				}
				if _, err := f.Authenticate(secret); (err == nil) != !restart {
					t.Errorf("after half of its life the token gives %v", err)
				}
				after(29 * time.Minute)
				if _, err := f.Authenticate(secret); (err == nil) != !restart {
					t.Errorf("shortly before its end the token gives %v", err)
				}
				after(time.Minute)
				if _, err := f.Authenticate(secret); !errors.Is(err, core.ErrDenied) {
					t.Errorf("after its life the token gives %v", err)
				}
				if err := offer(t, f, "edge-20", code, nil); !errors.Is(err, enrol.ErrExpired) {
					t.Errorf("after its life the invite gives %v", err)
				}
				code = invite(t, f)
				after(59 * time.Minute)
				if err := offer(t, f, "edge-21", code, nil); err != nil {
					t.Errorf("a new invite: %v", err)
				}
			})
		})
	}
}

// TestDateIsPutRight lets a coordinator start in the past and learn the date
// afterwards: what was made before its start is as old as it is.
func TestDateIsPutRight(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		secret, _, err := f.Coordinator().Access().CreateToken(t.Context(), f.Admin(), access.Wish{Name: "ci", Role: core.RoleViewer, Life: 2 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		f.SetDate(-decade)
		f.Restart()
		after(time.Hour)
		f.SetDate(0)
		if _, err := f.Authenticate(secret); err != nil {
			t.Errorf("after an hour of two: %v", err)
		}
		after(time.Hour)
		if _, err := f.Authenticate(secret); !errors.Is(err, core.ErrDenied) {
			t.Errorf("after its life: %v", err)
		}
	})
}

// TestDateMovesNoOrder sets the date forth and back while an order is with its
// host and before another one waits: neither ends early, nor gets a larger budget.
func TestDateMovesNoOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		under := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		f.SetDate(decade)
		after(time.Minute)
		f.SetDate(-decade)
		after(time.Minute)
		want(t, f, under.ID, protocol.StateRunning, "")
		h.Goodbye()
		synctest.Wait()
		waits := propose(t, f, h)
		after(23 * time.Hour)
		want(t, f, waits.ID, protocol.StatePendingSchedule, "")
		f.Restart()
		h.Connect()
		synctest.Wait()
		if left := order(t, h).Header.LeftMS; left > (24*time.Hour).Milliseconds()+60_000 || left <= 0 {
			t.Errorf("after the date went back over a restart, the order has %d ms left", left)
		}
	})
}
