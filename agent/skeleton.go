package agent

import (
	"context"
	"io"

	"github.com/hostler-io/hostler/protocol"
)

func (a *Agent) status() Status          { return Status{Host: a.cfg.Host} }
func (a *Agent) trigger()                {}
func (a *Agent) heartbeatNow() error     { return ErrOffline }
func (a *Agent) containers() []Container { return nil }
func (a *Agent) propose(context.Context, protocol.ActionID, []byte, string) (Action, error) {
	return Action{}, ErrDisk
}
func (a *Agent) waitAction(context.Context, protocol.ActionID) (Action, error) {
	return Action{}, ErrUnknown
}
func (a *Agent) cancelLocal(context.Context, protocol.ActionID) (Action, error) {
	return Action{}, ErrUnknown
}
func (a *Agent) output(context.Context, protocol.ActionID, protocol.FD, int64, bool) (io.ReadCloser, error) {
	return nil, ErrUnknown
}
