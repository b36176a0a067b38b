package agent

import (
	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/coordinator" // want
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/action"
)

var (
	_ errgroup.Group
	_ queue.Queue
	_ coordinator.Coordinator
	_ protocol.HostID
	_ action.State
)
