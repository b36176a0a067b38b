//go:build linux && cgo

package helper

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	golxc "github.com/lxc/go-lxc"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
)

const (
	// askers is how many containers are asked at a time: enough that a few
	// which hang do not hold up the rest.
	askers = 8
	// answerShare is the part of the timeout that containers have to answer;
	// who has not by then is unknown.
	answerShare = 0.75
)

// list asks all containers, each for itself: one whose monitor hangs is listed
// as unknown and hides nobody.
func (h *host) list() ([]container.Info, error) {
	entries, err := os.ReadDir(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	infos := make(map[string]container.Info)
	var names []string
	for _, e := range entries {
		if info, ok := h.base(e.Name()); ok {
			infos[info.Name] = info
			names = append(names, info.Name)
		}
	}
	for info := range h.ask(names, h.answerTime()) {
		infos[info.Name] = info
	}
	out := make([]container.Info, 0, len(infos))
	for _, info := range infos {
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b container.Info) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// base is what the files say; false for what is no container that can be
// addressed, or one that is half made.
func (h *host) base(name string) (container.Info, bool) {
	if container.CheckReference(name) != nil {
		return container.Info{}, false
	}
	if _, err := os.Stat(filepath.Join(h.dir(name), "config")); err != nil {
		return container.Info{}, false
	}
	info := container.Info{Name: name, Kind: container.KindLXC, State: container.StateUnknown, Privileged: true}
	r, err := readRecord(h.dir(name))
	if err != nil {
		return info, true // foreign, or as good as: nobody can say whose it is
	}
	info.Shared = r.Tree != ""
	info.CTID, info.Template, info.Digest, info.Privileged, info.IDs = r.CTID, r.Template, r.Digest, r.IDs.Count == 0, r.IDs
	return info, r.State == recordReady
}

// answerTime is how long containers have to answer when that is all that is asked.
func (h *host) answerTime() time.Duration { return time.Duration(float64(h.timeout) * answerShare) }

// ask yields the answers that come in time. Its workers may hang in the library
// for as long as the process lives, which is not long.
func (h *host) ask(names []string, limit time.Duration) func(yield func(container.Info) bool) {
	return func(yield func(container.Info) bool) {
		todo := make(chan string, len(names))
		answers := make(chan container.Info, len(names))
		for _, name := range names {
			todo <- name
		}
		close(todo)
		for range min(askers, len(names)) {
			go func() {
				for name := range todo {
					info, _ := h.describe(name)
					answers <- info
				}
			}()
		}
		over := time.After(limit)
		for range names {
			select {
			case info := <-answers:
				if info.Name != "" && !yield(info) {
					return
				}
			case <-over:
				return
			}
		}
	}
}

// inspect describes one container.
func (h *host) inspect(name string, limit time.Duration) (container.Info, error) {
	if _, err := h.look(name); err != nil {
		return container.Info{}, err
	}
	info, ok := h.base(name)
	if !ok {
		return container.Info{}, fmt.Errorf("%w: %s is half made", container.ErrNotFound, name)
	}
	for answer := range h.ask([]string{name}, limit) {
		info = answer
	}
	return info, nil
}

// seenAfter is the answer to an operation that has ended with err: what it has
// made of the container. That this cannot be told, because another operation has
// removed it meanwhile, is no failure of the operation.
func (h *host) seenAfter(name string, err error) (wire.Answer, error) {
	if err != nil {
		return wire.Answer{}, err
	}
	for info := range h.ask([]string{name}, h.half()) {
		return wire.Answer{Infos: []container.Info{info}}, nil
	}
	return wire.Answer{}, nil
}

// describe asks liblxc; zero if the container has gone meanwhile.
func (h *host) describe(name string) (container.Info, error) {
	info, ok := h.base(name)
	if !ok {
		return container.Info{}, nil
	}
	c, err := h.open(name)
	if err != nil {
		return container.Info{}, err
	}
	defer c.Release()
	ids := c.ConfigItem("lxc.idmap")
	info.Privileged = len(ids) == 0 || ids[0] == ""
	info.State = stateOf(c.State())
	if mac := c.ConfigItem("lxc.net.0.hwaddr"); len(mac) > 0 {
		info.MAC = mac[0]
	}
	if info.State != container.StateRunning && info.State != container.StateFrozen {
		info.Addresses = configured(c)
		return info, nil
	}
	info.InitPID = max(0, c.InitPid())
	if all, err := addressesOf(info.InitPID); err == nil {
		info.Addresses = reachable(all)
	}
	return info, nil
}

// stateOf maps liblxc's states to ours. One that is on its way to frozen has
// not stopped running.
func stateOf(s golxc.State) container.State {
	switch s {
	case golxc.STOPPED:
		return container.StateStopped
	case golxc.STARTING:
		return container.StateStarting
	case golxc.RUNNING, golxc.FREEZING, golxc.THAWED:
		return container.StateRunning
	case golxc.STOPPING, golxc.ABORTING:
		return container.StateStopping
	case golxc.FROZEN:
		return container.StateFrozen
	}
	return container.StateUnknown
}

// configured returns the addresses that the container's configuration gives it.
func configured(c *golxc.Container) []netip.Addr {
	var all []netip.Addr
	for _, key := range []string{"lxc.net.0.ipv4.address", "lxc.net.0.ipv6.address"} {
		for _, text := range c.ConfigItem(key) {
			if p, err := netip.ParsePrefix(text); err == nil {
				all = append(all, p.Addr())
			}
		}
	}
	return reachable(all)
}

// reachable drops the addresses that say nothing outside the container, and sorts.
func reachable(all []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		if a.IsLoopback() || a.IsLinkLocalUnicast() {
			continue
		}
		out = append(out, a.Unmap())
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
