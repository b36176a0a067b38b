package agent

import (
	"golang.org/x/sync/errgroup"

	mqtt "github.com/eclipse/paho.mqtt.golang" // want
	"github.com/nobody/knows"                  // want
	"pgregory.net/rapid"                       // want
)

var (
	_ errgroup.Group
	_ mqtt.Client
	_ knows.What
	_ rapid.T
)
