package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/backups"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/placements"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/data"
)

// maxWait is the most that a move may wait for a healthy container, as the arguments of its
// kind bound it.
const maxWait = 50 * time.Minute

// maxDetails bounds what a host may tell of one container.
const maxDetails = 1 << 20

// moved is a move, as it is planned or done.
type moved struct {
	Name    string   `json:"name"`
	CTID    string   `json:"ctid"`
	From    string   `json:"from"`
	To      string   `json:"to"`
	Runtime string   `json:"runtime"`
	State   string   `json:"state"` // that it is to have
	Volumes []string `json:"volumes,omitempty"`
	// Snapshots go along, from the oldest on, and Dropped are lost with the first host.
	Snapshots []string `json:"snapshots,omitempty"`
	Dropped   []string `json:"dropped_snapshots,omitempty"`

	Mounts []string `json:"mounts,omitempty"`
	Ports  []string `json:"ports,omitempty"`
	Bytes  int64    `json:"bytes,omitempty"`      // of its files and those of its volumes
	Free   int64    `json:"free_bytes,omitempty"` // on the disk of the other host
	Steps  []step   `json:"steps"`                // that are left
}

func noun() show.Noun[moved] {
	return show.NounOf[moved]("name", "name from to runtime state volumes~ snapshots~ dropped_snapshots~ mounts~ ports~ size free ctid+ steps~", show.Cells[moved]{
		"size": func(m moved) any { return term.Size(m.Bytes) },
		"free": func(m moved) any { return term.Size(m.Free) },
		"steps": func(m moved) any {
			var all []string
			for _, s := range m.Steps {
				all = append(all, string(s))
			}
			return strings.Join(all, ", ")
		},
	})
}

// Command returns hostler ct move.
func Command(d *dispatch.Dispatcher) *cobra.Command {
	m := &mover{Dispatcher: d}
	var yes, dry bool
	var reason string
	var wait term.DurationFlag
	cmd := &cobra.Command{
		Use: "move HOST/NAME TO-HOST", Short: "Bring a container to another host", Args: term.Exactly(2),
		Long: `Stops a container, backs it up with its volumes, brings that to another host through the
coordinator, where all of it is verified, and makes the container there. It stays the
container that it was: its name, id, hardware address, host name, machine id, keys,
labels, limits, checks, contract, schedules, ports, volumes and mounts. Its address is
one of the other host. It is removed from its first host when the other one has it, and
has told that it is healthy as its check says (see hostler ct set), or without a check
that it runs for 10 seconds; --wait bounds that. A container that is stopped stays so.

What would keep it from running there, as far as it can be seen, is told before it is
stopped: a name, port or volume that is taken, a network that is not there, another
architecture or runtime, a limit that cannot be applied, a snapshot that cannot go along,
too little room for its files, snapshots and volumes. If a later step fails, what the
other host has of it is removed, and the container is started again where it was.

A move that was cut short is asked for again with the same words: it goes on where it
was. Until then the container is stopped on its first host, and whole there; hostler ct
start ends the move there. If the other host may have the container by then, remove it
there first: hostler ct rm. The move itself never runs it on both: the other host starts
it after the first one has stopped it, and the first one after the other has removed it.
A container that was started or stopped on its first host meanwhile is not removed.

Its snapshots go along, with their names, times and order. On the other host each has all
files of the container, so it takes their room there, also where it shared them before.
With --drop-snapshots they are left behind, and removed with the container. While it is
moved no snapshot is made or removed, and nothing is rolled back.

Backups stay on the first host, and so do directories of the host that it mounts. After
which others it is started is not kept, for those are not on the other host.

A unique container is moved by the coordinator: it is stopped on its host, and started
on the other one, and on no third, under the next epoch when its host has said that it
has stopped. What it has written does not go with it, so only one with data none or
shared can be moved. It is refused before anything is stopped if the other host cannot
take it: hostler placement show NAME says what each host says. If that host fails
meanwhile, the move is dropped, the container runs where it can, and the exit code is 1.`,
		Example:           "  hostler ct move edge-01/web edge-02\n  hostler ct move edge-01/web edge-02 --dry-run\n  hostler ct move edge-01/db edge-02 --wait 5m --yes -o json\n  hostler ct move edge-01/ledger edge-02 --reason 'new disks' --wait 5m",
		ValidArgsFunction: d.Completing(conn.ContainerNames),
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().Var(&wait, "wait", "how long it may take until it is healthy, at most 50m (default as long as its check allows)")
	cmd.Flags().BoolVar(&m.dropSnapshots, "drop-snapshots", false, "leave its snapshots behind, which are removed with it")
	cmd.Flags().StringVar(&reason, "reason", "", "why a unique container is moved, for others")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be done, and do nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = d.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		if wait.Value < 0 || wait.Value > maxWait {
			return term.Usage("hostler ct move "+strings.Join(args, " ")+" --wait 5m", "--wait: it can be up to 50m")
		}
		m.wait, m.r = wait.Value, r
		if err := m.parse(args); err != nil {
			return err
		}
		return m.move(cmd.Context(), v, reason, yes, dry)
	})
	return cmd
}

