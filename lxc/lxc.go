package lxc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner"
)

// Config says where things are and how long they may take.
type Config struct {
	// Helper is the program hostler-lxc, by absolute path. It need not exist:
	// Probe tells.
	Helper string
	// LXCPath is the directory that holds the containers, absolute. It is
	// created by the first Create.
	LXCPath string
	// LockDir holds one lock file per container, absolute, on a local file
	// system. It is created when needed.
	LockDir string
	// IDs of the host are given to unprivileged containers, 65,536 to each. Nobody
	// else may use them. Default: 4,096 ranges above those that LXD and Incus take by
	// themselves, within those that systemd leaves to containers.
	IDs container.IDRange
	// Share has new containers of an image share its files, where the kernel and the file system
	// can; see [container.Sharer].
	Share bool
	// Images are what containers are made from, beside templates. Default: none.
	Images container.Images
	// Monitor is liblxc's program lxc-monitor, by absolute path; default
	// /usr/bin/lxc-monitor. Only Watch needs it.
	Monitor string
	// Deadlines bound the operations; a context may only shorten them.
	Deadlines Deadlines
	// Log receives what no caller is told: restarts of the monitor. Default: nothing.
	Log *slog.Logger
}

// Deadlines are the longest times that operations may take. Zero fields get
// the defaults, which are some hundred times what a quiet machine needs.
type Deadlines struct {
	// Query is for Probe, List, Inspect and Exec; default 10 s.
	Query time.Duration
	// Start default 1 min: an init that reads a cold disk.
	Start time.Duration
	// Stop is added to the grace; default 30 s.
	Stop time.Duration
	// Create default 30 min: templates may fetch a distribution.
	Create time.Duration
	// Destroy default 5 min: removing a large tree.
	Destroy time.Duration
}

// DefaultIDs are the ids of unprivileged containers unless the configuration says otherwise.
var DefaultIDs = container.IDRange{First: 1_400_000_000, Count: 4096 << 16}

