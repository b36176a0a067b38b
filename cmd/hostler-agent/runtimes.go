package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/podman"
)

// openRuntimes returns the container technologies of this host, and of the
// others why they are missing.
func openRuntimes(ctx context.Context, s state, c config, log *slog.Logger) (all []container.Runtime, missing []string, err error) {
	for kind, open := range map[container.Kind]func() (container.Runtime, error){
		container.KindLXC:    func() (container.Runtime, error) { return openLXC(ctx, s, c, log) },
		container.KindPodman: func() (container.Runtime, error) { return openPodman(ctx, c, log) },
	} {
		switch r, err := open(); {
		case err == nil:
			all = append(all, r)
			if s, ok := r.(container.Sharer); ok && c.LXC.Rootfs == rootfsAuto && s.Alone() != "" {
				missing = append(missing, string(kind)+".overlay: "+s.Alone()+"; new containers have copies of the files of their image")
			}
		case ctx.Err() != nil:
			closeRuntimes(all)
			return nil, nil, context.Cause(ctx)
		default:
			log.Warn("a runtime of containers is not supported", "runtime", string(kind), "error", err)
			missing = append(missing, string(kind)+": "+err.Error())
		}
	}
	slices.SortFunc(all, func(a, b container.Runtime) int { return cmp.Compare(a.Kind(), b.Kind()) })
	slices.Sort(missing)
	return all, missing, nil
}

// openImages opens the images of LXC.
func (c config) openImages(s state) (*image.Store, error) {
	return image.Open(image.Config{Dir: s.images(), Registries: c.Images.registries(), MaxBytes: int64(c.Images.MaxGiB) << 30})
}

func openLXC(ctx context.Context, s state, c config, log *slog.Logger) (container.Runtime, error) {
	images, err := c.openImages(s)
	if err != nil {
		return nil, err
	}
	r, err := lxc.New(lxc.Config{Helper: c.LXC.Helper, LXCPath: c.LXC.Path, LockDir: s.locks(), IDs: c.LXC.ids(), Images: images, Share: c.LXC.Rootfs == rootfsAuto, Log: log})
	if err != nil {
		return nil, err
	}
	return r, r.Probe(ctx)
}

// permits is the directory of the permits to start unique containers of podman: beside the
// agent's socket, where nothing outlives a boot.
func (c config) permits() string { return c.Socket + "-permits" }

// openPodman returns podman also while its service is away: that may pass.
func openPodman(ctx context.Context, all config, log *slog.Logger) (container.Runtime, error) {
	c := all.Podman
	switch _, err := os.Stat(c.Socket); {
	case c.Use == podmanOff:
		return nil, fmt.Errorf("podman.use is %s", podmanOff)
	case c.Use == podmanAuto && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist; start the service of podman there, or set podman.use to %s, and restart the agent", c.Socket, podmanOn)
	}
	self, err := thisProgram()
	if err != nil {
		return nil, err
	}
	r, err := podman.New(podman.Config{Socket: c.Socket, Supervisor: []string{self, supervisePodman}, Permits: all.permits(), Permit: []string{self, epochPodman}, IDs: c.ids(), Log: log})
	if err != nil {
		return nil, err
	}
	if err := r.Probe(ctx); err != nil && !errors.Is(err, container.ErrUnavailable) {
		return nil, err
	}
	return r, nil
}

func closeRuntimes(all []container.Runtime) {
	for _, r := range all {
		_ = r.Close() // nothing of them is left to lose
	}
}

// thisProgram is the path of this program. After an upgrade it is that of the new one,
// which is as good.
func thisProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return strings.TrimSuffix(self, " (deleted)"), nil
}
