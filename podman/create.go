package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/network"
)

// How long operations may take that move files.
const (
	createTime  = 30 * time.Minute
	destroyTime = 5 * time.Minute
)

// idsEach is how many ids an unprivileged container gets: all that programs use.
const idsEach = 1 << 16

// Create implements container.Creator. The template is an image; podman pulls one that
// it does not have.
func (r *Runtime) Create(ctx context.Context, spec container.CreateSpec) error {
	if err := spec.Check(); err != nil {
		return fmt.Errorf("podman create: %w", err)
	}
	return r.change(ctx, "create", spec.Name, createTime, func(ctx context.Context) error {
		if spec.Image != nil {
			return restore(ctx, r, spec)
		}
		image, err := r.Images().here(ctx, spec.Template, spec.Pull)
		if err != nil || image == "" { // it may not be asked for, if an attempt before has made the container
			if _, there, err := r.known(ctx, spec.Name, spec.CTID); err != nil || there {
				return err
			}
		}
		if err == nil && image == "" {
			image, err = r.Images().fetch(ctx, spec.Template, spec.Pull)
		}
		if err != nil {
			return err
		}
		return r.make(ctx, spec, image)
	})
}

// make makes a container of an image that podman has, unless it is there already.
func (r *Runtime) make(ctx context.Context, spec container.CreateSpec, image string) error {
	r.making.Lock()
	defer r.making.Unlock()
	all, there, err := r.known(ctx, spec.Name, spec.CTID)
	if err != nil || there {
		return err
	}
	body, err := r.body(spec, image)
	if err != nil {
		return err
	}
	if !spec.Privileged {
		first, err := r.freeIDs(all)
		if err != nil {
			return err
		}
		body.own(first)
	}
	if spec.Unique {
		if err := r.prepare(ctx, spec.CTID, "none"); err != nil {
			return err
		}
		r.describe(&body, spec.CTID)
	}
	err = r.api.call(ctx, http.MethodPost, "/containers/create", nil, body, nil)
	if _, said := errors.AsType[*problem](err); said && spec.Unique { // podman has made nothing
		err = errors.Join(err, r.forget(ctx, spec.CTID))
	}
	return err
}

// known returns all containers, and whether the one of that name and CTID is there already.
// It refuses if the name or the CTID is another's.
func (r *Runtime) known(ctx context.Context, name string, id container.CTID) (all []listed, there bool, err error) {
	if all, err = r.listAll(ctx, nil); err != nil {
		return nil, false, err
	}
	of, err := twin(ctx, r, all, id)
	switch {
	case err != nil:
		return nil, false, err
	case of != nil && of.name() != name:
		return nil, false, fmt.Errorf("%w: %s is called %s", container.ErrExists, id, of.name())
	case of != nil:
		return all, true, nil
	case slices.ContainsFunc(all, func(l listed) bool { return l.name() == name }):
		return nil, false, fmt.Errorf("%w: the name %s is taken", container.ErrExists, name)
	}
	return all, false, nil
}

// byCTID returns the container of that id; nil if there is none.
func (r *Runtime) byCTID(ctx context.Context, id container.CTID) (*listed, error) {
	all, err := r.listAll(ctx, nil)
	if err != nil {
		return nil, err
	}
	return twin(ctx, r, all, id)
}

// twin is byCTID among all containers.
func twin(ctx context.Context, r *Runtime, all []listed, id container.CTID) (*listed, error) {
	for _, l := range all {
		if !l.aside() && l.Labels[labelCTID] == string(id) {
			return &l, nil
		}
	}
	for _, l := range all { // of one that was adopted, its labels do not tell
		if l.aside() || l.Labels[labelCTID] != "" {
			continue
		}
		d, err := r.inspect(ctx, l.ID)
		switch {
		case err == nil && d.ctid() == id:
			return &l, nil
		case err != nil && !errors.Is(err, container.ErrNotFound):
			return nil, err
		}
	}
	return nil, nil
}

