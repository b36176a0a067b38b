// Package actions takes what people ask for: it proposes, approves, denies, cancels and
// expires actions, one by one or as batches, and tells of them. Only what its host reports
// moves an action further.
package actions

import (
	"context"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
)

// Dispatch is the way to hosts. It is safe for concurrent use. What its methods have
// done within a transaction is sent by the function that they return, which is called
// once the transaction is durable.
type Dispatch interface {
	// Number gives order numbers to the actions that wait for a host, as far as it is
	// there and its window goes.
	Number(tx core.Tx, host protocol.HostID) (send func(), err error)
	// NumberNew gives a new action its number before it is inserted, if its host is
	// there and nothing can be waiting in front of it; send is nil if not.
	NumberNew(tx core.Tx, a *core.Action) (send func(), err error)
	// Control gives a control its number.
	Control(tx core.Tx, host protocol.HostID, item protocol.ControlItem) (send func(), err error)
	// Offer is Number in a transaction of its own, and sends.
	Offer(ctx context.Context, host protocol.HostID)
}

// Payloads keeps what actions read. It is safe for concurrent use.
type Payloads interface {
	// Has refuses a spec whose payload the actor has not sent, and notes its use.
	Has(by core.Actor, s *protocol.Spec) error
}

// Policies says what an action needs before it is sent. It is safe for concurrent use.
type Policies interface {
	// Needs returns what must be there before a request is sent, or
	// [core.ErrDenied].
	Needs(tx core.Tx, by core.Actor, host protocol.HostID, spec *protocol.Spec) ([]core.Need, error)
	// CheckDate refuses a policy that was signed in the future.
	CheckDate(spec *protocol.Spec) error
}

// Workloads keeps unique containers on one host. It is safe for concurrent use.
type Workloads interface {
	// Enter notes within the transaction of a request what follows from it. An error that
	// is [core.ErrConflict] or [core.ErrInvalid] refuses the request. Entered follows the transaction.
	Enter(tx core.Tx, a *core.Action, spec *protocol.Spec, wants placement.Wants) error
	Entered(a *core.Action, spec *protocol.Spec, wants placement.Wants)
	// Choose returns the best host for a container that is to be created.
	Choose(ctx context.Context, spec []byte, wants placement.Wants) (protocol.HostID, error)
}

// Config is what a Room is made of. All of it is needed.
type Config struct {
	Approvals *Approvals
	Dispatch  Dispatch
	Payloads  Payloads
	Policies  Policies
	Workloads Workloads
	// Forgotten is the error for an action that is not there: it may have been.
	Forgotten func(id string) error
}

// Room takes requests for actions. All methods are safe for concurrent use.
type Room struct {
	base *core.Base
	cfg  Config
}

// New returns a room.
func New(base *core.Base, cfg Config) *Room { return &Room{base: base, cfg: cfg} }
