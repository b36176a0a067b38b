package workloads

import (
	"context"
	"reflect"

	"github.com/hostler-io/hostler/coordinator/core"
)

// agrees fails the test if what the room has kept of hosts is not what is stored.
func (s *stage) agrees() {
	s.Helper()
	kept, err := s.sites.All(context.Background(), s.base)
	if err != nil {
		s.Fatal(err)
	}
	i := 0
	if err := s.store.View(context.Background(), func(tx core.Tx) error {
		return core.EachHost(tx, func(h core.Host) error {
			if i >= len(kept) {
				s.Errorf("host %s is stored, and not kept", h.ID)
				return nil
			}
			if want := siteOf(h); !reflect.DeepEqual(kept[i], want) {
				s.Errorf("of host %s is kept\n%+v, stored is\n%+v", h.ID, kept[i], want)
			}
			i++
			return nil
		})
	}); err != nil {
		s.Fatal(err)
	}
}
