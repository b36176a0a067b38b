package blob

// SetReserve makes the disk as full as it is when others fill it.
func (s *Store) SetReserve(n int64) { s.reserve = n }
