package metrics

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPressureWakes has tasks wait for processors, and the kernel tell of it.
func TestPressureWakes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	woken := make(chan struct{}, 1)
	var busy sync.WaitGroup
	for range 64 {
		busy.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = n
			}
		})
	}
	done := make(chan error, 1)
	go func() {
		done <- watchPressure(ctx, map[string]string{"/proc/pressure/cpu": "some 1000 2000000\x00"}, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-woken:
	case err := <-done:
		t.Errorf("it ended: %v", err)
	case <-time.After(time.Minute):
		t.Error("nothing was told")
	}
	stop()
	busy.Wait()
	if err := <-done; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestPressureMissing(t *testing.T) {
	err := watchPressure(t.Context(), map[string]string{"/proc/pressure/nothing": "some 1000 2000000\x00"}, func() {})
	if err == nil || !strings.Contains(err.Error(), "/proc/pressure/nothing") {
		t.Errorf("a kernel without pressure: %v", err)
	}
}

func TestKilled(t *testing.T) {
	for record, want := range map[string]bool{
		"3,1234,98765,-;Out of memory: Killed process 4711 (tail) total-vm:1kB, anon-rss:1kB": true,
		"3,1234,98765,-;Memory cgroup out of memory: Killed process 4711 (tail)":              true,
		"6,1234,98765,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)":                 true,
		"6,1234,98765,-;eth0: link becomes ready":                                             false,
		"12,9,9,-;a person wrote: see oom-kill: in the log":                                   false,
		"": false,
	} {
		if killed([]byte(record)) != want {
			t.Errorf("%q: %v, want %v", record, !want, want)
		}
	}
}

// TestLogWakes writes into the real log of the kernel, as root may, what the kernel writes
// when it has killed a process, behind a record that tells of nothing.
func TestLogWakes(t *testing.T) {
	log, err := openLog("/dev/kmsg")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	woken, done := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		done <- watchLog(ctx, log, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	for _, record := range []string{"<13>hostler: a test reads this log\n", "<13>oom-kill:constraint=NONE, which a test of hostler has written\n"} {
		if err := os.WriteFile("/dev/kmsg", []byte(record), 0); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-woken:
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	case <-time.After(time.Minute):
		t.Error("nothing was told")
	}
	stop()
	if err := <-done; err == nil {
		t.Error("it ended without a reason")
	}
}

// TestWatchTells: what cannot be watched is told while the rest is watched.
func TestWatchTells(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	lacks, ended := make(chan error, 2), make(chan struct{})
	go func() {
		defer close(ended)
		watchAll(ctx, func(err error) { lacks <- err },
			func() error { return errors.New("no pressure here") },
			func() error { <-ctx.Done(); return ctx.Err() })
	}()
	select {
	case err := <-lacks:
		if err.Error() != "no pressure here" {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("that a watch has failed is not told while another goes on")
	}
	stop()
	<-ended
	if len(lacks) > 0 {
		t.Errorf("the end of all is told as a failure: %v", <-lacks)
	}
}