// mover moves one container.
type mover struct {
	*dispatch.Dispatcher
	r             *conn.Remote
	ref           conn.Ref
	to            protocol.HostID
	id            protocol.CTID
	wait          time.Duration
	dropSnapshots bool
	p             *picture
	came          bool // the other host has the container, or may have
	confirmed     bool // it was told that it runs there
}

func (m *mover) parse(args []string) (err error) {
	if m.ref, err = conn.ParseRef(args[0], false); err != nil {
		return term.Usage("hostler ct ls", "%s", err)
	}
	if m.to, err = conn.ParseHost(args[1]); err != nil {
		return term.Usage("hostler host ls", "%s", err)
	}
	if m.ref.Host == m.to {
		return term.Usage("hostler ct ls "+args[1], "%s is on %s already", args[0], args[1])
	}
	return nil
}

func (m *mover) move(ctx context.Context, v *show.View, reason string, yes, dry bool) error {
	what := fmt.Sprintf("move %s to %s", m.ref, m.to)
	if err := m.look(ctx, what); err != nil {
		return err
	}
	if c := cmp.Or(m.p.source, m.p.copy); c != nil && c.Class == contract.Unique {
		return m.unique(ctx, c, reason, yes, dry)
	}
	steps, err := m.plan()
	if err != nil {
		return err
	}
	out := m.planned(steps)
	if dry {
		return show.Print(m.UI, v, noun(), []moved{out})
	}
	lost := ""
	if n := len(out.Dropped); n > 0 {
		lost = fmt.Sprintf(" Its snapshots (%d) are removed with it.", n)
	}
	if err := m.Confirm(yes || steps[0] != forget, fmt.Sprintf("Move %s to %s? It is stopped meanwhile, and removed from %s in the end.%s", m.ref, m.to, m.ref.Host, lost)); err != nil {
		return err
	}
	if err := run(ctx, m, steps); err != nil {
		return err
	}
	if m.p.details != nil { // the first host had looked once more when it was stopped
		out.Snapshots, out.Dropped = m.p.taken(true)
	}
	switch {
	case len(out.Dropped) > 0:
		m.Say("%s is on %s, without its snapshots, which are removed: %s.", term.Printable(m.p.name), m.to, term.Printable(strings.Join(out.Dropped, ", ")))
	case len(out.Snapshots) > 0:
		m.Say("%s is on %s, with its snapshots (%d).", term.Printable(m.p.name), m.to, len(out.Snapshots))
	default:
		m.Say("%s is on %s.", term.Printable(m.p.name), m.to)
	}
	if word := v.Format.Word; word != "table" && word != "wide" {
		out.Steps = []step{}
		return show.Print(m.UI, v, noun(), []moved{out})
	}
	return nil
}

// plan returns the steps that are left. An earlier move may have asked the other host for the
// container, which may make it and start it at any time since.
func (m *mover) plan() ([]step, error) {
	steps, err := m.p.left()
	m.came = m.p.asked()
	return steps, err
}

// unique moves a container whose coordinator decides where it runs: it decides about the
// move, too, and goes on with it if this program ends.
func (m *mover) unique(ctx context.Context, c *api.Container, reason string, yes, dry bool) error {
	if dry {
		return refused(m.ref.String(), "it is unique: its coordinator has the plan", "hostler placement show "+m.ref.Name)
	}
	if err := m.Confirm(yes, fmt.Sprintf("Move %s to %s? It is stopped meanwhile.", m.ref, m.to)); err != nil {
		return err
	}
	return placements.MoveUnique(ctx, m.Env, m.r, *c, api.AskMove{Host: string(m.to), Reason: reason}, m.wait)
}

