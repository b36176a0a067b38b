package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// Bounds of lists and of waiting, as of the coordinator's API.
const (
	defaultLimit = 100
	maxLimit     = 1000
	maxWait      = 10 * time.Minute
)

const (
	// minPart is how many characters of an action's id name it at least.
	minPart = 4
	// candidates is how many actions are named when a part of an id is that of more
	// than one.
	candidates = 5
)

func (h *handlers) listActions(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := number(q, "limit", defaultLimit, maxLimit)
	if err != nil {
		return err
	}
	states, err := parseStates(q.Get("state"))
	if err != nil {
		return err
	}
	var before uint64
	if id := q.Get("cursor"); id != "" {
		act, err := h.resolve(r.Context(), id)
		if err != nil {
			return err
		}
		before = act.AcceptSeq
	}
	all := []api.Action{}
	if host := q.Get("host"); host != "" && host != string(h.host) {
		return write(w, http.StatusOK, all)
	}
	for act, err := range h.actions(r.Context(), before) {
		if err != nil {
			return err
		}
		if len(all) == int(limit) {
			w.Header().Set(api.NextCursor, all[len(all)-1].ID)
			break
		}
		if len(states) == 0 || slices.Contains(states, act.State) {
			all = append(all, h.actionOf(act))
		}
	}
	return write(w, http.StatusOK, all)
}

// actions yields all actions that were accepted before one, the newest first.
func (h *handlers) actions(ctx context.Context, before uint64) func(yield func(agent.Action, error) bool) {
	return func(yield func(agent.Action, error) bool) {
		for {
			page, err := h.agent.Actions(ctx, before, maxLimit)
			if err != nil {
				yield(agent.Action{}, err)
				return
			}
			for _, act := range page {
				if !yield(act, nil) {
					return
				}
			}
			if len(page) < maxLimit {
				return
			}
			before = page[len(page)-1].AcceptSeq
		}
	}
}

// resolve finds an action by its id, or by a part with which no other begins or ends.
func (h *handlers) resolve(ctx context.Context, ref string) (agent.Action, error) {
	if id, err := protocol.ParseActionID(ref); err == nil {
		return h.agent.Action(ctx, id)
	}
	if len(ref) < minPart || len(ref) > 36 {
		return agent.Action{}, newProblem(api.CodeBadReference, fmt.Sprintf("%.40q is not an action id: give at least its first or last %d characters", ref, minPart))
	}
	var found []agent.Action
	var ids []string
	part := strings.ToLower(ref)
	for act, err := range h.actions(ctx, 0) {
		if err != nil {
			return agent.Action{}, err
		}
		if id := act.ID.String(); strings.HasPrefix(id, part) || strings.HasSuffix(id, part) {
			found, ids = append(found, act), append(ids, id)
		}
	}
	switch len(found) {
	case 0:
		return agent.Action{}, newProblem(api.CodeNotFound, "no action of this host has an id that begins or ends with "+ref)
	case 1:
		return found[0], nil
	}
	if len(ids) > candidates {
		ids = append(ids[:candidates], "and others")
	}
	return agent.Action{}, newProblem(api.CodeAmbiguous, fmt.Sprintf("%s begins or ends the ids %s", ref, strings.Join(ids, ", ")))
}

