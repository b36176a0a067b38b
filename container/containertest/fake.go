package containertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hostler-io/hostler/container"
)

// Op names an operation of the fake, for faults.
type Op string

// The operations that may be made to fail.
const (
	OpList    Op = "list"
	OpInspect Op = "inspect"
	OpStart   Op = "start"
	OpStop    Op = "stop"
	OpExec    Op = "exec"
	OpCreate  Op = "create"
	OpDestroy Op = "destroy"
	OpRename  Op = "rename"
	OpRehost  Op = "rehost"
	OpClone   Op = "clone"
	OpAdopt   Op = "adopt"
	OpDisown  Op = "disown"
	OpFreeze  Op = "freeze"
	OpThaw    Op = "unfreeze"
)

// Fault decides about one call before anything happens: with a nil error it
// goes its ordinary way; with an error it fails with it, and applied says
// whether it takes effect all the same. Both kinds are real: a helper that is
// killed at its deadline may have done its work.
type Fault func(op Op, name string) (applied bool, err error)

// Fake is a container.Runtime, Creator and Watcher in memory. All methods may be
// called concurrently. Its containers obey at once; what a real one takes time
// for is not imitated.
type Fake struct {
	kind container.Kind

	mu         sync.Mutex
	containers map[string]*fakeContainer
	images     map[string]container.Promotion // by reference
	tags       map[string]int                 // how often another image got a reference
	watchers   map[*fakeWatcher]bool
	fault      Fault
	argv       []string
	hang       Op            // does not go on
	goOn       chan struct{} // closed when it does
	pids       int
	closed     bool
}

type fakeContainer struct {
	info      container.Info
	snapshots []container.Snapshot
	rollbacks []string
	hostname  string
	adopted   bool
	files     fakeFiles
	beside    *fakeFiles // of an upgrade that has not ended
	unique    bool
	mounts    []container.Mount
	epoch     string // of its last start
}

// fakeWatcher hands events from whoever causes them to the goroutine in Watch.
type fakeWatcher struct {
	queue []container.Event // guarded by Fake.mu
	wake  chan struct{}     // capacity 1
}

var (
	_ container.Runtime = (*Fake)(nil)
	_ container.Creator = (*Fake)(nil)
	_ container.Renamer = (*Fake)(nil)
	_ container.Cloner  = (*Fake)(nil)
	_ container.Adopter = (*Fake)(nil)
	_ container.Freezer = (*Fake)(nil)
	_ container.Holder  = (*Fake)(nil)
	_ container.Watcher = (*Fake)(nil)
)

// NewFake returns a runtime of that kind without containers.
func NewFake(kind container.Kind) *Fake {
	return &Fake{
		kind:       kind,
		containers: make(map[string]*fakeContainer),
		images:     make(map[string]container.Promotion),
		tags:       make(map[string]int),
		watchers:   make(map[*fakeWatcher]bool),
		argv:       []string{"/usr/lib/hostler/fake-supervisor"},
		pids:       1000,
	}
}

// SetFault replaces the decision about failures; nil means none.
func (f *Fake) SetFault(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Hang keeps an operation from going on until its context ends or another one is
// named; "" is none.
func (f *Fake) Hang(op Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.goOn != nil {
		close(f.goOn)
	}
	f.hang, f.goOn = op, make(chan struct{})
}

func (f *Fake) hanging(ctx context.Context, op Op) {
	f.mu.Lock()
	hang, goOn := f.hang, f.goOn
	f.mu.Unlock()
	if hang != op {
		return
	}
	select {
	case <-goOn:
	case <-ctx.Done():
	}
}

// SetSupervisor replaces the program that Exec names.
func (f *Fake) SetSupervisor(argv ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.argv = argv
}

// Put makes a container that was there before anybody looked, foreign if info
// has no CTID. Only Name and State are required.
func (f *Fake) Put(info container.Info) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info.Kind = f.kind
	if info.State == container.StateRunning && info.InitPID == 0 {
		info.InitPID = f.nextPID()
	}
	f.containers[info.Name] = &fakeContainer{info: info}
}

