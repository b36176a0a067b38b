package lobby

import (
	"net"
	"time"
)

// Listener returns a listener whose connections are strangers in l, for patience at
// most, until [Conn.Known] is called. Whom l turns away is closed.
func (l *Lobby) Listener(inner net.Listener, patience time.Duration) net.Listener {
	return &listener{inner, l, patience}
}

type listener struct {
	net.Listener
	lobby    *Lobby
	patience time.Duration
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		seat, err := l.lobby.Enter(raw, l.patience)
		if err != nil {
			_ = raw.Close() // no caller is left to tell
			continue
		}
		return &Conn{raw, seat}, nil
	}
}

// Conn is a connection of a [Lobby.Listener].
type Conn struct {
	net.Conn
	seat *Seat
}

// Known says that the other end has said who it is: from now on it may stay.
func (c *Conn) Known() { c.seat.Leave() }

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.seat.Leave()
	return c.Conn.Close()
}
