// Package relay carries bytes between people and hosts: the output of commands
// up, what they read down, and what people type in sessions. It keeps output and
// payloads in files, and decides which of them are kept. It knows nothing of what
// a host says beside them.
package relay

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/spread"
	"github.com/hostler-io/hostler/protocol"
)

// Receipts is where hosts are asked for output. It is safe for concurrent use, and
// never waits for the store.
type Receipts interface {
	// Credit asks for output with the next receipt to a host.
	Credit(host protocol.HostID, cr protocol.Credit)
	// Send sends a receipt now, and SendOwed if there is something new to tell.
	Send(host protocol.HostID)
	SendOwed(host protocol.HostID)
}

// Wire signs and publishes messages. It is safe for concurrent use.
type Wire interface {
	Header(t protocol.Type, to protocol.Party) protocol.Header
	// PublishWith publishes a message with bytes behind it. What the broker cannot
	// take is lost, and no error.
	PublishWith(t protocol.Topic, body any, attachment []byte) error
}

// Config is what a Room is made of. All of it is needed.
type Config struct {
	Wire     Wire
	Receipts Receipts
	// Action returns an action, or [core.ErrNotFound].
	Action func(context.Context, protocol.ActionID) (core.Action, error)
	// Lets is nil if the policies let a person begin the same action without an
	// approval, else [core.ErrDenied].
	Lets func(ctx context.Context, by core.Actor, a core.Action) error
	// Start runs a function on a goroutine that the process waits for in the end. It
	// reports false when nothing begins any more.
	Start func(func()) bool
	// OutputDir is where output is kept, one directory per action. OutputTotal is how
	// much of it is kept of actions that have ended, in bytes on the disk, and
	// OutputAge for how long.
	OutputDir   string
	OutputTotal int64
	OutputAge   time.Duration
	// PayloadDir is where payloads are kept until their actions have ended, and
	// MaxPayload the largest that is taken, in bytes.
	PayloadDir string
	MaxPayload int64
}

// Room is the relay. All methods of its parts are safe for concurrent use.
type Room struct {
	Output    *Outputs
	Input     *Inputs
	Payloads  *Payloads
	Terminals *Terminals
}

// New opens the files of a relay.
func New(base *core.Base, cfg Config) (*Room, error) {
	if err := os.MkdirAll(cfg.OutputDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for output: %w", err)
	}
	spread.Children(cfg.OutputDir)
	payloads, err := openPayloads(base, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the payloads: %w", err)
	}
	outputs := &Outputs{base: base, cfg: cfg, pressed: make(chan struct{}, 1), reserve: durable.Reserve(cfg.OutputDir + "-reserve")}
	return &Room{
		Output: outputs, Payloads: payloads,
		Input:     &Inputs{base: base, cfg: cfg, payloads: payloads},
		Terminals: &Terminals{base: base, cfg: cfg, outputs: outputs},
	}, nil
}
