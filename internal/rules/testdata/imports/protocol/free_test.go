package protocol

import (
	"os"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/cmd/hostler" // want
)

var (
	_ = os.Exit
	_ broker.Server
	_ hostler.App
)
