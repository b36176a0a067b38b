package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/runner/rundir"
)

var _ container.Filer = (*Runtime)(nil)

// runtimeDirs are where the runtimes below podman are looked for by their names.
var runtimeDirs = []string{"/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/lib/podman"}

// Exec implements container.Runtime.
func (r *Runtime) Exec(ctx context.Context, name string) (s container.Supervisor, err error) {
	err = r.do(ctx, "exec", name, r.cfg.Query, func(ctx context.Context) error {
		var d details
		ticks, err := rundir.Settled(ctx, clock.Boot, func() (_ int, err error) {
			d, err = r.inspect(ctx, name)
			return d.info().InitPID, err
		})
		switch i := d.info(); {
		case errors.Is(err, rundir.ErrUnsettled):
			return fmt.Errorf("%w: %w", container.ErrNotRunning, err)
		case err != nil:
			return err
		case i.State != container.StateRunning || i.InitPID == 0:
			return fmt.Errorf("%w: it is %s", container.ErrNotRunning, i.State)
		}
		t := target{ID: d.ID, Name: name, Config: d.OCIConfigPath, InitPID: d.State.PID, InitTicks: ticks}
		if t.Program, err = program(d.OCIRuntime); err != nil {
			return err
		}
		s = container.Supervisor{Argv: r.cfg.Supervisor, Target: t.table()}
		return nil
	})
	return s, err
}

// program finds the runtime below podman.
func program(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range runtimeDirs {
		file := filepath.Join(dir, filepath.Base(name))
		if i, err := os.Stat(file); err == nil && i.Mode().IsRegular() {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: its runtime %q is in none of %q", container.ErrUnsupported, name, runtimeDirs)
}

// maxMap bounds what is read of a map of users, in bytes.
const maxMap = 1 << 20

// Files implements container.Filer.
func (r *Runtime) Files(ctx context.Context, name string) (container.Files, error) {
	var info container.Info
	ticks, err := rundir.Settled(ctx, clock.Boot, func() (_ int, err error) {
		info, err = r.Inspect(ctx, name)
		return info.InitPID, err
	})
	switch {
	case errors.Is(err, rundir.ErrUnsettled):
		return container.Files{}, fmt.Errorf("podman files %q: %w: %w", name, container.ErrNotRunning, err)
	case err != nil:
		return container.Files{}, err
	case info.InitPID == 0:
		f, err := stoppedFiles(ctx, r, name)
		if err != nil {
			return container.Files{}, fmt.Errorf("podman files %q: %w", name, err)
		}
		return f, nil
	}
	proc := "/proc/" + strconv.Itoa(info.InitPID)
	uids, err := rundir.ReadCapped(proc+"/uid_map", maxMap)
	if err != nil {
		return container.Files{}, fmt.Errorf("podman files %q: %w: %w", name, container.ErrNotRunning, err)
	}
	gids, err := rundir.ReadCapped(proc+"/gid_map", maxMap)
	if err != nil {
		return container.Files{}, fmt.Errorf("podman files %q: %w: %w", name, container.ErrNotRunning, err)
	}
	return container.Files{Root: proc + "/root", InitPID: info.InitPID, InitTicks: ticks, UIDs: string(uids), GIDs: string(gids)}, nil
}

// stoppedFiles finds the layers of a container that does not run. Podman itself would mount
// them where others see it, until somebody unmounts them.
func stoppedFiles(ctx context.Context, r *Runtime, name string) (f container.Files, err error) {
	d, err := r.stopped(ctx, name)
	if err != nil {
		return f, err
	}
	dir, err := d.GraphDriver.snapshots()
	if err != nil {
		return f, fmt.Errorf("%w; or start it", err)
	}
	if err := d.GraphDriver.free(name); err != nil {
		return f, err
	}
	s := container.StoredFiles{Lower: filepath.SplitList(d.GraphDriver.Data["LowerDir"]), Changes: dir.Tree, Work: d.GraphDriver.Data["WorkDir"]}
	ids, err := d.ids()
	if err != nil {
		return f, err
	}
	if s.Shown.First, s.Shown.Count, err = mapped(s.Lower, ids); err != nil {
		return f, err
	}
	f = container.Files{Root: d.GraphDriver.merged(), Stored: &s}
	if ids.Count > 0 {
		f.UIDs = fmt.Sprintf("0 %d %d\n", ids.First, ids.Count)
		f.GIDs = f.UIDs
	}
	return f, nil
}