func (c *Config) setDefaults() error {
	for name, path := range map[string]*string{"Helper": &c.Helper, "LXCPath": &c.LXCPath, "LockDir": &c.LockDir, "Monitor": &c.Monitor} {
		if name == "Monitor" && *path == "" {
			*path = "/usr/bin/lxc-monitor"
		}
		if !filepath.IsAbs(*path) {
			return fmt.Errorf("lxc: %s %q is not an absolute path", name, *path)
		}
		*path = filepath.Clean(*path)
	}
	d := &c.Deadlines
	for _, f := range []struct {
		value *time.Duration
		byDef time.Duration
	}{
		{&d.Query, 10 * time.Second},
		{&d.Start, time.Minute},
		{&d.Stop, 30 * time.Second},
		{&d.Create, 30 * time.Minute},
		{&d.Destroy, 5 * time.Minute},
	} {
		if *f.value < 0 {
			return errors.New("lxc: negative deadline")
		}
		if *f.value == 0 {
			*f.value = f.byDef
		}
	}
	if c.IDs.Count == 0 {
		c.IDs = DefaultIDs
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// helper performs one operation. It is the seam between what this package
// promises and the process that does the work.
type helper interface {
	// call returns the answer of one operation, whatever its code. It ends
	// when ctx does, and nothing of the operation is left running then.
	call(ctx context.Context, op string, req wire.Request) (wire.Answer, error)
	// file is the program as it is to be executed, by absolute path.
	file() (string, error)
	// operations are those under way that change a container.
	operations() []container.Operation
	// close ends what waits for another call.
	close()
}

// Runtime is LXC on this host. All methods may be called concurrently.
type Runtime struct {
	upgrading
	groups
	shared
	ground
	cfg    Config
	helper helper
	inits  inits
	pulls  pulls
}

var (
	_ container.Runtime  = (*Runtime)(nil)
	_ container.Creator  = (*Runtime)(nil)
	_ container.Renamer  = (*Runtime)(nil)
	_ container.Rehoster = (*Runtime)(nil)
	_ container.Cloner   = (*Runtime)(nil)
	_ container.Adopter  = (*Runtime)(nil)
	_ container.Freezer  = (*Runtime)(nil)
	_ container.Holder   = (*Runtime)(nil)
	_ container.Logger   = (*Runtime)(nil)
	_ container.Watcher  = (*Runtime)(nil)
	_ container.Busy     = (*Runtime)(nil)
	_ container.Sharer   = (*Runtime)(nil)
	_ container.Tidier   = (*Runtime)(nil)
)

// New returns the runtime; it looks at nothing and starts nothing. Call Probe
// to learn whether LXC can be used here.
func New(cfg Config) (*Runtime, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	r := &Runtime{ground: ground(cfg.LXCPath), cfg: cfg, helper: &process{program: runner.Sealed{Path: cfg.Helper}}}
	r.upgrading = upgrading{r}
	r.shared.r = r
	return r, nil
}

// Probe tells whether LXC can be used on this host. An error that matches
// container.ErrUnsupported names what is missing: the helper, or liblxc.
func (r *Runtime) Probe(ctx context.Context) error {
	a, err := r.call(ctx, wire.OpProbe, r.cfg.Deadlines.Query, wire.Request{})
	if err == nil {
		r.alone.Store(&a.Alone)
	}
	return err
}

// Version returns the version of liblxc that the helper is linked to.
func (r *Runtime) Version(ctx context.Context) (string, error) {
	a, err := r.call(ctx, wire.OpProbe, r.cfg.Deadlines.Query, wire.Request{})
	return a.Liblxc, err
}

// Kind implements container.Runtime.
func (r *Runtime) Kind() container.Kind { return container.KindLXC }

// Close implements container.Runtime. It ends the helpers that wait for another start: each
// operation waits for its own process, and Watch ends with its context.
func (r *Runtime) Close() error {
	r.helper.close()
	return nil
}

// Operations implements container.Busy.
func (r *Runtime) Operations() []container.Operation {
	return append(r.helper.operations(), r.pulls.operations()...)
}

// List implements container.Runtime.
func (r *Runtime) List(ctx context.Context) ([]container.Info, error) {
	a, err := r.call(ctx, wire.OpList, r.cfg.Deadlines.Query, wire.Request{})
	return a.Infos, err
}

// Inspect implements container.Runtime.
func (r *Runtime) Inspect(ctx context.Context, name string) (container.Info, error) {
	a, err := r.call(ctx, wire.OpInspect, r.cfg.Deadlines.Query, wire.Request{Name: name})
	if err != nil {
		return container.Info{}, err
	}
	if len(a.Infos) != 1 {
		return container.Info{}, fmt.Errorf("lxc inspect %q: the helper told of %d containers", name, len(a.Infos))
	}
	return a.Infos[0], nil
}

// Start implements container.Runtime.
func (r *Runtime) Start(ctx context.Context, name string) (container.Info, error) {
	return r.StartOn(ctx, name, container.Terms{})
}

// StartOn implements container.Starter.
func (r *Runtime) StartOn(ctx context.Context, name string, terms container.Terms) (container.Info, error) {
	a, err := r.call(ctx, wire.OpStart, r.cfg.Deadlines.Start, wire.Request{Name: name, Terms: terms})
	return after(a), err
}

// groups are the control groups of containers.
type groups struct{}

// Group implements container.Holder.
func (groups) Group(_ context.Context, name string) (string, error) {
	return "lxc.payload." + name, nil
}

// Stop implements container.Runtime. A frozen container cannot hear the
// request and is killed at once.
func (r *Runtime) Stop(ctx context.Context, name string, grace time.Duration) (container.Info, error) {
	grace = max(grace, 0)
	a, err := r.call(ctx, wire.OpStop, r.cfg.Deadlines.Stop+grace, wire.Request{Name: name, Grace: grace})
	return after(a), err
}

// Freeze implements container.Freezer.
func (r *Runtime) Freeze(ctx context.Context, name string) (container.Info, error) {
	a, err := r.call(ctx, wire.OpFreeze, r.cfg.Deadlines.Query, wire.Request{Name: name})
	return after(a), err
}

// Unfreeze implements container.Freezer.
func (r *Runtime) Unfreeze(ctx context.Context, name string) (container.Info, error) {
	a, err := r.call(ctx, wire.OpUnfreeze, r.cfg.Deadlines.Query, wire.Request{Name: name})
	return after(a), err
}

// after is what the helper has seen at the end of an operation, which spares
// another one; zero if it has seen nothing.
func after(a wire.Answer) container.Info {
	if len(a.Infos) != 1 {
		return container.Info{}
	}
	return a.Infos[0]
}

// Create implements container.Creator.
func (r *Runtime) Create(ctx context.Context, spec container.CreateSpec) error {
	if err := spec.Check(); err != nil {
		return fmt.Errorf("lxc create: %w", err)
	}
	req := wire.Request{Create: &spec, Image: spec.Image}
	spec.Image = nil
	if req.Image == nil && !container.IsWord(spec.Template) {
		img, release, err := r.fetch(ctx, spec)
		if err != nil {
			return fmt.Errorf("lxc create %q: %w", spec.Name, err)
		}
		defer release()
		req.Image = &img
	}
	_, err := r.call(ctx, wire.OpCreate, r.cfg.Deadlines.Create, req)
	return err
}

// Destroy implements container.Creator. What an interrupted Create or Destroy
// left behind is removed, too.
func (r *Runtime) Destroy(ctx context.Context, name string) error {
	_, err := r.call(ctx, wire.OpDestroy, r.cfg.Deadlines.Destroy, wire.Request{Name: name})
	return err
}

// Rename implements container.Renamer.
func (r *Runtime) Rename(ctx context.Context, name, to string, id container.CTID) error {
	if err := container.CheckName(to); err != nil {
		return fmt.Errorf("lxc rename %q: %w", name, err)
	}
	_, err := r.call(ctx, wire.OpRename, r.cfg.Deadlines.Query, wire.Request{Name: name, To: to, CTID: id})
	return err
}

// Rehost implements container.Rehoster.
func (r *Runtime) Rehost(ctx context.Context, name, hostname string, id container.CTID) error {
	_, err := r.call(ctx, wire.OpRehost, r.cfg.Deadlines.Query, wire.Request{Name: name, To: hostname, CTID: id})
	return err
}

// Clone implements container.Cloner.
func (r *Runtime) Clone(ctx context.Context, from string, spec container.CreateSpec) (container.Info, error) {
	a, err := r.call(ctx, wire.OpClone, r.cfg.Deadlines.Create, wire.Request{Name: from, Create: &spec})
	return after(a), err
}

// Adopt implements container.Adopter.
func (r *Runtime) Adopt(ctx context.Context, name string, id container.CTID) (container.Info, error) {
	a, err := r.call(ctx, wire.OpAdopt, r.cfg.Deadlines.Query, wire.Request{Name: name, CTID: id})
	return after(a), err
}

// Disown implements container.Adopter.
func (r *Runtime) Disown(ctx context.Context, name string, id container.CTID) error {
	_, err := r.call(ctx, wire.OpDisown, r.cfg.Deadlines.Query, wire.Request{Name: name, CTID: id})
	return err
}

// Debris implements container.Tidier. Operations of LXC look for debris of their own accord,
// too, but only for what is in their way.
func (r *Runtime) Debris(ctx context.Context, repair bool) ([]container.Debris, error) {
	a, err := r.call(ctx, wire.OpDebris, r.cfg.Deadlines.Destroy, wire.Request{Repair: repair})
	return a.Debris, err
}

// Exec implements container.Runtime. The supervisor is the helper itself; it
// refuses if the container was restarted in between, or is not running. So one
// whose init is known and lives is not asked again: that would double the
// price of a command.
func (r *Runtime) Exec(ctx context.Context, name string) (container.Supervisor, error) {
	first, ok := r.inits.alive(name)
	if !ok {
		asked := clock.Boot()
		info, err := r.Inspect(ctx, name)
		if err != nil {
			return container.Supervisor{}, err
		}
		if info.State != container.StateRunning || info.InitPID == 0 {
			return container.Supervisor{}, fmt.Errorf("lxc exec %q: %w: it is %s", name, container.ErrNotRunning, info.State)
		}
		first = r.inits.learn(name, info.InitPID, asked)
	}
	program, err := r.helper.file()
	if err != nil {
		return container.Supervisor{}, fmt.Errorf("lxc exec %q: %w", name, err)
	}
	return container.Supervisor{
		Argv:   []string{program, wire.OpSupervise},
		Target: wire.Target{LXCPath: r.cfg.LXCPath, Name: name, InitPID: first.pid, InitTicks: first.ticks}.Map(),
	}, nil
}

// call completes the request, bounds it, and turns the answer's code into an error.
func (r *Runtime) call(ctx context.Context, op string, limit time.Duration, req wire.Request) (wire.Answer, error) {
	if req.Name != "" || op != wire.OpProbe && op != wire.OpList && op != wire.OpCreate && op != wire.OpDebris {
		if err := container.CheckReference(req.Name); err != nil {
			return wire.Answer{}, fmt.Errorf("lxc %s: %w: %w", op, container.ErrNotFound, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, container.ErrTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	req.Version = wire.Version
	req.LXCPath, req.Helper = r.cfg.LXCPath, r.cfg.Helper
	req.LockDir, req.Share = r.cfg.LockDir, r.cfg.Share
	req.IDs = r.cfg.IDs
	req.Timeout = time.Until(deadline)

	a, err := r.helper.call(ctx, op, req)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, container.ErrTimeout) {
			err = fmt.Errorf("%w: %w", container.ErrTimeout, err)
		}
	}
	if err == nil {
		err = a.Err()
	}
	if err != nil {
		return wire.Answer{}, fmt.Errorf("lxc %s%s: %w", op, subject(req), err)
	}
	return a, nil
}

// subject names the container of a request for an error message.
func subject(req wire.Request) string {
	if name := req.Subject(); name != "" {
		return fmt.Sprintf(" %q", name)
	}
	return ""
}
