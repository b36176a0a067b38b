package blob

import "github.com/hostler-io/hostler/internal/space"

// SetDisk makes the disk look as large and as full as a test needs it.
func (s *Store) SetDisk(total, free int64) {
	s.disk = func(string) (space.Space, error) { return space.Space{Total: total, Free: free}, nil }
}
