package containers

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// BackupSchedule returns hostler backup schedule.
func BackupSchedule(b *batch.Batcher) *cobra.Command {
	return scheduleCommand(&commands{b}, "backup", `Has the host of a container back it up by itself, at once and then as often as --every
says. The host follows the schedule whether or not its coordinator can be reached, and
each backup is an action of hostler action ls. What came due while the host was off is
made once when it is back.`, func(s *contract.Schedule) contract.Schedules { return contract.Schedules{Backup: s} })
}

func snapshotScheduleCommand(a *commands) *cobra.Command {
	return scheduleCommand(a, "snapshot", `Has the host of a container make snapshots of it by itself, at once and then as often as
--every says, whether or not its coordinator can be reached.`, func(s *contract.Schedule) contract.Schedules { return contract.Schedules{Snapshot: s} })
}

// scheduleCommand is the schedule of one sort of copies.
func scheduleCommand(a *commands, noun, long string, as func(*contract.Schedule) contract.Schedules) *cobra.Command {
	var s contract.Schedule
	var every term.DurationFlag
	cmd := &cobra.Command{
		Use: "schedule HOST/NAME --every DURATION", Short: "Have a host make " + noun + "s of a container by itself",
		Long: long + `

With --keep-daily and --keep-weekly those that the schedule has made are removed again,
but for the newest of each of the last days and weeks that have one (UTC). Days are
counted, so a host that was off for a year loses nothing; what a clock that has jumped
makes suspicious stays. The newest one stays always. Without both all stay.

A schedule replaces the one before it. ct show tells which there is.`,
		Example: "  hostler " + noun + " schedule edge-01/db --every 1d --keep-daily 7 --keep-weekly 4\n  hostler " + noun + " schedule -l app=web --every 6h\n  hostler " + noun + " schedule edge-01/web --off",
	}
	a.onManyContainers(cmd, "set the "+noun+" schedule of", "scheduled", func(string) (protocol.Spec, error) {
		s.EveryMS = every.Value.Milliseconds()
		change := contract.Change{Schedules: as(&s)}
		if !s.Off && s.EveryMS == 0 {
			return protocol.Spec{}, term.Usage(cmd.CommandPath()+" --help", "say how often with --every, as in --every 1d, or --off")
		}
		if err := change.Check(); err != nil {
			return protocol.Spec{}, term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		return protocol.Spec{Kind: protocol.KindSet, Args: &protocol.SetArgs{Change: change}}, nil
	})
	f := cmd.Flags()
	f.Var(&every, "every", "how far two are apart, as 6h or 1d")
	f.Int64Var(&s.KeepDaily, "keep-daily", 0, "of how many days that have one the newest stays")
	f.Int64Var(&s.KeepWeekly, "keep-weekly", 0, "of how many weeks that have one the newest stays")
	f.BoolVar(&s.Off, "off", false, "make no more; what was made stays")
	if noun == "backup" {
		f.Int64Var(&s.Incremental, "incremental", 0, "back up only what has changed, with one full backup in so many")
		f.Lookup("incremental").NoOptDefVal = "7"
		f.StringVar(&s.Target, "target", "", "where they are kept, as the host's configuration calls it")
	}
	if noun == "snapshot" {
		f.BoolVar(&s.Pause, "pause", false, "freeze the container meanwhile")
	}
	return cmd
}
