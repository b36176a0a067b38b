package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/local"
)

// TestDoor: an address that another program has is taken when that program lets go of it.
// Until then each try is told, and the end of the agent ends the tries.
func TestDoor(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	if _, err := local.ListenTLS(t.Context(), address, nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("an address that is taken: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		began, tries := time.Now(), 0
		d := &door{port: port{setting: "http.listen", address: address}, log: slog.New(slog.NewTextHandler(&told, nil)), listen: func(ctx context.Context, address string) (net.Listener, error) {
			if tries++; tries < 10 {
				return nil, syscall.EADDRINUSE
			}
			return local.ListenTLS(ctx, address, nil)
		}}
		d.try(t.Context())
		l, err := d.bind(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if took := time.Since(began); took < time.Minute || took > 10*time.Minute {
			t.Errorf("10 tries took %s", took)
		}
		if n := strings.Count(told.String(), "setting=http.listen address="); n != 10 || l.Addr().String() != address {
			t.Errorf("%s is served, and %d tries are in:\n%s", l.Addr(), n, &told)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		d = &door{port: port{address: address}, log: slog.New(slog.DiscardHandler), listen: func(context.Context, string) (net.Listener, error) { return nil, syscall.EADDRINUSE }}
		_, err = d.bind(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the tries end with %v", err)
		}
	})
}
