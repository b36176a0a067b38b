package brokertest

import (
	"github.com/google/go-cmp/cmp"
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
)

var (
	_ = cmp.Diff
	_ mqtt.Server
	_ listeners.Listener
)
