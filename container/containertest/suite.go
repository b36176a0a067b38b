package containertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
)

// Subject is a runtime under test. It must implement container.Creator; the
// tests of container.Watcher run if it implements that.
type Subject struct {
	Runtime container.Runtime
	// Spec returns the specification of a container that does not exist yet,
	// a different one at each call. The suite removes what it makes of it.
	Spec func() container.CreateSpec
	// Kill kills the first process of a running container behind the
	// runtime's back.
	Kill func(t *testing.T, name string)
	// Print has a running container print a line, to where its log is made of; nil if
	// the runtime keeps none.
	Print func(t *testing.T, name, line string)
	// ByHand starts a container past the runtime, as a person on the host does; nil if that
	// is not possible.
	ByHand func(t *testing.T, name string) error
	// Foreign makes a stopped container that others have made, which may be taken over,
	// and returns its name.
	Foreign func(t *testing.T) string
	// Patience bounds every single wait; default 2 min.
	Patience time.Duration
}

// Run holds the subject to the contract of package container. open is called
// for each test, of several at the same time, and cleans up through t.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, *fixture){
		"Lifecycle":         testLifecycle,
		"NotFound":          testNotFound,
		"CreateIdempotent":  testCreateIdempotent,
		"CreateExists":      testCreateExists,
		"CreateInvalid":     testCreateInvalid,
		"DestroyRunning":    testDestroyRunning,
		"Restart":           testRestart,
		"Rename":            testRename,
		"Rehost":            testRehost,
		"Clone":             testClone,
		"Promote":           testPromote,
		"Adopt":             testAdopt,
		"Mounts":            testMounts,
		"Freeze":            testFreeze,
		"Log":               testLog,
		"Snapshot":          testSnapshot,
		"Upgrade":           testUpgrade,
		"KilledBehindBack":  testKilledBehindBack,
		"ExecTarget":        testExecTarget,
		"ParallelStart":     testParallelStart,
		"ParallelChurn":     testParallelChurn,
		"ContextEnded":      testContextEnded,
		"Unique":            testUnique,
		"Watch":             testWatch,
		"StopGraceIsEnough": testStopGrace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, open(t)))
		})
	}
}

// fixture is a subject with the helpers that keep the tests short. After each
// step of a lifecycle it checks that List and Inspect agree.
type fixture struct {
	Subject
	creator container.Creator
	ctx     context.Context
}

func newFixture(t *testing.T, s Subject) *fixture {
	t.Helper()
	creator, ok := s.Runtime.(container.Creator)
	if !ok {
		t.Fatalf("%T is no container.Creator", s.Runtime)
	}
	if s.Patience == 0 {
		s.Patience = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*s.Patience)
	t.Cleanup(cancel)
	return &fixture{Subject: s, creator: creator, ctx: ctx}
}

// create makes a container and sees to its removal.
func (f *fixture) create(t *testing.T) container.CreateSpec {
	t.Helper()
	spec := f.Spec()
	f.remove(t, spec.Name)
	if err := f.creator.Create(f.ctx, spec); err != nil {
		t.Fatal(err)
	}
	f.wantState(t, spec.Name, container.StateStopped)
	return spec
}

func (f *fixture) remove(t *testing.T, name string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), f.Patience)
		defer cancel()
		_, err := f.Runtime.Stop(ctx, name, 0)
		err = errors.Join(err, f.creator.Destroy(ctx, name))
		if err != nil && !errors.Is(err, container.ErrNotFound) {
			t.Errorf("removing: %v", err)
		}
	})
}