func (h *handlers) getAction(w http.ResponseWriter, r *http.Request) error {
	wait, err := parseWait(r.URL.Query())
	if err != nil {
		return err
	}
	act, err := h.resolve(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if act, err = h.wait(r.Context(), act, wait); err != nil {
		return err
	}
	return write(w, http.StatusOK, h.wholeAction(act))
}

func (h *handlers) createAction(w http.ResponseWriter, r *http.Request) error {
	wait, err := parseWait(r.URL.Query())
	if err != nil {
		return err
	}
	var n api.NewAction
	if err := read(w, r, &n); err != nil {
		return err
	}
	if n.Host != "" && n.Host != string(h.host) {
		return invalid("this is host %s, not %.70s; other hosts are reached through the coordinator", h.host, n.Host)
	}
	var id protocol.ActionID
	if n.ID != "" {
		if id, err = protocol.ParseActionID(n.ID); err != nil {
			return invalid("id: %s", err)
		}
	}
	spec, err := webapi.Spec(&n, id, func() ([]protocol.Container, error) { return h.told(r.Context()) })
	if err != nil {
		return invalid("%s", err)
	}
	act, err := h.agent.Propose(r.Context(), id, spec, requester(r.Context()))
	if err != nil {
		return err
	}
	return h.answer(w, r, act, wait)
}

func (h *handlers) cancelAction(w http.ResponseWriter, r *http.Request) error {
	wait, err := parseWait(r.URL.Query())
	if err != nil {
		return err
	}
	act, err := h.resolve(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if act, err = h.agent.CancelLocal(r.Context(), act.ID); err != nil {
		return err
	}
	return h.answer(w, r, act, wait)
}

// answer waits if that was asked for, and tells how far the action has come.
func (h *handlers) answer(w http.ResponseWriter, r *http.Request, act agent.Action, wait time.Duration) error {
	act, err := h.wait(r.Context(), act, wait)
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if act.State.Final() {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/v1/actions/"+act.ID.String())
	return write(w, status, h.wholeAction(act))
}

// wait waits for the end of an action, for so long. That the time is over, or
// the agent about to end, is no failure.
func (h *handlers) wait(ctx context.Context, act agent.Action, d time.Duration) (agent.Action, error) {
	if d == 0 || act.State.Final() {
		return act, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	newer, err := h.agent.WaitAction(ctx, act.ID)
	if ctx.Err() != nil || errors.Is(err, agent.ErrStopped) {
		if !newer.ID.IsZero() {
			act = newer
		}
		return act, nil
	}
	return newer, err
}

// told returns the containers as messages name them.
func (h *handlers) told(ctx context.Context) ([]protocol.Container, error) {
	all, err := h.agent.Containers(ctx)
	out := make([]protocol.Container, 0, len(all))
	for _, c := range all {
		out = append(out, c.Container)
	}
	return out, err
}

func (h *handlers) containers(w http.ResponseWriter, r *http.Request) error {
	all, err := h.agent.Containers(r.Context())
	if err != nil {
		return err
	}
	out := make([]api.Container, 0, len(all))
	for _, c := range all {
		out = append(out, webapi.Container(h.host, c.Container))
	}
	return write(w, http.StatusOK, out)
}

// actionOf returns an action without its spec, which lists leave out.
func (h *handlers) actionOf(a agent.Action) api.Action {
	out := api.Action{
		ID: a.ID.String(), Host: string(h.host), State: string(a.State), Reason: string(a.Reason), Detail: a.Detail, Shown: shown(a),
		Requester: a.Requester, Digest: a.Digest.String(), Attempt: a.Attempt, AcceptSeq: a.AcceptSeq, Cancelling: a.Cancelling,
		CancelRefused: !a.Cancelling && !a.State.Final() && strings.HasPrefix(a.Detail, protocol.NotCancelled),
		CreatedAt:     webapi.At(a.CreatedMS), UpdatedAt: webapi.At(max(a.CreatedMS, a.AcceptedMS, a.StartedMS, a.EndedMS)), EndedAt: webapi.Maybe(a.EndedMS),
		Exit: webapi.Exit(a.Exit), Output: webapi.Output(a.Output),
	}
	if spec, err := protocol.DecodeSpec(a.Spec); err == nil {
		out.Session = webapi.Session(&spec, a.Local)
		out.Kind, out.Name, out.Argv = string(spec.Kind), string(spec.Name), spec.Process().Argv
		if !spec.Target.IsZero() {
			out.Target = spec.Target.String()
		}
	}
	return out
}

// wholeAction returns an action with its spec.
func (h *handlers) wholeAction(a agent.Action) api.Action {
	out := h.actionOf(a)
	out.Spec = a.Spec
	return out
}

// shown returns the state as people read it.
func shown(a agent.Action) string {
	switch {
	case a.Cancelling && !a.State.Final():
		return "cancelling"
	case a.State == protocol.StateNew:
		return "queued"
	}
	return strings.ToLower(string(a.State))
}

// parseStates reads a list of states.
func parseStates(s string) ([]protocol.State, error) {
	var states []protocol.State
	for word := range strings.SplitSeq(s, ",") {
		if word == "" {
			continue
		}
		if !slices.Contains(protocol.States(), protocol.State(word)) {
			return nil, invalid("%.40q is no state: want some of %v", word, protocol.States())
		}
		states = append(states, protocol.State(word))
	}
	return states, nil
}

// parseWait reads the wish to wait; none is none.
func parseWait(q url.Values) (time.Duration, error) {
	s := q.Get("wait")
	if s == "" {
		return 0, nil
	}
	d, err := api.ParseDuration(s)
	switch {
	case err != nil:
		return 0, invalid("wait: %s", err)
	case d > maxWait:
		return 0, invalid("wait %s is longer than %s; ask again when it has passed", s, maxWait)
	}
	return d, nil
}

// number reads a whole number from 1 to most.
func number(q url.Values, name string, otherwise, most int64) (int64, error) {
	s := q.Get(name)
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, invalid("%s %.30q: want a number from 1 to %d", name, s, most)
	}
	return n, nil
}
