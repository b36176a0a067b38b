package metrics

import (
	"context"
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

// TestLogWakes reads the real log of the kernel, into which a test may write.
func TestLogWakes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- watchLog(ctx, "/dev/kmsg", func() {}) }()
	stop()
	if err := <-done; err == nil {
		t.Error("it ended without a reason")
	}
}