// Enter puts a container into a state behind the runtime's back, as a crash, an
// operator or the kernel would.
func (f *Fake) Enter(name string, state container.State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(name)
	if err != nil {
		return err
	}
	f.enter(c, state)
	return nil
}

// Miss tells all watchers that they may have missed something.
func (f *Fake) Miss() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell(container.Event{})
}

// Kind implements container.Runtime.
func (f *Fake) Kind() container.Kind { return f.kind }

// Close implements container.Runtime.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// do runs the operation under the lock, unless a fault forbids.
func (f *Fake) do(ctx context.Context, op Op, name string, act func() error) error {
	f.hanging(ctx, op)
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.attempt(ctx, op, name, act)
	if err != nil {
		return fmt.Errorf("fake %s %q: %w", op, name, err)
	}
	return nil
}

func (f *Fake) attempt(ctx context.Context, op Op, name string, act func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f.closed {
		return errors.New("runtime is closed")
	}
	if f.fault == nil {
		return act()
	}
	applied, fault := f.fault(op, name)
	if fault != nil && !applied {
		return fault
	}
	return cmp.Or(fault, act())
}

func (f *Fake) find(name string) (*fakeContainer, error) {
	if c := f.containers[name]; c != nil {
		return c, nil
	}
	return nil, container.ErrNotFound
}

func (f *Fake) nextPID() int {
	f.pids++
	return f.pids
}

func (f *Fake) enter(c *fakeContainer, state container.State) {
	if c.info.State == state {
		return
	}
	c.info.State = state
	switch {
	case state != container.StateRunning && state != container.StateFrozen:
		c.info.InitPID = 0
	case c.info.InitPID == 0:
		c.info.InitPID = f.nextPID()
	}
	f.tell(container.Event{Name: c.info.Name, State: state})
}

