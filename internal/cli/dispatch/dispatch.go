// Package dispatch asks hosts for actions and follows them to their end: it makes
// the spec and its id, sends the input, asks again when an answer is lost, passes
// output on, and turns how an action ended into an exit code.
package dispatch

import (
	"time"

	"github.com/hostler-io/hostler/internal/cli/conn"
)

// Dispatcher asks for actions and follows them.
type Dispatcher struct {
	*conn.Env
	Look time.Duration // how long a daemon is looked at
	Tail time.Duration // how long the rest of an output may stand still
	// Silent is how long a host may take to acknowledge an order before it is named.
	Silent time.Duration
	Away   time.Duration // how long a host that was there may be away before it counts as offline
}

// New returns a Dispatcher with the times that are right outside of tests.
func New(e *conn.Env) *Dispatcher {
	return &Dispatcher{Env: e, Look: daemonLook, Tail: tail, Silent: silent, Away: away}
}

// away is how long a host that was there may be away before it counts as offline: an
// agent that is restarted, or a line that is switched, takes less.
const away = 10 * time.Second

// silent is how long a host may take to acknowledge an order before it is named: 2 s on
// a line of 9.6 kbit/s.
const silent = 3 * time.Second

// daemonLook is how long a daemon is looked at before it is left alone: what
// cannot begin is found out by then.
const daemonLook = time.Second
