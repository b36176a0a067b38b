package contract_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol/contract"
)

// TestDue: whatever the wall clock does, within a boot two are as far apart as they
// should be; across reboots the next one comes after at most that much uptime.
func TestDue(t *testing.T) {
	const year = int64(366 * 24 * time.Hour / time.Millisecond)
	rapid.Check(t, func(t *rapid.T) {
		s := contract.Schedule{EveryMS: rapid.Int64Range(60_000, year).Draw(t, "every")}
		last := contract.Ran{WallMS: rapid.Int64Range(0, 60*year).Draw(t, "wall"), BootMS: rapid.Int64Range(0, year).Draw(t, "boot"), Boot: "a"}
		now := contract.Ran{WallMS: last.WallMS + rapid.Int64Range(-10*year, 10*year).Draw(t, "jump"), BootMS: rapid.Int64Range(0, 2*year).Draw(t, "uptime"), Boot: "a"}
		if due := s.Due(last, now); due != (now.BootMS-last.BootMS >= s.EveryMS) {
			t.Errorf("in one boot, %d after the last: %v", now.BootMS-last.BootMS, due)
		}
		now.Boot = "b"
		due := s.Due(last, now)
		if now.BootMS >= s.EveryMS && !due {
			t.Error("it has been up for long enough")
		}
		if now.BootMS < s.EveryMS && due != (now.WallMS-last.WallMS >= s.EveryMS) {
			t.Errorf("after a reboot, %d later: %v", now.WallMS-last.WallMS, due)
		}
		if !s.Due(contract.Ran{}, now) {
			t.Error("the first one is due at once")
		}
	})
}

// TestSchedules are what they say, or wrong.
func TestSchedules(t *testing.T) {
	day := contract.Schedule{EveryMS: 86_400_000, KeepDaily: 7, KeepWeekly: 4}
	for _, bad := range []contract.Schedule{{}, {EveryMS: 1}, {EveryMS: 1 << 50}, {Off: true, EveryMS: 60_000}, {EveryMS: 60_000, KeepDaily: -1}, {EveryMS: 60_000, KeepWeekly: 1 << 20}, {EveryMS: 60_000, Pause: true}} {
		if s := (contract.Schedules{Backup: &bad}); s.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	kept := contract.Schedules{Backup: &day}.With(contract.Schedules{Snapshot: &contract.Schedule{EveryMS: 60_000, Pause: true}})
	if err := kept.Check(); err != nil || kept.Backup.String() != "every 1d, keeps 7 daily and 4 weekly" || kept.Snapshot.String() != "every 1m" {
		t.Errorf("%s, %s, %v", kept.Backup, kept.Snapshot, err)
	}
	if kept = kept.With(contract.Schedules{Backup: &contract.Schedule{Off: true}}); kept.Backup != nil || kept.Snapshot == nil {
		t.Errorf("%+v", kept)
	}
}
