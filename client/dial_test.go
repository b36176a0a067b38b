package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hostler-io/hostler/client"
)

// TestCoordinatorIsBrieflyAway: any request waits for a coordinator that is being
// restarted, and it is said that nobody is there.
func TestCoordinatorIsBrieflyAway(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	s.StartTLS()
	defer s.Close()
	address, ca := s.Listener.Addr().String(), s.Certificate().Raw
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	told := 0
	c, err := client.New(client.Config{Address: "https://" + address, CA: ca, Patience: time.Hour, Away: func(error) {
		told++
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		again := &http.Server{Handler: s.Config.Handler, TLSConfig: s.TLS}
		go func() { _ = again.ServeTLS(l, "", "") }() // until it is closed
		t.Cleanup(func() { _ = again.Close() })
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Post(t.Context(), "/v1/actions", nil, struct{}{}, nil); err != nil {
			t.Error(err)
		}
	}
	if told != 1 {
		t.Errorf("it was told %d times that nobody is there", told)
	}
	hasty, err := client.New(client.Config{Address: "https://127.0.0.1:1", CA: ca})
	if err != nil {
		t.Fatal(err)
	}
	if err := hasty.Get(t.Context(), "/v1/hosts", nil, nil); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("without patience: %v", err)
	}
}