// specification is what podman makes a container of.
type specification struct {
	Name     string            `json:"name"`
	Image    string            `json:"image"`
	Hostname string            `json:"hostname"`
	Env      map[string]string `json:"env,omitempty"`
	Command  []string          `json:"command,omitempty"`
	// These are of a restored container: else the image has them.
	Entrypoint []string `json:"entrypoint,omitempty"`
	User       string   `json:"user,omitempty"`
	WorkDir    string   `json:"work_dir,omitempty"`
	StopSignal *int     `json:"stop_signal,omitempty"`

	Labels map[string]string `json:"labels"`
	// EnvSecrets are variables whose values secrets have, by the names of both.
	EnvSecrets map[string]string `json:"secret_env,omitempty"`
	// Stdin stays open: so the shell of an image that has nothing else to run waits.
	Stdin      bool       `json:"stdin"`
	NetNS      namespace  `json:"netns"`
	UserNS     *namespace `json:"userns,omitempty"`
	IDMappings *idMaps    `json:"idmappings,omitempty"`
	Mounts     []bind     `json:"mounts,omitempty"`
}

// bind is a mount in the words of the specification of OCI runtimes, which lead no mount
// out of the container by its links.
type bind struct {
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Destination string   `json:"destination"`
	Options     []string `json:"options"`
}

type namespace struct {
	Mode string `json:"nsmode"`
}

type idMaps struct {
	UIDMap []idMap
	GIDMap []idMap
}

type idMap struct {
	Inside uint32 `json:"container_id"`
	Host   uint32 `json:"host_id"`
	Size   uint32 `json:"size"`
}

// body describes a container to podman, but for its ids of the host.
func (r *Runtime) body(spec container.CreateSpec, image string) (specification, error) {
	b := specification{
		Name: spec.Name, Image: image, Hostname: spec.Called(), Command: spec.Command, Stdin: true, NetNS: namespace{"none"},
		Labels: map[string]string{labelCTID: string(spec.CTID), labelTemplate: spec.Template},
	}
	for _, m := range spec.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return b, fmt.Errorf("what is to be mounted at %s: %w", m.Path, err)
		}
		how := "rw"
		if m.ReadOnly {
			how = "ro"
		}
		b.Mounts = append(b.Mounts, bind{"bind", m.Source, m.Path, []string{"bind", how}})
	}
	if len(spec.Env) > 0 {
		b.Env = make(map[string]string, len(spec.Env))
	}
	for _, e := range spec.Env {
		name, value, _ := strings.Cut(e, "=")
		b.Env[name] = value
	}
	if spec.Image != nil {
		b.runs(spec.Image)
	}
	if !spec.Network.IsZero() {
		n, err := json.Marshal(spec.Network)
		if err != nil {
			return b, err
		}
		b.Labels[labelNetwork] = string(n)
	}
	return b, nil
}

// own gives a container ids of the host.
func (b *specification) own(first uint32) {
	b.Labels[labelIDs] = strconv.FormatUint(uint64(first), 10)
	m := []idMap{{0, first, idsEach}}
	b.UserNS, b.IDMappings = &namespace{"private"}, &idMaps{m, m}
}

// firstID is the first of the ids of the host of a container of ours; 0 of a privileged one.
func firstID(labels map[string]string) (uint32, error) {
	text := labels[labelIDs] // empty of one that was made of a promoted image
	if text == "" {
		return 0, nil
	}
	first, err := strconv.ParseUint(text, 10, 32)
	return uint32(first), err
}

