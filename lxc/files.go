package lxc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/runner/rundir"
)

var _ container.Filer = (*Runtime)(nil)

// maxConfig bounds what is read of a container's configuration and maps, in
// bytes.
const maxConfig = 1 << 20

// Files implements container.Filer.
func (r *Runtime) Files(ctx context.Context, name string) (container.Files, error) {
	var info container.Info
	ticks, err := rundir.Settled(ctx, clock.Boot, func() (_ int, err error) {
		info, err = r.Inspect(ctx, name)
		return info.InitPID, err
	})
	switch {
	case errors.Is(err, rundir.ErrUnsettled):
		return container.Files{}, fmt.Errorf("lxc files %q: %w: %w", name, container.ErrNotRunning, err)
	case err != nil:
		return container.Files{}, err
	case info.InitPID == 0:
		return r.stoppedFiles(info)
	}
	proc := "/proc/" + strconv.Itoa(info.InitPID)
	f := container.Files{Root: proc + "/root", InitPID: info.InitPID, InitTicks: ticks}
	for _, m := range []struct {
		file string
		to   *string
	}{{"/uid_map", &f.UIDs}, {"/gid_map", &f.GIDs}} {
		b, err := rundir.ReadCapped(proc+m.file, maxConfig)
		if err != nil {
			return container.Files{}, fmt.Errorf("lxc files %q: %w: %w", name, container.ErrNotRunning, err)
		}
		*m.to = string(b)
	}
	return f, nil
}

// stoppedFiles finds the files of a container that does not run by its
// configuration.
func (r *Runtime) stoppedFiles(info container.Info) (container.Files, error) {
	if info.State != container.StateStopped {
		return container.Files{}, fmt.Errorf("lxc files %q: %w: it is %s", info.Name, container.ErrBusy, info.State)
	}
	dir := filepath.Join(r.cfg.LXCPath, info.Name)
	b, err := rundir.ReadCapped(filepath.Join(dir, "config"), maxConfig)
	if err != nil {
		return container.Files{}, fmt.Errorf("lxc files %q: %w", info.Name, err)
	}
	f := container.Files{Root: filepath.Join(dir, "rootfs")}
	shared, err := r.shared.files(dir)
	if err != nil {
		return container.Files{}, fmt.Errorf("lxc files %q: its record: %w", info.Name, err)
	}
	f.Shared = shared
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch key {
		case "lxc.rootfs.path", "lxc.rootfs":
			backend, path, ok := strings.Cut(value, ":")
			if !ok {
				backend, path = "dir", value
			}
			if backend != "dir" {
				return container.Files{}, fmt.Errorf("lxc files %q: %w: its %s file system is mounted only while it runs; start it", info.Name, container.ErrUnsupported, backend)
			}
			f.Root = path
		case "lxc.idmap", "lxc.id_map":
			kind, rest, _ := strings.Cut(value, " ")
			switch kind {
			case "u":
				f.UIDs += rest + "\n"
			case "g":
				f.GIDs += rest + "\n"
			}
		}
	}
	if i, err := os.Lstat(f.Root); err != nil || !i.IsDir() {
		return container.Files{}, fmt.Errorf("lxc files %q: %w: directory %s does not exist", info.Name, container.ErrUnsupported, f.Root)
	}
	return f, nil
}