// planned is what is about to be done.
func (m *mover) planned(steps []step) moved {
	out := moved{Name: m.p.name, From: m.p.from.ID, To: m.p.to.ID, CTID: m.id.String(), Bytes: m.p.size.files + m.p.size.volumes, Free: m.p.to.DiskFree, Steps: steps}
	if c := cmp.Or(m.p.source, m.p.copy); c != nil {
		out.Runtime, out.State = c.Runtime, cmp.Or(c.Intended, c.State)
	}
	if d := m.p.details; d != nil {
		out.Volumes, out.Mounts, out.Ports = d.Volumes, d.Mounts, d.Ports
		out.Snapshots, out.Dropped = m.p.taken(!slices.Contains(steps, backUp))
		if d.Moving != nil && d.Moving.Ran {
			out.State = "running"
		}
	}
	return out
}

// hosts makes the steps of a move, and takes back what they did. A test has another one.
type hosts interface {
	// do makes a step that may have been made before.
	do(ctx context.Context, s step) error
	// undo has the container run where it was, unless the other host has told that it runs
	// there. It tells how to go on.
	undo(ctx context.Context, at step, why error) error
}

// run makes the steps. One that a user has interrupted is left for the next time.
func run(ctx context.Context, h hosts, steps []step) error {
	for _, s := range steps {
		if err := h.do(ctx, s); err != nil {
			return h.undo(ctx, s, err)
		}
	}
	return nil
}

func (m *mover) do(ctx context.Context, s step) error {
	m.Say("%s: %s", m.ref, s)
	defer m.Phase(fmt.Sprintf("%s: %s", m.ref, s)).End()
	switch s {
	case forget:
		return m.forgetBackups(ctx)
	case stop:
		if m.p.details.Moving != nil { // if a person has started it since, it may have written
			if err := m.still(ctx); err != nil {
				return err
			}
		}
		err := m.act(ctx, m.ref.Host, m.about(protocol.KindStop, m.departure()))
		if notFound(err) && m.p.copy != nil && m.p.details.Moving != nil { // a step of the earlier move has removed it just now
			return nil
		}
		return err
	case backUp:
		d, err := m.inspect(ctx, m.ref.Host) // snapshots may have been made until it was stopped
		if err != nil {
			return err
		}
		m.p.details.Snapshots = d.Snapshots
		if why := m.p.stuck(); len(why) > 0 {
			return refused(m.ref.String(), strings.Join(why, "; "), "hostler snapshot ls "+m.ref.String())
		}
		args := &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: data.BackupName{Backup: m.p.backup}, WithVolumes: true, WithSnapshots: m.p.carries()}, OutputOption: streamed}
		all, err := dispatch.Listed[api.Backup](ctx, m.Dispatcher, m.r, m.ref.Host, "back up "+m.ref.String(), m.about(protocol.KindBackup, args))
		if len(all) == 1 {
			m.p.atFrom = &all[0]
		}
		return err
	case send:
		if m.p.atFrom != nil { // how large it is has shown just now
			if why := m.p.crowded(m.p.atFrom.Bytes); len(why) > 0 {
				return refused(m.ref.String(), strings.Join(why, "; "), "hostler host check "+string(m.to)+" --all")
			}
		}
		return backups.Copy(ctx, m.Dispatcher, m.r, data.BackupName{Backup: m.p.backup}, m.ref.Host, m.to)
	case arrive:
		if err := m.still(ctx); err != nil {
			return err
		}
		m.came = true
		err := m.act(ctx, m.to, m.arrival())
		m.confirmed = err == nil
		return err
	case leave:
		if err := m.nothingLost(ctx); err != nil {
			return err
		}
		if err := m.act(ctx, m.ref.Host, m.about(protocol.KindDestroy, m.departure())); err != nil && !notFound(err) {
			return err
		}
		return nil
	}
	return m.tidy(ctx)
}

// about is an action about the container, on either host.
func (m *mover) about(kind protocol.Kind, args protocol.Args) protocol.Spec {
	return protocol.Spec{Kind: kind, Target: m.id, Name: protocol.ContainerName(m.p.name), Args: args}
}

// departure says that the container goes to the other host.
func (m *mover) departure() *protocol.StopArgs {
	return &protocol.StopArgs{Departure: data.Departure{MovingTo: string(m.to)}}
}