func (f *fixture) start(t *testing.T, name string) container.Info {
	t.Helper()
	told, err := f.Runtime.Start(f.ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	info := f.wantState(t, name, container.StateRunning)
	if told.Name != name || told.State != info.State || told.InitPID != info.InitPID || told.CTID != info.CTID {
		t.Errorf("Start told of %+v, Inspect tells of %+v", told, info)
	}
	return info
}

func (f *fixture) stop(t *testing.T, name string) {
	t.Helper()
	told, err := f.Runtime.Stop(f.ctx, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	if told.Name != name || told.State != container.StateStopped || told.InitPID != 0 {
		t.Errorf("Stop told of %+v", told)
	}
	f.wantState(t, name, container.StateStopped)
}

// wantState checks the state, and that List says what Inspect says.
func (f *fixture) wantState(t *testing.T, name string, want container.State) container.Info {
	t.Helper()
	info, err := f.Runtime.Inspect(f.ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != name || info.State != want || info.Kind != f.Runtime.Kind() {
		t.Fatalf("Inspect(%q) = %+v, want state %v and kind %v", name, info, want, f.Runtime.Kind())
	}
	if running := want == container.StateRunning; running != (info.InitPID > 0) {
		t.Errorf("%s is %v with init process %d", name, want, info.InitPID)
	}
	infos, err := f.Runtime.List(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(infos, func(a, b container.Info) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("List is not sorted by name")
	}
	at := slices.IndexFunc(infos, func(i container.Info) bool { return i.Name == name })
	if at < 0 {
		t.Fatalf("%s is not in List", name)
	}
	// Addresses of a container that just started may still be appearing.
	one, listed := info, infos[at]
	one.Addresses, listed.Addresses = nil, nil
	if listed.Digest == "" { // as it may
		one.Digest = ""
	}
	if !reflect.DeepEqual(one, listed) {
		t.Errorf("Inspect says %+v, List says %+v", one, listed)
	}
	return info
}

func testLifecycle(t *testing.T, f *fixture) {
	spec := f.create(t)
	info := f.wantState(t, spec.Name, container.StateStopped)
	if info.CTID != spec.CTID || info.Template != spec.Template || info.MAC != spec.Network.MAC || info.Privileged != spec.Privileged {
		t.Errorf("created %+v, got %+v", spec, info)
	}
	if !spec.Network.IsZero() && !slices.Contains(info.Addresses, spec.Network.Address.Addr()) {
		t.Errorf("stopped container has addresses %v, want %v", info.Addresses, spec.Network.Address)
	}
	first := f.start(t, spec.Name)
	if again := f.start(t, spec.Name); again.InitPID != first.InitPID {
		t.Errorf("starting what runs replaced process %d by %d", first.InitPID, again.InitPID)
	}
	if !spec.Network.IsZero() && !slices.Contains(first.Addresses, spec.Network.Address.Addr()) {
		t.Errorf("running container has addresses %v, want %v", first.Addresses, spec.Network.Address)
	}
	f.stop(t, spec.Name)
	f.stop(t, spec.Name)
	if err := f.creator.Destroy(f.ctx, spec.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Runtime.Inspect(f.ctx, spec.Name); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("Inspect after Destroy = %v, want ErrNotFound", err)
	}
	infos, err := f.Runtime.List(f.ctx)
	if err != nil || slices.ContainsFunc(infos, func(i container.Info) bool { return i.Name == spec.Name }) {
		t.Errorf("List after Destroy = %v, %v", infos, err)
	}
}

func testNotFound(t *testing.T, f *fixture) {
	for _, name := range []string{f.Spec().Name, "", ".", "..", "../x", "a/b", "a\x00b", "--help"} {
		_, inspect := f.Runtime.Inspect(f.ctx, name)
		_, exec := f.Runtime.Exec(f.ctx, name)
		_, start := f.Runtime.Start(f.ctx, name)
		_, stop := f.Runtime.Stop(f.ctx, name, 0)
		for op, err := range map[Op]error{
			OpInspect: inspect,
			OpExec:    exec,
			OpStart:   start,
			OpStop:    stop,
			OpDestroy: f.creator.Destroy(f.ctx, name),
		} {
			if !errors.Is(err, container.ErrNotFound) {
				t.Errorf("%s(%q) = %v, want ErrNotFound", op, name, err)
			}
		}
	}
}

func testCreateIdempotent(t *testing.T, f *fixture) {
	spec := f.create(t)
	if err := f.creator.Create(f.ctx, spec); err != nil {
		t.Errorf("creating again: %v", err)
	}
	running := f.start(t, spec.Name)
	if err := f.creator.Create(f.ctx, spec); err != nil {
		t.Errorf("creating what runs: %v", err)
	}
	if now := f.wantState(t, spec.Name, container.StateRunning); now.InitPID != running.InitPID {
		t.Error("creating what runs restarted it")
	}
	f.stop(t, spec.Name)
	if err := f.creator.Destroy(f.ctx, spec.Name); err != nil {
		t.Fatal(err)
	}
	if err := f.creator.Create(f.ctx, spec); err != nil {
		t.Errorf("creating what was destroyed: %v", err)
	}
	f.wantState(t, spec.Name, container.StateStopped)
}

func testCreateExists(t *testing.T, f *fixture) {
	spec, other := f.create(t), f.Spec()
	f.remove(t, other.Name)
	sameName := other
	sameName.Name = spec.Name
	if err := f.creator.Create(f.ctx, sameName); !errors.Is(err, container.ErrExists) {
		t.Errorf("Create with the name of another = %v, want ErrExists", err)
	}
	sameID := other
	sameID.CTID = spec.CTID
	if err := f.creator.Create(f.ctx, sameID); !errors.Is(err, container.ErrExists) {
		t.Errorf("Create with the CTID of another = %v, want ErrExists", err)
	}
	if info := f.wantState(t, spec.Name, container.StateStopped); info.CTID != spec.CTID {
		t.Errorf("%s became %s", spec.CTID, info.CTID)
	}
	// What was refused must not stand in the way of what is right.
	if err := f.creator.Create(f.ctx, other); err != nil {
		t.Errorf("creating the other properly: %v", err)
	}
}

func testCreateInvalid(t *testing.T, f *fixture) {
	for what, spoil := range map[string]func(*container.CreateSpec){
		"name":     func(s *container.CreateSpec) { s.Name = "../" + s.Name },
		"ctid":     func(s *container.CreateSpec) { s.CTID = "1" },
		"template": func(s *container.CreateSpec) { s.Template = "/bin/true" },
	} {
		spec := f.Spec()
		spoil(&spec)
		if err := f.creator.Create(f.ctx, spec); err == nil {
			f.remove(t, spec.Name)
			t.Errorf("Create with a bad %s succeeded", what)
		}
	}
}

func testDestroyRunning(t *testing.T, f *fixture) {
	spec := f.create(t)
	before := f.start(t, spec.Name)
	if err := f.creator.Destroy(f.ctx, spec.Name); !errors.Is(err, container.ErrBusy) {
		t.Errorf("Destroy of what runs = %v, want ErrBusy", err)
	}
	if now := f.wantState(t, spec.Name, container.StateRunning); now.InitPID != before.InitPID {
		t.Error("the refused Destroy restarted it")
	}
}

// testRename: another name, and everything else as before, however often it is
// asked for.
func testRename(t *testing.T, f *fixture) {
	renamer, ok := f.Runtime.(container.Renamer)
	if !ok {
		t.Fatalf("%T is no container.Renamer", f.Runtime)
	}
	spec, other := f.create(t), f.create(t)
	to := f.Spec().Name
	f.remove(t, to)
	before := f.start(t, spec.Name)
	if err := renamer.Rename(f.ctx, spec.Name, to, spec.CTID); !errors.Is(err, container.ErrBusy) {
		t.Errorf("of one that runs: %v", err)
	}
	f.stop(t, spec.Name)
	for why, c := range map[string]struct {
		name, to string
		id       container.CTID
		want     error
	}{
		"to a name that is taken":  {spec.Name, other.Name, spec.CTID, container.ErrExists},
		"of another's name":        {other.Name, to, spec.CTID, container.ErrNotFound},
		"of one that is not there": {to + "-x", to, f.Spec().CTID, container.ErrNotFound},
	} {
		if err := renamer.Rename(f.ctx, c.name, c.to, c.id); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if err := renamer.Rename(f.ctx, spec.Name, "../"+to, spec.CTID); err == nil {
		t.Error("it can be called by a path")
	}
	f.wantState(t, spec.Name, container.StateStopped)
	for range 2 {
		if err := renamer.Rename(f.ctx, spec.Name, to, spec.CTID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Runtime.Inspect(f.ctx, spec.Name); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("by its old name: %v", err)
	}
	after := f.start(t, to)
	if after.CTID != spec.CTID || after.MAC != before.MAC || after.Template != before.Template {
		t.Errorf("it was %+v and is %+v", before, after)
	}
	f.stop(t, to)
}

func testRestart(t *testing.T, f *fixture) {
	spec := f.create(t)
	first := f.start(t, spec.Name)
	f.stop(t, spec.Name)
	if second := f.start(t, spec.Name); second.InitPID == first.InitPID || second.CTID != first.CTID {
		t.Errorf("restart turned %+v into %+v", first, second)
	}
}

func testKilledBehindBack(t *testing.T, f *fixture) {
	spec := f.create(t)
	f.start(t, spec.Name)
	f.Kill(t, spec.Name)
	// Stop does not return before the end is complete, however it came.
	f.stop(t, spec.Name)
	f.start(t, spec.Name)
}

func testExecTarget(t *testing.T, f *fixture) {
	spec := f.create(t)
	if _, err := f.Runtime.Exec(f.ctx, spec.Name); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("Exec in what is stopped = %v, want ErrNotRunning", err)
	}
	f.start(t, spec.Name)
	first, err := f.Runtime.Exec(f.ctx, spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Argv) == 0 || len(first.Target) == 0 {
		t.Errorf("Exec = %+v, want a program and a target", first)
	}
	f.stop(t, spec.Name)
	f.start(t, spec.Name)
	second, err := f.Runtime.Exec(f.ctx, spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	if maps.Equal(first.Target, second.Target) {
		t.Errorf("the target %v does not tell a restarted container from the one before", first.Target)
	}
}

func testParallelStart(t *testing.T, f *fixture) {
	spec := f.create(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := f.Runtime.Start(f.ctx, spec.Name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f.wantState(t, spec.Name, container.StateRunning)
}

// testParallelChurn starts and stops one container from several sides: each
// call succeeds, and the last word holds.
func testParallelChurn(t *testing.T, f *fixture) {
	spec := f.create(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 2 {
				_, start := f.Runtime.Start(f.ctx, spec.Name)
				_, stop := f.Runtime.Stop(f.ctx, spec.Name, 0)
				if err := errors.Join(start, stop); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.wantState(t, spec.Name, container.StateStopped)
	f.start(t, spec.Name)
}

func testContextEnded(t *testing.T, f *fixture) {
	spec := f.create(t)
	cause := errors.New("called off")
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(cause)
	_, list := f.Runtime.List(ctx)
	_, inspect := f.Runtime.Inspect(ctx, spec.Name)
	_, start := f.Runtime.Start(ctx, spec.Name)
	_, stop := f.Runtime.Stop(ctx, spec.Name, 0)
	for op, err := range map[Op]error{
		OpList:    list,
		OpInspect: inspect,
		OpStart:   start,
		OpStop:    stop,
		OpCreate:  f.creator.Create(ctx, f.Spec()),
		OpDestroy: f.creator.Destroy(ctx, spec.Name),
	} {
		if !errors.Is(err, cause) {
			t.Errorf("%s with a context that ended = %v, want its cause", op, err)
		}
	}
	f.wantState(t, spec.Name, container.StateStopped)
}

// testStopGrace: an init that obeys is not waited for until the grace is over.
func testStopGrace(t *testing.T, f *fixture) {
	spec := f.create(t)
	f.start(t, spec.Name)
	begin := time.Now()
	if _, err := f.Runtime.Stop(f.ctx, spec.Name, f.Patience); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took >= f.Patience {
		t.Errorf("Stop took all of its grace of %v", f.Patience)
	}
	f.wantState(t, spec.Name, container.StateStopped)
}

func testWatch(t *testing.T, f *fixture) {
	watcher, ok := f.Runtime.(container.Watcher)
	if !ok {
		return
	}
	spec := f.create(t)
	done := errors.New("seen enough")
	ctx, cancel := context.WithCancelCause(f.ctx)
	ready := make(chan struct{})
	events := make(chan container.Event, 100)
	returned := make(chan error, 1)
	go func() {
		returned <- watcher.Watch(ctx, func() { close(ready) }, func(e container.Event) { events <- e })
	}()
	expect := func(state container.State) {
		t.Helper()
		if err := await(events, container.Event{Name: spec.Name, State: state}, f.Patience); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-ready:
	case err := <-returned:
		t.Fatalf("Watch ended: %v", err)
	case <-time.After(f.Patience):
		t.Fatal("Watch is not ready")
	}
	f.start(t, spec.Name)
	expect(container.StateRunning)
	f.stop(t, spec.Name)
	expect(container.StateStopped)
	f.start(t, spec.Name)
	expect(container.StateRunning)
	f.Kill(t, spec.Name)
	expect(container.StateStopped)

	cancel(done)
	select {
	case err := <-returned:
		if !errors.Is(err, done) {
			t.Errorf("Watch = %v, want the cause of its context", err)
		}
	case <-time.After(f.Patience):
		t.Error("Watch does not end with its context")
	}
}

// await reads events until it finds the one wanted.
func await(events <-chan container.Event, want container.Event, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var seen []container.Event
	for {
		select {
		case e := <-events:
			if e == want {
				return nil
			}
			seen = append(seen, e)
		case <-timer.C:
			return fmt.Errorf("no event %+v; there were %+v", want, seen)
		}
	}
}
