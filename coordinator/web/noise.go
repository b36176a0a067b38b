package web

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/internal/throttle"
)

// Noise is what an HTTP server says of connections, most of it about strangers: it is
// counted, and at most one line a second goes into the log.
type Noise struct {
	log        *slog.Logger
	begun      time.Time
	lines      throttle.Lines
	handshakes atomic.Uint64
}

// NewNoise returns a Noise for a server that begins now.
func NewNoise(log *slog.Logger) *Noise { return &Noise{log: log, begun: time.Now()} }

// Handshakes returns how many TLS handshakes have failed.
func (n *Noise) Handshakes() uint64 { return n.handshakes.Load() }

// handshakeFailed begins the line of package http about a failed handshake.
const handshakeFailed = "http: TLS handshake error"

// Write implements [io.Writer] for a log.Logger: one call is one line.
func (n *Noise) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte(handshakeFailed)) {
		n.handshakes.Add(1)
	}
	if skipped, ok := n.lines.Pass(time.Since(n.begun)); ok {
		n.log.Warn("trouble with a connection of the API", "more", skipped, "said", fmt.Sprintf("%.200s", bytes.TrimSpace(line)))
	}
	return len(line), nil
}
