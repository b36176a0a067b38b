package supervise

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestAcceptPause: without a descriptor for a connection, taking it fails at once and
// again; one that has gone is no reason to wait.
func TestAcceptPause(t *testing.T) {
	for failure, wait := range map[unix.Errno]bool{unix.EMFILE: true, unix.ENFILE: true, unix.ENOMEM: true, unix.ECONNABORTED: false, unix.EINTR: false} {
		if pause := acceptPause(failure); (pause > 0) != wait {
			t.Errorf("%v: %v", failure, pause)
		}
	}
}
