package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
)

var made = time.Unix(7, 0)

func still(mutate ...func(*picture)) *picture {
	p := &picture{
		name: "web", backup: "move-1",
		from:    api.Host{ID: "edge-01", State: "approved", Connectivity: "online", Arch: "amd64", Features: []string{"lxc.history"}},
		to:      api.Host{ID: "edge-02", State: "approved", Connectivity: "online", Arch: "amd64", Features: []string{"lxc.history"}},
		source:  &api.Container{Name: "web", CTID: "1", Runtime: "lxc", State: "running", Intended: "running"},
		details: &api.ContainerDetails{Name: "web", CTID: "1", Volumes: []string{"data:/srv"}, Ports: []string{"8080:80/tcp"}},
	}
	p.near = []api.Container{*p.source}
	for _, m := range mutate {
		m(p)
	}
	return p
}

func moving(p *picture) { p.details.Moving = &api.ContainerMove{To: "edge-02", Ran: true} }
func gone(p *picture)   { p.source, p.details = nil, nil }
func there(p *picture)  { p.copy = &api.Container{Name: "web", CTID: "1"} }
func kept(p *picture)   { p.atFrom = &api.Backup{Made: made, Verified: &made} }
func came(p *picture)   { p.atTo = &api.Backup{Made: made, Verified: &made} }
func unread(p *picture) { p.atFrom = &api.Backup{Made: made} }
func shots(p *picture) {
	p.details.Snapshots = []api.ContainerSnapshot{{Name: "second", Made: made}, {Name: "first", Made: made}}
}
func keptShots(p *picture) { kept(p); p.atFrom.Snapshots = []string{"first", "second"} }
func drop(p *picture)      { p.dropSnapshots = true }
func another(p *picture)   { p.atTo = &api.Backup{Made: made.Add(1), Verified: &made} }

