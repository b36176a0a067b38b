package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/container"
)

// Config says where things are and how long they may take.
type Config struct {
	// Socket of podman's service, absolute. It need not be there: Probe tells.
	Socket string
	// Supervisor is the argv of the program that calls Supervise.
	Supervisor []string
	// Permits is a directory, absolute and in memory, for the permits to start unique
	// containers. Empty: containers cannot be unique. Permit is the argv of the program that
	// prints [PrintedEpoch] of the path that is its last argument.
	Permits string
	Permit  []string
	// IDs of the host are given to unprivileged containers, 65,536 to each. Nobody
	// else may use them. Default: 1,024 ranges above those of package lxc.
	IDs container.IDRange
	// Bridge is where Debris looks for cables of containers that are gone; empty: nowhere.
	Bridge string
	// Query bounds a question, and a start or stop beyond its own time; default 1 min.
	Query time.Duration
	// Log receives what no caller is told. Default: nothing.
	Log *slog.Logger
}

// DefaultIDs are the ids of unprivileged containers unless the configuration says otherwise.
var DefaultIDs = container.IDRange{First: 1_668_435_456, Count: 1024 << 16}

// Runtime is podman on this host. All methods may be called concurrently.
type Runtime struct {
	shooting
	promoting
	adopting
	upgrading
	holding
	cfg    Config
	api    *api
	driver atomic.Pointer[string] // of podman's storage; nil while podman was not asked

	making sync.Mutex // held while names, CTIDs and ids are chosen
	mu     sync.Mutex
	held   map[string]chan struct{} // operations that change a container, by its name
}

var (
	_ container.Runtime = (*Runtime)(nil)
	_ container.Creator = (*Runtime)(nil)
	_ container.Renamer = (*Runtime)(nil)
	_ container.Cloner  = (*Runtime)(nil)
	_ container.Adopter = (*Runtime)(nil)
	_ container.Freezer = (*Runtime)(nil)
	_ container.Holder  = (*Runtime)(nil)
	_ container.Logger  = (*Runtime)(nil)
	_ container.Watcher = (*Runtime)(nil)
)

