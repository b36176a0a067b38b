package coordinator_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
)

// TestStoredIsProduced: what is read is what the command wrote, however much that
// is and whatever it looks like, for each of a hundred who read slowly and for one
// who comes later.
func TestStoredIsProduced(t *testing.T) {
	noise := rand.NewChaCha8([32]byte{1})
	binary := make([]byte, 20<<20)
	_, _ = noise.Read(binary)
	for name, whole := range map[string][]byte{
		"nothing": nil, "one byte": {0}, "no newline": []byte("a\nb"), "one line of 20 MiB": bytes.Repeat([]byte("x"), 20<<20), "binary": binary,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
				begin := make(chan struct{})
				h.Auto(func(h *coordtest.Host, o coordtest.Order) {
					<-begin
					coordtest.Succeed(string(whole))(h, o)
				})
				a := propose(t, f, h)
				var viewers sync.WaitGroup
				for i := range 100 {
					viewers.Go(func() {
						if err := same(t, f, a.ID, whole, time.Duration(i)*time.Millisecond); err != nil {
							t.Errorf("viewer %d: %v", i, err)
						}
					})
				}
				after(time.Second)
				close(begin)
				viewers.Wait()
				f.Restart()
				after(10 * time.Second)
				if err := same(t, f, a.ID, whole, 0); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// same follows a stream, with a pause after each part, and compares it.
func same(t *testing.T, f *coordtest.Fleet, id protocol.ActionID, whole []byte, pause time.Duration) error {
	at := 0
	what := relay.Reading{Action: id, FD: protocol.Stdout, Follow: true}
	span, err := f.Coordinator().Relay().Output.Read(t.Context(), what, func(p []byte) error {
		if at+len(p) > len(whole) || !bytes.Equal(p, whole[at:at+len(p)]) {
			return fmt.Errorf("%d bytes at %d are others", len(p), at)
		}
		at += len(p)
		<-time.After(pause)
		return nil
	})
	if err == nil && (at != len(whole) || span.Next != -1) {
		err = fmt.Errorf("%d bytes came of %d, go on at %d", at, len(whole), span.Next)
	}
	return err
}
