package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// internalDetail is all that a client learns of a failure inside.
const internalDetail = "the agent failed to answer this request"

// newProblem returns a problem with the status, title and hint of its code.
func newProblem(code, detail string) *api.Problem {
	p := webapi.NewProblem(code, detail)
	if p.Code == api.CodeInternal {
		p.Hint = "the agent's log tells more"
	}
	return p
}

func invalid(format string, args ...any) *api.Problem {
	return newProblem(api.CodeInvalid, fmt.Sprintf(format, args...))
}

// problemOf returns the problem that an error is. What is neither of the
// request nor of the agent's own sentinels is logged and not shown.
func (h *handlers) problemOf(ctx context.Context, err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	for _, known := range []struct {
		err        error
		code, hint string
	}{
		{agent.ErrUnknown, api.CodeNotFound, ""},
		{commands.ErrGone, api.CodeGone, ""},
		{agent.ErrNotYours, api.CodeDenied, "root may; a session that is begun with --shared is for others too"},
		{agent.ErrExists, api.CodeExists, ""},
		{agent.ErrFull, api.CodeUnavailable, "look why the coordinator cannot be reached: curl --unix-socket … /status"},
		{agent.ErrAudit, api.CodeUnavailable, "look what the log of the agent says of its audit log: journalctl -u hostler-agent"},
		{agent.ErrDisk, api.CodeUnavailable, "free space on the file system of the agent's state_dir"},
		{agent.ErrNoMember, api.CodeInvalid, "join a fleet first: hostler-agent join CODE"},
		{relay.ErrNoSession, api.CodeInvalid, "its output can be followed: hostler action logs ID --follow"},
		{relay.ErrNoInput, api.CodeInvalid, "hostler --local sends it by itself"},
		{relay.ErrOtherInput, api.CodeInvalid, "send it again; nothing of it was kept"},
		{relay.ErrNoRoom, api.CodeUnavailable, "free space on the file system of the agent's state_dir, and send it again"},
		{agent.ErrOffline, api.CodeUnavailable, ""},
		{agent.ErrStopped, api.CodeUnavailable, ""},
	} {
		if errors.Is(err, known.err) {
			p := newProblem(known.code, err.Error())
			p.Hint = known.hint
			return p
		}
	}
	if errors.Is(err, protocol.ErrNotApproved) {
		return newProblem(api.CodeDenied, err.Error())
	}
	if errors.Is(err, protocol.ErrTooManySessions) {
		p := newProblem(api.CodeUnavailable, err.Error())
		p.Hint = "hostler action ls --open    # end one: hostler action cancel ID"
		return p
	}
	if _, ok := errors.AsType[protocol.Code](err); ok {
		return newProblem(api.CodeInvalid, err.Error()) // the spec is one that this host does not take
	}
	if ctx.Err() != nil {
		return newProblem(api.CodeTimeout, "the request ended before it was answered")
	}
	h.log.ErrorContext(ctx, "a request failed", "error", err)
	return newProblem(api.CodeInternal, internalDetail)
}