// nothingLost refuses to remove the container from its first host if that would lose snapshots.
func (m *mover) nothingLost(ctx context.Context) error {
	from, err := m.inspect(ctx, m.ref.Host)
	if notFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	to, err := m.inspect(ctx, m.to)
	if err != nil {
		return err
	}
	if lost := m.p.astray(from, to); len(lost) > 0 {
		return refused(m.ref.String(), fmt.Sprintf("%s alone has its snapshots %s, which would be lost with it there: ask with --drop-snapshots to lose them, or end the move and begin anew (hostler ct rm %s/%s, hostler ct start %s)", m.ref.Host, strings.Join(lost, ", "), m.to, m.p.name, m.ref), "hostler snapshot ls "+m.ref.String())
	}
	return nil
}

// errEnded: a person, or another command that moves it, has started or stopped the container on
// its first host since.
var errEnded = errors.New("the move was ended")

// still asks the first host whether the move is under way. One that has the container no more
// says nothing against it.
func (m *mover) still(ctx context.Context) error {
	d, err := m.inspect(ctx, m.ref.Host)
	switch {
	case notFound(err) && m.p.copy != nil:
		return nil
	case err != nil:
		return err
	case d.Moving == nil || d.Moving.To != string(m.to):
		return fmt.Errorf("%w: a person, or another hostler ct move of container %s, has started or stopped it on %s meanwhile", errEnded, m.ref.Name, m.ref.Host)
	}
	return nil
}

var streamed = protocol.OutputOption{Output: protocol.OutputStream}

// arrival asks the other host for the container.
func (m *mover) arrival() protocol.Spec {
	d := m.p.details
	return m.about(protocol.KindRestore, &protocol.RestoreArgs{Restore: data.Restore{
		BackupName: data.BackupName{Backup: m.p.backup}, Start: d.Moving != nil && d.Moving.Ran || d.Moving == nil && m.p.source.Intended == "running",
		Arrival: data.Arrival{
			KeepIdentity: true, Privileged: d.Privileged, Hostname: d.Hostname, Network: d.Network, Volumes: d.Volumes, Mounts: d.Mounts, Expose: d.Ports,
			StartOrder: m.p.source.StartOrder, WaitMS: m.wait.Milliseconds(),
		},
	}})
}

// act asks for an action that prints nothing, and waits for its end.
func (m *mover) act(ctx context.Context, host protocol.HostID, s protocol.Spec) error {
	what := fmt.Sprintf("%s on %s", s.Kind, host)
	spec, err := dispatch.EncodeSpec(s)
	if err != nil {
		return err
	}
	act, err := m.Submit(ctx, m.r, host, spec)
	if err != nil {
		return term.Cannot(what, err)
	}
	final, err := (&dispatch.Follower{Dispatcher: m.Dispatcher, Remote: m.r, Label: string(host) + "/" + m.ref.Name}).Await(ctx, act)
	if err != nil {
		return term.Cannot(what, err)
	}
	return dispatch.Ended(what, final)
}

func notFound(err error) bool { return code(err) == term.ExitNotFound }

// refusedBy reports whether a host or a policy took nothing of it.
func refusedBy(err error) bool { return code(err) == term.ExitRefused }

func code(err error) int {
	if f, ok := errors.AsType[*term.Failure](err); ok {
		return f.Code
	}
	return 0
}

// undo implements [hosts].
func (m *mover) undo(ctx context.Context, at step, why error) error {
	again := fmt.Sprintf("hostler ct move %s %s", m.ref, m.to)
	switch {
	case ctx.Err() != nil || errors.Is(why, term.ErrInterrupted):
		m.Say("\nThe move is not done. To go on with it: %s\n%s", again, m.ending())
		return term.ErrInterrupted
	case errors.Is(why, errEnded):
		return besides(why, again, "%s is left as it is", m.ref)
	case m.confirmed:
		return besides(why, again, "%s has the container, and shows that it works; the move has to be ended", m.to)
	case m.p.source == nil, m.p.details.Moving == nil && (at == forget || at == stop && refusedBy(why)): // nothing was stopped
		return why
	case m.came && m.p.copy != nil:
		return besides(why, again, "%s had the container before, and may have run it since, so it stays there; to end the move and lose what %[1]s has: hostler ct rm %[1]s/%[2]s, and then hostler ct start %[3]s", m.to, m.p.name, m.ref)
	}
	defer m.Phase(fmt.Sprintf("%s: take the move back", m.ref)).End()
	if m.came {
		if err := m.withdraw(ctx); err != nil {
			return besides(why, again, "the container stays stopped on %s, for %s may run it: %s", m.ref.Host, m.to, err)
		}
	}
	back := m.about(protocol.KindStop, &protocol.StopArgs{})
	ran := m.arrival().Args.(*protocol.RestoreArgs).Start
	if ran {
		back = m.about(protocol.KindStart, nil)
	}
	if err := m.act(ctx, m.ref.Host, back); err != nil {
		return besides(why, "hostler ct start "+m.ref.String(), "the container is whole on %s, and does not start there: %s", m.ref.Host, err)
	}
	if ran {
		m.Say("%s runs again on %s.", m.ref.Name, m.ref.Host)
	}
	if err := m.forgetBackups(ctx); err != nil {
		m.Say("hostler: the backup of the move stays: %s; to remove it: hostler backup rm HOST %s", term.Printable(err.Error()), m.p.backup)
	}
	return why
}