// freeIDs finds ids that none of all containers has. The labels are the allocator: a container
// appears with them, so nothing is given twice, and nothing is lost with a creation
// that was cut short.
func (r *Runtime) freeIDs(all []listed) (uint32, error) {
	used := make(map[uint64]bool)
	for _, l := range all {
		if first, err := firstID(l.Labels); err == nil && first > 0 {
			used[uint64(first)] = true
		}
	}
	for n := uint64(0); n+idsEach <= uint64(r.cfg.IDs.Count); n += idsEach {
		if first := uint64(r.cfg.IDs.First) + n; !used[first] {
			return uint32(first), nil
		}
	}
	return 0, fmt.Errorf("all %d ids from %d on belong to containers; give podman.ids more", r.cfg.IDs.Count, r.cfg.IDs.First)
}

// Destroy implements container.Creator.
func (r *Runtime) Destroy(ctx context.Context, name string) error {
	return r.change(ctx, "destroy", name, destroyTime, func(ctx context.Context) error {
		d, err := r.stopped(ctx, name)
		if err != nil {
			return err
		}
		// What an upgrade has left that did not end.
		if err := r.clear(ctx, d.ctid()); err != nil {
			return err
		}
		if err := r.erase(ctx, d.ID); err != nil || !d.unique() {
			return err
		}
		return r.forget(ctx, d.ctid())
	})
}

// The pauses between tries to remove a container, and how many tries there are.
const (
	erasePause = 250 * time.Millisecond
	eraseTries = 40
)

// erase removes a container. What podman itself has started to tidy up after its end may
// still hold its mounts for a moment; then a part of it is gone, and the rest is removed
// by another try.
func (r *Runtime) erase(ctx context.Context, id string) error {
	for tries := 1; ; tries++ {
		err := r.api.call(ctx, http.MethodDelete, "/containers/"+id, url.Values{"v": {"true"}}, nil, nil)
		if err == nil || tries > 1 && errors.Is(err, container.ErrNotFound) {
			return nil
		}
		if _, answered := errors.AsType[*problem](err); !answered || tries == eraseTries {
			return err
		}
		select {
		case <-time.After(erasePause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// ours returns a container that Hostler has made or adopted; another one is
// container.ErrUnsupported.
func ours(ctx context.Context, r *Runtime, name string) (details, error) {
	d, err := r.inspect(ctx, name)
	if err == nil && d.ctid() == "" {
		err = fmt.Errorf("%w: %s was not made by Hostler", container.ErrUnsupported, name)
	}
	return d, err
}

// stopped returns a container of ours, which must not run.
func (r *Runtime) stopped(ctx context.Context, name string) (details, error) {
	d, err := ours(ctx, r, name)
	if err == nil && d.info().State != container.StateStopped {
		err = fmt.Errorf("%w: it is %s; stop it first", container.ErrBusy, d.info().State)
	}
	return d, err
}

// Rename implements container.Renamer.
func (r *Runtime) Rename(ctx context.Context, name, to string, id container.CTID) error {
	if err := container.CheckName(to); err != nil {
		return fmt.Errorf("podman rename %q: %w", name, err)
	}
	return r.change(ctx, "rename", name, r.cfg.Query, func(ctx context.Context) error {
		r.making.Lock()
		defer r.making.Unlock()
		switch l, err := r.byCTID(ctx, id); {
		case err != nil:
			return err
		case l != nil && l.name() == to:
			return nil
		}
		d, err := r.stopped(ctx, name)
		switch {
		case err != nil:
			return err
		case d.ctid() != id:
			return container.ErrNotFound
		}
		switch _, err := r.inspect(ctx, to); {
		case err == nil:
			return fmt.Errorf("%w: the name %s is taken", container.ErrExists, to)
		case !errors.Is(err, container.ErrNotFound):
			return err
		}
		return r.post(ctx, d.ID, "rename", url.Values{"name": {to}})
	})
}

// connect gives a container its interface, once its namespace is there.
func connect(id container.CTID, n container.Network, pid int) error {
	return network.Connect(
		network.Cable{Name: cableOf(id), Bridge: n.Bridge, Peer: "eth0", PID: pid},
		network.End{MAC: n.MAC, Address: n.Address, Gateway: n.Gateway, Address6: n.Address6, Gateway6: n.Gateway6})
}
