package agent

import (
	mqtt "github.com/eclipse/paho.mqtt.golang"
	"pgregory.net/rapid"
)

var (
	_ mqtt.Client
	_ rapid.T
)
