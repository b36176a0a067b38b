package podman

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"syscall"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/cgroup"
)

// starting is the start of a container, with its interface and its limits.
type starting struct {
	*Runtime
	network container.Network
	files   []container.GroupFile
}

// start starts a container that is stopped, and returns what it is then.
func (r starting) start(ctx context.Context, d details) (now details, err error) {
	if r.network.IsZero() && len(r.files) == 0 {
		if err := r.post(ctx, d.ID, "start", nil); err != nil {
			return now, err
		}
		return r.inspect(ctx, d.ID)
	}
	for tries := 1; ; tries++ {
		now, done, err := r.try(ctx, d)
		if done || ctx.Err() != nil || tries == startTries {
			return now, err
		}
		if d, err = r.inspect(ctx, d.ID); err != nil {
			return now, err
		}
	}
}

// startTries is how often a start is begun anew. At the end of a container podman
// starts a process that tidies up after it; one that is late tidies away what the next
// start has prepared.
const startTries = 20

// try makes one try, and returns what the container is then. done tells that another would
// do no better.
func (r starting) try(ctx context.Context, d details) (now details, done bool, err error) {
	if d.State.Status != statusInitialized {
		if err := r.post(ctx, d.ID, "init", nil); err != nil {
			return now, !errors.Is(err, container.ErrBusy), err
		}
	}
	up, err := r.inspect(ctx, d.ID)
	if err != nil {
		return now, false, err
	}
	if up.State.Status != statusInitialized || up.State.PID == 0 {
		return now, false, fmt.Errorf("it is %s and should be %s", up.State.Status, statusInitialized)
	}
	err = cgroup.Write(up.State.PID, r.files)
	if err == nil && !r.network.IsZero() {
		err = connect(d.ctid(), r.network, up.State.PID)
	}
	if err != nil {
		now, look := r.inspect(ctx, d.ID)
		return now, look == nil && now.State.Status == statusInitialized && now.State.PID == up.State.PID && syscall.Kill(up.State.PID, 0) == nil, err
	}
	if err := r.post(ctx, d.ID, "start", nil); err != nil {
		return now, false, err
	}
	now, err = r.inspect(ctx, d.ID)
	if err != nil || now.State.PID == up.State.PID || now.State.PID == 0 {
		return now, err == nil, err
	}
	// What was prepared is gone, and podman has started it anew: without its interface.
	return now, false, r.post(ctx, d.ID, "stop", url.Values{"timeout": {"0"}})
}