// TestLeft: what is left of a move follows from what both hosts have, wherever it was cut
// short.
func TestLeft(t *testing.T) {
	all := []step{forget, stop, backUp, send, arrive, leave, tidy}
	for name, c := range map[string]struct {
		p    *picture
		want []step
	}{
		"from the beginning":                {still(), all},
		"what an earlier move has left":     {still(kept, came), all},
		"it is stopped":                     {still(moving), []step{stop, forget, backUp, send, arrive, leave, tidy}},
		"its backup was cut short":          {still(moving, unread), []step{stop, forget, backUp, send, arrive, leave, tidy}},
		"it is backed up":                   {still(moving, kept), []step{stop, send, arrive, leave, tidy}},
		"the backup came":                   {still(moving, kept, came), []step{stop, arrive, leave, tidy}},
		"a backup of another time":          {still(moving, kept, another), []step{stop, forget, backUp, send, arrive, leave, tidy}},
		"the other host has it":             {still(moving, kept, came, there), []step{stop, arrive, leave, tidy}},
		"the other host has it without it":  {still(moving, there), []step{stop, arrive, leave, tidy}},
		"the first host has it no more":     {still(gone, kept, there), []step{tidy}},
		"its snapshots are in the backup":   {still(moving, shots, keptShots, came), []step{stop, arrive, leave, tidy}},
		"the backup has none of them":       {still(moving, shots, kept), []step{stop, forget, backUp, send, arrive, leave, tidy}},
		"a backup without them may be used": {still(moving, shots, kept, came), []step{stop, arrive, leave, tidy}},
		"they are left behind since":        {still(moving, shots, keptShots, drop), []step{stop, forget, backUp, send, arrive, leave, tidy}},
		"they were left behind before":      {still(moving, shots, kept, came, drop), []step{stop, arrive, leave, tidy}},
	} {
		if got, err := c.p.left(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// TestCarries: the first host is asked for snapshots where there are any: a coordinator of
// another version may refuse the question.
func TestCarries(t *testing.T) {
	for name, c := range map[string]struct {
		p    *picture
		want bool
	}{
		"none":        {still(), false},
		"some":        {still(shots), true},
		"left behind": {still(shots, drop), false},
		"unable":      {still(shots, func(p *picture) { p.from.Features = nil }), false},
	} {
		if got := c.p.carries(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestRefused: what would keep the container from running on the other host, or would run
// it twice, is told before it is stopped.
func TestRefused(t *testing.T) {
	for want, p := range map[string]*picture{
		"no container":               still(gone),
		"no container edge-01/web":   still(gone, there),
		"is being moved to edge-03":  still(func(p *picture) { p.details.Moving = &api.ContainerMove{To: "edge-03"} }),
		"no move of it is under way": still(there),
		"edge-02 is arm64":           still(func(p *picture) { p.to.Arch = "arm64" }),
		"makes no containers of lxc: liblxc": still(func(p *picture) {
			p.to.Unsupported = []string{"podman: its socket is missing", "lxc: liblxc is missing"}
		}),
		"another container web":                                               still(func(p *picture) { p.others = []api.Container{{Name: "web", CTID: "2"}} }),
		"it has snapshots (2), and edge-02 has not":                           still(shots, func(p *picture) { p.to.Features = nil }),
		"it has snapshots (2), and edge-01 has not":                           still(shots, func(p *picture) { p.from.Features = []string{"podman.history"} }),
		"second is damaged, and cannot go along: remove it (hostler snapshot": still(shots, func(p *picture) { p.details.Snapshots[0].Damaged = true }),
		"container db has its volume": still(func(p *picture) {
			p.near = append(p.near, api.Container{Name: "db", CTID: "2", Volumes: []string{"data:/x"}})
		}),
		"has a volume data already": still(func(p *picture) { p.volumes = []api.Volume{{Name: "data"}} }),
		"leads to container old":    still(func(p *picture) { p.net = []api.NetworkPart{{Kind: "port", Name: "8080:8000/tcp", Owner: "old"}} }),
		"has no network back":       still(func(p *picture) { p.details.Network = "back" }),
		"edge-02 cannot apply its limit memory=64MiB: the kernel": still(func(p *picture) {
			p.to.Unsupported = []string{"limit.memory: the kernel has no controller"}
			p.details.Limits = []api.ContainerLimit{{Resource: "memory", Set: "64MiB"}}
		}),
		"takes 4.0GiB on the file system of its containers, its volumes, and edge-02 has 4.0GiB free": still(func(p *picture) {
			p.size, p.rooms = size{3 << 30, 1 << 30}, map[string]api.Room{"containers": {FileSystem: "8:1", Free: 4 << 30}, "volumes": {FileSystem: "8:1", Free: 4 << 30}}
		}),
		"takes 3.0GiB on the file system of its containers, and": still(func(p *picture) {
			p.size, p.rooms = size{3 << 30, 1 << 30}, map[string]api.Room{"containers": {FileSystem: "8:1", Free: 2 << 30}, "volumes": {FileSystem: "8:2", Free: 2 << 30}}
		}),
		"takes 1.0GiB on the file system of its volumes, and": still(func(p *picture) {
			p.size, p.rooms = size{3 << 30, 1 << 30}, map[string]api.Room{"containers": {FileSystem: "8:1", Free: 4 << 30}, "volumes": {FileSystem: "8:2", Free: 1 << 30}}
		}),
		"it is frozen; let it run":      still(func(p *picture) { p.source.State = "frozen" }),
		"of edge-02 leads to container": still(func(p *picture) { p.net = []api.NetworkPart{{Kind: "port", Name: "8080:80/tcp", Owner: "web"}} }),
	} {
		if steps, err := p.left(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", want, steps, err)
		}
	}
	for want, p := range map[string]*picture{
		"host edge-02 is offline": still(func(p *picture) { p.to.Connectivity = "offline" }),
		"host edge-01 is offline": still(moving, func(p *picture) { p.from.Connectivity = "offline" }),
		"host edge-02 is revoked": still(func(p *picture) { p.to.State = "revoked" }),
		"accepts nothing new":     still(func(p *picture) { p.to.Degraded = "its disk is full" }),
	} {
		if err := p.away(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for name, p := range map[string]*picture{
		"the port of another protocol": still(func(p *picture) { p.net = []api.NetworkPart{{Kind: "port", Name: "8080:80/udp"}} }),
		"a port whose container left":  still(func(p *picture) { p.net = []api.NetworkPart{{Kind: "port", Name: "8080:80/tcp", Orphan: "gone"}} }),
		"limits that can be applied, or are not ours": still(func(p *picture) {
			p.to.Unsupported = []string{"limit.net: no device ifb", "limit.memory: no controller"}
			p.details.Limits = []api.ContainerLimit{{Resource: "cpu", Set: "50%"}, {Resource: "memory", Effective: "1GiB"}}
		}),
		"room for all of it": still(func(p *picture) {
			p.size, p.rooms = size{3 << 30, 1 << 30}, map[string]api.Room{"containers": {FileSystem: "8:1", Free: 5 << 30}, "volumes": {FileSystem: "8:1", Free: 5 << 30}}
		}),
		"containers of podman are elsewhere": still(func(p *picture) {
			p.source.Runtime = "podman"
			p.size, p.rooms = size{3 << 30, 0}, map[string]api.Room{"containers": {FileSystem: "8:1"}, "containers of podman": {FileSystem: "8:2", Free: 5 << 30}, "state": {FileSystem: "8:1"}}
		}),
		"an older host, which tells nothing": still(func(p *picture) { p.size = size{3 << 30, 1 << 30} }),
		"snapshots that go along":            still(shots),
		"snapshots that may be lost":         still(shots, drop, func(p *picture) { p.to.Features, p.details.Snapshots[0].Damaged = nil, true }),
		"an older host, and no snapshots":    still(func(p *picture) { p.from.Features, p.to.Features = nil, nil }),
		"a network that is there": still(func(p *picture) {
			p.details.Network, p.net = "back", []api.NetworkPart{{Kind: "bridge", Network: "back"}}
		}),
	} {
		if _, err := p.left(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRoomOfBackup: a backup that the other host has no room for, beside what is made of it, is
// not sent there.
func TestRoomOfBackup(t *testing.T) {
	m := &mover{Dispatcher: &dispatch.Dispatcher{Env: &conn.Env{UI: &term.UI{Err: io.Discard}}}, ref: conn.Ref{Host: "edge-01", Name: "web"}, to: "edge-02"}
	m.p = still(moving, kept, func(p *picture) {
		p.atFrom.Bytes, p.size = 1<<30, size{files: 2 << 30}
		p.rooms = map[string]api.Room{"containers": {FileSystem: "8:1", Free: 3 << 30}, "state": {FileSystem: "8:1", Free: 3 << 30}}
	})
	if why := m.p.crowded(0); len(why) > 0 {
		t.Fatalf("without the backup: %q", why)
	}
	if err := m.do(t.Context(), send); code(err) != term.ExitRefused || !strings.Contains(err.Error(), "takes 3.0GiB") {
		t.Errorf("sent to a host without room for it: %v", err)
	}
}

// TestUndoAsked: where an earlier move may have asked the other host for the container, a
// failure of any step of the next one does not start it on its first host, as it may run.
func TestUndoAsked(t *testing.T) {
	cut := &term.Failure{Code: term.ExitRefused, What: "cannot stop it", Why: "a policy refuses it"}
	reads := func(err error) string { // of all that is joined, what people read
		f, ok := errors.AsType[*term.Failure](err)
		if !ok {
			return ""
		}
		return fmt.Sprint(f, " ", f.Next)
	}
	for name, c := range map[string]struct {
		p    *picture
		came bool
	}{
		"nothing was sent":      {still(moving, kept), false},
		"it comes":              {still(moving, kept, another), true},
		"it was there to start": {still(moving, kept, came), true},
		"it is there":           {still(moving, kept, came, there), true},
		"it begins":             {still(kept, came), false},
		"it has ended":          {still(gone, kept, there), false},
	} {
		m := &mover{p: c.p, ref: conn.Ref{Host: "edge-01", Name: "web"}, to: "edge-02"}
		if _, err := m.plan(); err != nil || m.came != c.came {
			t.Errorf("%s: the other host may have the container: %v, %v, want %v", name, m.came, err, c.came)
		}
		if m.came && c.p.copy != nil { // and asks neither host for anything
			if err := m.undo(t.Context(), stop, cut); !errors.Is(err, cut) || !strings.Contains(reads(err), "so it stays there") || !strings.HasSuffix(reads(err), "hostler ct move edge-01/web edge-02") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	m := &mover{p: still(moving, kept, came), ref: conn.Ref{Host: "edge-01", Name: "web"}, to: "edge-02"}
	if err := m.undo(t.Context(), stop, fmt.Errorf("%w: it runs", errEnded)); !errors.Is(err, errEnded) || !strings.Contains(reads(err), "is left as it is") {
		t.Errorf("of a move that a person has ended: %v", err)
	}
	m.confirmed = true
	if err := m.undo(t.Context(), leave, cut); !strings.Contains(reads(err), "edge-02 has the container") {
		t.Errorf("of a move whose last step fails: %v", err)
	}
}

// TestAstray: the first host is not removed while it alone has a snapshot, unless its user has
// said that. What has come and went on the other host was not lost with the first one.
func TestAstray(t *testing.T) {
	has := func(names ...string) *api.ContainerDetails {
		var d api.ContainerDetails
		for _, name := range names {
			d.Snapshots = append(d.Snapshots, api.ContainerSnapshot{Name: name, Made: made})
		}
		return &d
	}
	other := has("first")
	other.Snapshots[0].Made = made.Add(1)
	for name, c := range map[string]struct {
		p        *picture
		from, to *api.ContainerDetails
		want     []string
	}{
		"it has none":                       {still(kept), has(), has("auto"), nil},
		"all have come":                     {still(keptShots), has("second", "first"), has("second", "first"), nil},
		"a schedule has removed one since":  {still(keptShots), has("second", "first"), has("auto", "second"), nil},
		"one was made meanwhile":            {still(keptShots), has("third", "second", "first"), has("second", "first"), []string{"third"}},
		"none came, and that was asked for": {still(kept, drop), has("second", "first"), has(), nil},
		"none came, and that was not":       {still(kept), has("second", "first"), has(), []string{"second", "first"}},
		"no backup is left to tell":         {still(), has("second", "first"), has("first"), []string{"second"}},
		"another one has the name":          {still(), has("first"), other, []string{"first"}},
	} {
		if got := c.p.astray(c.from, c.to); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTaken: once the backup is made, the result names the snapshots that the backup has.
func TestTaken(t *testing.T) {
	for name, c := range map[string]struct {
		p              *picture
		backedUp       bool
		taken, dropped []string
	}{
		"all go":                           {still(shots), false, []string{"first", "second"}, nil},
		"none goes":                        {still(shots, drop), false, nil, []string{"first", "second"}},
		"of an earlier move is a backup":   {still(shots, drop, keptShots), false, nil, []string{"first", "second"}},
		"all are in the backup":            {still(shots, keptShots), true, []string{"first", "second"}, nil},
		"they are, and were to be lost":    {still(shots, keptShots, drop), true, []string{"first", "second"}, nil},
		"there is no backup any more":      {still(shots), true, []string{"first", "second"}, nil},
		"it was asked for without them":    {still(shots, kept, drop), true, nil, []string{"first", "second"}},
		"one of two is in the backup":      {still(shots, keptShots, func(p *picture) { p.atFrom.Snapshots = []string{"first"} }, drop), true, []string{"first"}, []string{"second"}},
		"it has none, and nothing is told": {still(kept), true, nil, nil},
	} {
		if taken, dropped := c.p.taken(c.backedUp); !slices.Equal(taken, c.taken) || !slices.Equal(dropped, c.dropped) {
			t.Errorf("%s: %q go, and %q are lost", name, taken, dropped)
		}
	}
}

// TestBrought: a move that failed takes back the volumes that it has made on the other host,
// but no volume that was there before, or that another person has made meanwhile.
func TestBrought(t *testing.T) {
	p := still(func(p *picture) {
		p.details.Volumes = []string{"data:/srv", "logs:/var/log", "data:/mnt", "old:/old", "none:/none"}
		p.volumes = []api.Volume{{Name: "old"}}
	})
	now := []api.Volume{{Name: "data", Filled: true}, {Name: "logs"}, {Name: "old"}, {Name: "other", Filled: true}}
	for was, want := range map[bool][]string{true: {"data", "logs"}, false: {"data"}} {
		if got := p.brought(was, now); !slices.Equal(got, want) {
			t.Errorf("if the container was there = %v: %q, want %q", was, got, want)
		}
	}
}

// pair is two hosts whose state each step changes. It ends the move after so many steps.
type pair struct {
	t         *testing.T
	p         *picture
	after     int
	runsThere bool
}

var errCut = errors.New("cut")

func (h *pair) do(_ context.Context, s step) error {
	if h.after == 0 {
		return errCut
	}
	h.after--
	switch s {
	case forget:
		h.p.atFrom, h.p.atTo = nil, nil
	case stop:
		h.p.source.State = "stopped"
		moving(h.p)
	case backUp:
		kept(h.p)
	case send:
		came(h.p)
	case arrive:
		there(h.p)
		h.runsThere = true
	case leave:
		if !h.runsThere {
			h.t.Error("the first host loses it before the other one runs it")
		}
		gone(h.p)
	case tidy:
		h.p.atFrom, h.p.atTo = nil, nil
	}
	if h.runsThere && h.p.source != nil && h.p.source.State == "running" {
		h.t.Error("it runs on both")
	}
	return nil
}

func (h *pair) undo(_ context.Context, _ step, why error) error { return why }

// TestCutShort: a move that is cut short between any two steps goes on when it is asked for
// again, and never runs the container twice nor loses it.
func TestCutShort(t *testing.T) {
	for first := range 8 {
		for second := range 8 {
			t.Run(fmt.Sprint(first, second), func(t *testing.T) {
				h := &pair{t: t, p: still()}
				for _, h.after = range []int{first, second, 100} {
					if h.p.source == nil && h.p.atFrom == nil {
						break // it is done
					}
					steps, err := h.p.left()
					if err != nil {
						t.Fatal(err)
					}
					if err := run(t.Context(), h, steps); err != nil && !errors.Is(err, errCut) {
						t.Fatal(err)
					}
				}
				if h.p.source != nil || h.p.copy == nil || !h.runsThere || h.p.atFrom != nil || h.p.atTo != nil {
					t.Errorf("in the end there is %+v", h.p)
				}
			})
		}
	}
}
