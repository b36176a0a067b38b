package podman

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hostler-io/hostler/container"
)

// The pause before a service that was away is asked again: it doubles, up to the last.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
)

// event is what podman tells of a container.
type event struct {
	Action string
	Actor  struct {
		Attributes struct {
			Name string `json:"name"`
		}
	}
}

// entered are the states that a container enters by what podman tells; empty is a
// change that only a fresh list tells of.
var entered = map[string]container.State{
	"start": container.StateRunning, "unpause": container.StateRunning, "pause": container.StateFrozen,
	"died": container.StateStopped, "create": "", "remove": "", "rename": "",
}

// Watch implements container.Watcher. A service that is away is waited for.
func (r *Runtime) Watch(ctx context.Context, ready func(), handle func(container.Event)) error {
	pause, before := firstPause, false
	for {
		connected := func() {
			pause = firstPause
			if before {
				handle(container.Event{}) // it was away, and much may have happened
			} else {
				ready()
			}
			before = true
		}
		err := r.watch(ctx, connected, handle)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.cfg.Log.DebugContext(ctx, "podman's events ended", "err", err)
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch reads events until the service ends them.
func (r *Runtime) watch(ctx context.Context, connected func(), handle func(container.Event)) error {
	words := make([]string, 0, len(entered))
	for w := range entered {
		words = append(words, w)
	}
	filters, err := json.Marshal(map[string][]string{"type": {"container"}, "event": words})
	if err != nil {
		return err
	}
	// Podman reads its log of events from that moment on, so what happens before it
	// has opened it is told, too.
	since := strconv.FormatInt(time.Now().Unix(), 10)
	body, err := r.api.open(ctx, http.MethodGet, "/events", url.Values{"stream": {"true"}, "since": {since}, "filters": {string(filters)}}, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	connected()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("event %.100q: %w", lines.Bytes(), err)
		}
		state, known := entered[e.Action]
		name := e.Actor.Attributes.Name
		switch {
		case !known:
		case state == "" || container.CheckReference(name) != nil:
			handle(container.Event{})
		default:
			handle(container.Event{Name: name, State: state})
		}
	}
	return r.api.explain(ctx, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}