// besides adds to an error where the container stands, and what to do next. Of errors that are
// joined, people would read the first alone.
func besides(why error, next, format string, args ...any) error {
	f := term.Failure{Code: term.ExitFailed, What: "cannot move the container", Why: why.Error()}
	if told, ok := errors.AsType[*term.Failure](why); ok {
		f = *told
	}
	f.More, f.Next, f.Err = append(slices.Clip(f.More), fmt.Sprintf(format, args...)), next, why
	return &f
}

// ending tells how to end a move that was cut short.
func (m *mover) ending() string {
	if m.came {
		return fmt.Sprintf("To end it: hostler ct rm %s/%s, for %[1]s may run the container, and then hostler ct start %[3]s", m.to, m.p.name, m.ref)
	}
	return fmt.Sprintf("To end it: hostler ct start %s", m.ref)
}

// withdraw removes from the other host what the move has made there.
func (m *mover) withdraw(ctx context.Context) error {
	err := m.act(ctx, m.to, m.about(protocol.KindDestroy, &protocol.StopArgs{}))
	if err != nil && !notFound(err) {
		return err
	}
	now, listed := m.volumesAt(ctx, m.to)
	if listed != nil {
		m.Say("hostler: volumes of the container may stay on %s: %s; to look: hostler volume ls %[1]s", m.to, term.Printable(listed.Error()))
	}
	for _, name := range m.p.brought(err == nil, now) {
		m.removeVolume(ctx, m.to, name)
	}
	return nil
}

// removeVolume removes a volume of the container, and only tells if that cannot be.
func (m *mover) removeVolume(ctx context.Context, host protocol.HostID, name string) {
	err := m.act(ctx, host, protocol.Spec{Kind: protocol.KindVolumeRemove, Args: &protocol.VolumeArgs{Volume: name}})
	if err != nil && !strings.Contains(err.Error(), "no such volume") {
		m.Say("hostler: volume %s stays on %s: %s; to remove it: hostler volume rm %s %s", name, host, term.Printable(err.Error()), host, name)
	}
}

// tidy removes what the first host has kept until the end.
func (m *mover) tidy(ctx context.Context) error {
	mounted := []string(nil)
	if m.p.details != nil {
		mounted = m.p.details.Volumes
	} else if m.p.copy != nil {
		mounted = m.p.copy.Volumes
	}
	for _, name := range named(mounted) {
		m.removeVolume(ctx, m.ref.Host, name)
	}
	return m.forgetBackups(ctx)
}

// forgetBackups removes the backup of the move from both hosts. The first host has it longest: it
// shows that a move is not done.
func (m *mover) forgetBackups(ctx context.Context) (err error) {
	for _, host := range []protocol.HostID{m.to, m.ref.Host} {
		there, err := m.backupAt(ctx, host)
		if err == nil && there != nil {
			_, err = dispatch.Listed[api.Backup](ctx, m.Dispatcher, m.r, host, "remove the backup of the move from "+string(host), protocol.Spec{
				Kind: protocol.KindBackupRemove, Args: &protocol.BackupArgs{BackupName: data.BackupName{Backup: m.p.backup}, OutputOption: streamed},
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// backupAt is the backup of the move on a host; nil if it has none.
func (m *mover) backupAt(ctx context.Context, host protocol.HostID) (*api.Backup, error) {
	all, err := dispatch.Listed[api.Backup](ctx, m.Dispatcher, m.r, host, "list the backups of "+string(host), protocol.Spec{Kind: protocol.KindBackupList, Args: &protocol.ExportArgs{OutputOption: streamed}})
	for _, b := range all {
		if b.Name == m.p.backup && b.Target == "" {
			return &b, err
		}
	}
	return nil, err
}
