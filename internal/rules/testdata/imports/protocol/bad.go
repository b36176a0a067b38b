package protocol

import (
	"errors"
	"net"      // want
	"net/http" // want
	"net/netip"
	"os" // want

	"golang.org/x/sync/errgroup" // want

	"github.com/hostler-io/hostler/container" // want
)

var (
	_ = errors.New
	_ net.Conn
	_ http.Handler
	_ netip.Addr
	_ = os.Exit
	_ errgroup.Group
	_ container.Kind
)