func (f *Fake) tell(e container.Event) {
	for w := range f.watchers {
		w.queue = append(w.queue, e)
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// List implements container.Runtime.
func (f *Fake) List(ctx context.Context) (infos []container.Info, err error) {
	err = f.do(ctx, OpList, "", func() error {
		for _, c := range f.containers {
			infos = append(infos, c.copy())
		}
		slices.SortFunc(infos, func(a, b container.Info) int { return cmp.Compare(a.Name, b.Name) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return infos, nil
}

func (c *fakeContainer) copy() container.Info {
	info := c.info
	info.Addresses = slices.Clone(info.Addresses)
	return info
}

// Inspect implements container.Runtime.
func (f *Fake) Inspect(ctx context.Context, name string) (info container.Info, err error) {
	err = f.do(ctx, OpInspect, name, func() error {
		c, err := f.find(name)
		if err == nil {
			info = c.copy()
		}
		return err
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// Start implements container.Runtime.
func (f *Fake) Start(ctx context.Context, name string) (info container.Info, err error) {
	return f.StartOn(ctx, name, container.Terms{})
}

// Stop implements container.Runtime. Its containers do not need their grace.
func (f *Fake) Stop(ctx context.Context, name string, _ time.Duration) (info container.Info, err error) {
	err = f.do(ctx, OpStop, name, func() error {
		c, err := f.find(name)
		if err != nil {
			return err
		}
		if c.info.State != container.StateStopped {
			f.enter(c, container.StateStopping)
		}
		f.enter(c, container.StateStopped)
		info = c.copy()
		return nil
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// Exec implements container.Runtime.
func (f *Fake) Exec(ctx context.Context, name string) (s container.Supervisor, err error) {
	err = f.do(ctx, OpExec, name, func() error {
		c, err := f.find(name)
		if err != nil {
			return err
		}
		if c.info.State != container.StateRunning {
			return container.ErrNotRunning
		}
		s = container.Supervisor{
			Argv:   slices.Clone(f.argv),
			Target: map[string]string{"name": name, "init_pid": strconv.Itoa(c.info.InitPID)},
		}
		return nil
	})
	if err != nil {
		return container.Supervisor{}, err
	}
	return s, nil
}

// Create implements container.Creator.
func (f *Fake) Create(ctx context.Context, spec container.CreateSpec) error {
	return f.do(ctx, OpCreate, spec.Name, func() error { return f.make(spec) })
}

// Clone implements container.Cloner.
func (f *Fake) Clone(ctx context.Context, from string, spec container.CreateSpec) (info container.Info, err error) {
	err = f.do(ctx, OpClone, spec.Name, func() error {
		c, err := f.find(from)
		switch {
		case err != nil:
			return err
		case c.info.CTID == "":
			return container.ErrUnsupported
		}
		spec.Template, spec.Privileged = c.info.Template, c.info.Privileged
		if err := f.make(spec); err != nil {
			return err
		}
		c, err = f.find(spec.Name)
		info = c.copy()
		return err
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// Rehost implements container.Rehoster.
func (f *Fake) Rehost(ctx context.Context, name, hostname string, id container.CTID) error {
	return f.do(ctx, OpRehost, name, func() error {
		c, err := f.find(name)
		switch {
		case err != nil:
			return err
		case c.info.CTID == "":
			return container.ErrUnsupported
		case c.info.CTID != id:
			return container.ErrNotFound
		case c.info.State != container.StateStopped:
			return container.ErrBusy
		}
		c.hostname = hostname
		return nil
	})
}

// Hostname is what Rehost has last set.
func (f *Fake) Hostname(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.containers[name]; c != nil {
		return c.hostname
	}
	return ""
}

// Mounts are what a container was made with.
func (f *Fake) Mounts(name string) []container.Mount {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.containers[name]; c != nil {
		return slices.Clone(c.mounts)
	}
	return nil
}

// make makes a container. The caller holds the lock.
func (f *Fake) make(spec container.CreateSpec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	for _, c := range f.containers {
		switch same := c.info.CTID == spec.CTID; {
		case same && c.info.Name == spec.Name:
			return nil
		case same || c.info.Name == spec.Name:
			return container.ErrExists
		}
	}
	info := container.Info{Name: spec.Name, CTID: spec.CTID, Kind: f.kind, State: container.StateStopped, Template: spec.Template, MAC: spec.Network.MAC, Privileged: spec.Privileged}
	if !spec.Network.IsZero() {
		info.Addresses = []netip.Addr{spec.Network.Address.Addr()}
	}
	f.containers[spec.Name] = &fakeContainer{info: info, unique: spec.Unique, mounts: spec.Mounts, files: f.filesOf(spec.Template, "")}
	return nil
}

// Destroy implements container.Creator.
func (f *Fake) Destroy(ctx context.Context, name string) error {
	return f.do(ctx, OpDestroy, name, func() error {
		c, err := f.find(name)
		if err != nil {
			return err
		}
		if c.info.CTID == "" {
			return container.ErrUnsupported
		}
		if c.info.State != container.StateStopped {
			return container.ErrBusy
		}
		delete(f.containers, name)
		return nil
	})
}

// Rename implements container.Renamer.
func (f *Fake) Rename(ctx context.Context, name, to string, id container.CTID) error {
	return f.do(ctx, OpRename, name, func() error {
		if c := f.containers[to]; c != nil && c.info.CTID == id {
			return nil
		}
		c, err := f.find(name)
		switch {
		case err != nil:
			return err
		case c.info.CTID == "":
			return container.ErrUnsupported
		case c.info.CTID != id:
			return container.ErrNotFound
		case container.CheckName(to) != nil:
			return container.CheckName(to)
		case c.info.State != container.StateStopped:
			return container.ErrBusy
		case f.containers[to] != nil:
			return container.ErrExists
		}
		delete(f.containers, name)
		c.info.Name = to
		f.containers[to] = c
		f.tell(container.Event{})
		return nil
	})
}

// Watch implements container.Watcher.
func (f *Fake) Watch(ctx context.Context, ready func(), handle func(container.Event)) error {
	w := &fakeWatcher{wake: make(chan struct{}, 1)}
	f.mu.Lock()
	f.watchers[w] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, w)
	}()
	ready()
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		f.mu.Lock()
		events := w.queue
		w.queue = nil
		f.mu.Unlock()
		for _, e := range events {
			handle(e)
		}
	}
}
