package podman_test

import (
	"io"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/cgroup"
	"github.com/hostler-io/hostler/protocol/limit"
)

// TestFirstProcessIsLimited: the first process of a container begins within its limits,
// with an interface and without.
func TestFirstProcessIsLimited(t *testing.T) {
	m := newMachine(t)
	for _, connected := range []bool{true, false} {
		spec := m.specs()
		spec.Command = []string{"/bin/sh", "-c", "grep Cpus_allowed_list /proc/1/status; exec sleep 1000000"}
		if !connected {
			spec.Network = container.Network{}
		}
		if err := m.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		want := limit.Limits{"cpuset": "1", "pids": "77", "memory": "64MiB", "cpu": "50%", "io": "3MiB"}
		files, err := cgroup.Files(want)
		if err != nil {
			t.Fatal(err)
		}
		info, err := m.StartOn(t.Context(), spec.Name, container.Terms{Groups: files})
		if err != nil {
			t.Fatal(err)
		}
		g, err := cgroup.Of(info.InitPID)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.Effective(); err != nil || strings.Join(got.Strings(), " ") != strings.Join(want.Strings(), " ") {
			t.Errorf("in force are %v, %v; want %v", got, err, want)
		}
		if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		if err := m.Log(t.Context(), spec.Name, container.LogQuery{Tail: 10}, &log, io.Discard); err != nil {
			t.Fatal(err)
		}
		if f := strings.Fields(log.String()); len(f) != 2 || f[1] != "1" {
			t.Errorf("the first process saw %q, want processor 1", log.String())
		}
	}
}
