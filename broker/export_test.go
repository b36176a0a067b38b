package broker

import "sync/atomic"

// Leftovers returns how many clients, beside the inline one, and subscriptions
// the library holds.
func (s *Server) Leftovers() (clients int, subscriptions int64) {
	return s.mqtt.Clients.Len() - 1, atomic.LoadInt64(&s.mqtt.Info.Subscriptions)
}
