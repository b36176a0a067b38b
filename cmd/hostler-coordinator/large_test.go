package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/protocol"
)

// largeActions is how many actions a large coordinator remembers.
const largeActions = 200_000

// fillLarge has a store remember that many, all of which have ended.
func fillLarge(b *testing.B, path string) {
	b.Helper()
	store, err := sqlstore.Open(b.Context(), sqlstore.Config{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now().UnixMilli()
	spec := []byte(`{"kind":"host.run","argv":["sh","-c","exec /usr/local/bin/refresh --all"]}`)
	for from := 0; from < largeActions; from += 1000 {
		err := store.Update(b.Context(), func(tx core.Tx) error {
			for i := from; i < from+1000; i++ {
				err := tx.Actions.Insert(core.Action{
					ID: protocol.NewActionID(now+int64(i), [10]byte{}), Host: protocol.HostID(fmt.Sprintf("edge-%05d", i%10_000)), Kind: protocol.KindRun,
					Spec: spec, Digest: protocol.Sum(spec), State: protocol.StateDone, Requester: "admin", CreatedMS: now, UpdatedMS: now, EndedMS: now,
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

// watchMemory looks at the most memory that a process has had, until it is asked, and
// returns that in MB. What the kernel tells at its end would be no less than what the
// process had from which it was forked.
func watchMemory(pid int) (peak func() float64) {
	over, most := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		var kib float64
		for {
			select {
			case <-over:
				most <- kib * 1024 / 1e6
				return
			case <-tick.C:
			}
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if _, line, found := bytes.Cut(b, []byte("VmHWM:")); err == nil && found {
				var now float64
				if _, err := fmt.Sscan(string(line), &now); err == nil {
					kib = max(kib, now)
				}
			}
		}
	}()
	return func() float64 { close(over); return <-most }
}

// BenchmarkLargeStore backs up, restores and recovers a coordinator of 200,000 actions
// by the built program, and tells how long each takes, in seconds, and how much memory,
// in MB.
func BenchmarkLargeStore(b *testing.B) {
	bin := builttest.Program(b, "hostler-coordinator")
	p, _ := started(b, 1)
	fillLarge(b, p.state.store())
	info, err := os.Stat(p.state.store())
	if err != nil {
		b.Fatal(err)
	}
	timed := func(name string, args ...string) string {
		b.Helper()
		cmd := exec.Command(bin, append([]string{"--config", p.config}, args...)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		begun := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		peak := watchMemory(cmd.Process.Pid)
		err := cmd.Wait()
		b.ReportMetric(time.Since(begun).Seconds(), name+"_s")
		b.ReportMetric(peak(), name+"_MB")
		if err != nil {
			b.Fatalf("%q: %v\n%s", args, err, out.String())
		}
		return out.String()
	}
	for b.Loop() {
		old := p.key()
		file := field(b, timed("backup", "backup", b.TempDir()), "backup")
		p.wiped()
		timed("restore", "restore", file, "--fleet", p.code())
		request := field(b, timed("request", "recover"), "request")
		timed("recover", "recover", "--ring", p.next(replaced(request, old)))
	}
	b.ReportMetric(float64(info.Size())/1e6, "store_MB")
}