// New returns the runtime; it asks nothing. Call Probe to learn whether podman can be
// used here.
func New(cfg Config) (*Runtime, error) {
	if !filepath.IsAbs(cfg.Socket) {
		return nil, fmt.Errorf("podman: socket %q is not an absolute path", cfg.Socket)
	}
	cfg.Query = cmp.Or(cfg.Query, time.Minute)
	if cfg.IDs.Count == 0 {
		cfg.IDs = DefaultIDs
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{cfg: cfg, api: newAPI(cfg.Socket), held: make(map[string]chan struct{})}
	r.shooting, r.promoting, r.adopting, r.upgrading, r.holding = shooting{r}, promoting{r}, adopting{r}, upgrading{r}, holding{r}
	return r, nil
}

// Probe tells whether podman answers. An error that matches container.ErrUnavailable
// may pass; one that matches container.ErrUnsupported does not.
func (r *Runtime) Probe(ctx context.Context) error {
	return r.do(ctx, "probe", "", r.cfg.Query, func(ctx context.Context) error {
		var info struct {
			Version struct{ APIVersion string }
			Store   struct{ GraphDriverName string }
		}
		if err := r.api.call(ctx, http.MethodGet, "/info", nil, nil, &info); err != nil {
			return err
		}
		major, _, _ := strings.Cut(info.Version.APIVersion, ".")
		if n, err := strconv.Atoi(major); err != nil || n < 4 {
			return fmt.Errorf("%w: podman %.20q is too old; install 4.0 or newer", container.ErrUnsupported, info.Version.APIVersion)
		}
		r.driver.Store(&info.Store.GraphDriverName)
		return nil
	})
}

// Storage is the directory in which podman keeps the files of containers.
func Storage(ctx context.Context, r *Runtime) (dir string, err error) {
	err = r.do(ctx, "storage", "", r.cfg.Query, func(ctx context.Context) error {
		var info struct {
			Store struct{ GraphRoot string }
		}
		err := r.api.call(ctx, http.MethodGet, "/info", nil, nil, &info)
		dir = info.Store.GraphRoot
		if err == nil && !filepath.IsAbs(dir) {
			err = fmt.Errorf("podman calls the directory of its files %q", dir)
		}
		return err
	})
	return dir, err
}

// Kind implements container.Runtime.
func (r *Runtime) Kind() container.Kind { return container.KindPodman }

// Close implements container.Runtime.
func (r *Runtime) Close() error {
	r.api.client.CloseIdleConnections()
	return nil
}

// List implements container.Runtime. What podman itself does not list with the others
// (its containers' uids, addresses) is asked for one by one of foreign containers.
func (r *Runtime) List(ctx context.Context) (infos []container.Info, err error) {
	err = r.do(ctx, "list", "", r.cfg.Query, func(ctx context.Context) error {
		all, err := r.list(ctx, nil)
		if err != nil {
			return err
		}
		for _, l := range all {
			name := l.name()
			switch {
			case container.CheckReference(name) != nil:
				continue // no order could name it
			case l.Labels[labelCTID] != "":
				if l.bury(ctx, r) {
					l.State = "exited"
				}
				infos = append(infos, l.info())
				continue
			}
			info, err := r.inspect(ctx, name)
			switch {
			case err == nil:
				infos = append(infos, info.info())
			case ctx.Err() != nil:
				return err
			case !errors.Is(err, container.ErrNotFound):
				infos = append(infos, container.Info{Name: name, Kind: container.KindPodman, State: container.StateUnknown})
			}
		}
		slices.SortFunc(infos, func(a, b container.Info) int { return cmp.Compare(a.Name, b.Name) })
		return nil
	})
	return infos, err
}

// Inspect implements container.Runtime.
func (r *Runtime) Inspect(ctx context.Context, name string) (info container.Info, err error) {
	err = r.do(ctx, "inspect", name, r.cfg.Query, func(ctx context.Context) error {
		d, err := r.inspect(ctx, name)
		info = d.info()
		return err
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// Start implements container.Runtime. A container whose first process ends at once
// does not run, and the error has its last lines.
func (r *Runtime) Start(ctx context.Context, name string) (info container.Info, err error) {
	return r.StartOn(ctx, name, container.Terms{})
}

// StartOn implements container.Starter.
func (r *Runtime) StartOn(ctx context.Context, name string, terms container.Terms) (info container.Info, err error) {
	err = r.change(ctx, "start", name, r.cfg.Query, func(ctx context.Context) error {
		d, err := r.inspect(ctx, name)
		if err != nil {
			return err
		}
		switch d.info().State {
		case container.StateRunning:
			info = d.info()
			return nil
		case container.StateFrozen:
			if err = r.post(ctx, d.ID, "unpause", nil); err == nil {
				d, err = r.inspect(ctx, d.ID)
			}
		default:
			end, refused := r.admit(ctx, &d, terms)
			if err = refused; err == nil {
				d, err = starting{r, d.network(), terms.Groups}.start(ctx, d)
				err = errors.Join(err, end())
			}
		}
		if err != nil {
			return err
		}
		if info = d.info(); info.State != container.StateRunning {
			return fmt.Errorf("it ended at once with exit code %d%s", d.State.ExitCode, r.lastWords(ctx, d.ID))
		}
		return nil
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// Stop implements container.Runtime. Podman counts a grace in seconds; a part of one
// counts as a whole. A frozen container cannot hear the request and is killed at once.
func (r *Runtime) Stop(ctx context.Context, name string, grace time.Duration) (info container.Info, err error) {
	grace = max(grace, 0)
	err = r.change(ctx, "stop", name, r.cfg.Query+grace, func(ctx context.Context) error {
		d, err := r.inspect(ctx, name)
		if err != nil {
			return err
		}
		m := d.monitor()
		defer m.close()
		switch d.info().State {
		case container.StateStopped:
		case container.StateFrozen:
			if err := r.post(ctx, d.ID, "kill", url.Values{"signal": {"KILL"}}); err != nil {
				return err
			}
			// It cannot end before it is thawed, and may have ended when it is.
			if err := r.post(ctx, d.ID, "unpause", nil); err != nil && ctx.Err() != nil {
				return err
			}
			fallthrough
		default:
			seconds := int64((grace + time.Second - 1) / time.Second)
			if err := r.post(ctx, d.ID, "stop", url.Values{"timeout": {strconv.FormatInt(seconds, 10)}}); err != nil {
				return err
			}
		}
		m.wait(ctx)
		if d, err = r.inspect(ctx, d.ID); err != nil {
			return err
		}
		if info = d.info(); info.State != container.StateStopped {
			return fmt.Errorf("%w: it is %s", container.ErrBusy, info.State)
		}
		return nil
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// Freeze implements container.Freezer.
func (r *Runtime) Freeze(ctx context.Context, name string) (container.Info, error) {
	return r.between(ctx, "freeze", "pause", name, container.StateRunning, container.StateFrozen)
}

// Unfreeze implements container.Freezer.
func (r *Runtime) Unfreeze(ctx context.Context, name string) (container.Info, error) {
	return r.between(ctx, "unfreeze", "unpause", name, container.StateFrozen, container.StateRunning)
}

// between brings a container from one state of those in which it has processes to
// another.
func (r *Runtime) between(ctx context.Context, op, verb, name string, from, to container.State) (info container.Info, err error) {
	err = r.change(ctx, op, name, r.cfg.Query, func(ctx context.Context) error {
		d, err := r.inspect(ctx, name)
		if err != nil {
			return err
		}
		switch info = d.info(); info.State {
		case to:
			return nil
		case from:
		default:
			return fmt.Errorf("%w: it is %s", container.ErrNotRunning, info.State)
		}
		if err := r.post(ctx, d.ID, verb, nil); err != nil {
			return err
		}
		d, err = r.inspect(ctx, d.ID)
		info = d.info()
		return err
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// post makes a change to a container.
func (r *Runtime) post(ctx context.Context, id, verb string, query url.Values) error {
	return r.api.call(ctx, http.MethodPost, "/containers/"+url.PathEscape(id)+"/"+verb, query, nil, nil)
}

// change does what only one may do to a container at a time.
func (r *Runtime) change(ctx context.Context, op, name string, limit time.Duration, act func(context.Context) error) error {
	return r.do(ctx, op, name, limit, func(ctx context.Context) error {
		release, err := r.hold(ctx, name)
		if err != nil {
			return err
		}
		defer release()
		return act(ctx)
	})
}

// hold waits until no other operation changes the container.
func (r *Runtime) hold(ctx context.Context, name string) (release func(), err error) {
	for {
		r.mu.Lock()
		busy := r.held[name]
		if busy == nil {
			mine := make(chan struct{})
			r.held[name] = mine
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.held, name)
				close(mine)
			}, nil
		}
		r.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// do bounds an operation and says in its error what it was.
func (r *Runtime) do(ctx context.Context, op, name string, limit time.Duration, act func(context.Context) error) error {
	subject := ""
	if op != "list" && op != "probe" {
		subject = fmt.Sprintf(" %q", name)
		if err := container.CheckReference(name); err != nil {
			return fmt.Errorf("podman %s: %w: %w", op, container.ErrNotFound, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, container.ErrTimeout)
	defer cancel()
	if ctx.Err() != nil {
		return fmt.Errorf("podman %s%s: %w", op, subject, context.Cause(ctx))
	}
	if err := act(ctx); err != nil {
		return fmt.Errorf("podman %s%s: %w", op, subject, err)
	}
	return nil
}
