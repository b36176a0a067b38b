package podman

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
)

var _ container.Filer = (*Runtime)(nil)

// runtimeDirs are where the runtimes below podman are looked for by their names.
var runtimeDirs = []string{"/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/lib/podman"}

// Exec implements container.Runtime.
func (r *Runtime) Exec(ctx context.Context, name string) (s container.Supervisor, err error) {
	err = r.do(ctx, "exec", name, r.cfg.Query, func(ctx context.Context) error {
		d, err := r.inspect(ctx, name)
		if err != nil {
			return err
		}
		if i := d.info(); i.State != container.StateRunning || i.InitPID == 0 {
			return fmt.Errorf("%w: it is %s", container.ErrNotRunning, i.State)
		}
		t := target{ID: d.ID, Name: name, Config: d.OCIConfigPath, InitPID: d.State.PID}
		if t.Program, err = program(d.OCIRuntime); err != nil {
			return err
		}
		if t.InitTicks, err = rundir.StartTicks(t.InitPID); err != nil {
			return fmt.Errorf("%w: its first process has ended: %w", container.ErrNotRunning, err)
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

// Files implements container.Filer. What a stopped container is made of is put together
// only while it runs.
func (r *Runtime) Files(ctx context.Context, name string) (container.Files, error) {
	info, err := r.Inspect(ctx, name)
	if err != nil {
		return container.Files{}, err
	}
	if info.InitPID == 0 {
		return container.Files{}, fmt.Errorf("podman files %q: %w: its file system is mounted only while it runs; start it", name, container.ErrUnsupported)
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
	return container.Files{Root: proc + "/root", InitPID: info.InitPID, UIDs: string(uids), GIDs: string(gids)}, nil
}
