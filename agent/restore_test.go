package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/setting"
)

// archive is the one backup of a host, and none that is reached by others.
type archive struct {
	kept    setting.New
	of      container.CTID
	volumes map[string]container.Layer
	latest  error // why there is no newest one; nil if there is one
	order   *protocol.CreateArgs
}

func (a *archive) Latest(_ context.Context, _ container.CTID, order *protocol.CreateArgs) (containers.Restored, container.Image, error) {
	a.order = order
	return containers.Restored{Kind: container.KindLXC, Name: "nas:db-1", Host: "edge-07", MadeMS: time.Now().Add(-time.Hour).UnixMilli()}, container.Image{}, a.latest
}

func (a *archive) Image(context.Context, string, string) (containers.StoredBackup, error) {
	return containers.StoredBackup{CTID: a.of, Kind: container.KindLXC, Kept: a.kept, Volumes: a.volumes}, nil
}

func (a *archive) Newest(context.Context) (map[container.CTID]containers.GoodBackup, error) {
	return nil, nil
}

// TestMadeOfItsNewestBackup: a unique container that is made anew is made of its newest
// backup, which is told with how old it was; without one it is not made at all, and nothing
// of it is left.
func TestMadeOfItsNewestBackup(t *testing.T) {
	a := &archive{latest: fmt.Errorf("%w: no target of this host has a backup", container.ErrNotFound)}
	in(t, func(c *agent.Config) { c.Backups = a }, func(t *testing.T, w *world) {
		s := creation(1, false)
		args := s.Args.(*protocol.CreateArgs)
		args.Class, args.Data = "unique", "backup"
		args.Restore, args.Epochs = []protocol.HostID{"edge-07"}, []protocol.Epoch{{Counter: 3}}
		w.coord.order(actionID(1), s)
		w.pass(time.Second)
		if all := w.coord.told(actionID(1)); !slices.Contains(all, "fail FAILED error") || w.state(1) != "" {
			t.Errorf("without a backup: %q, and it is %q", all, w.state(1))
		}
		a.latest = nil
		w.coord.order(actionID(2), s)
		w.pass(time.Second)
		if !slices.Equal(a.order.Restore, args.Restore) || !slices.Equal(a.order.Epochs, args.Epochs) {
			t.Errorf("backups of %v under %v count", a.order.Restore, a.order.Epochs)
		}
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
		if want := "backup nas:db-1 of host edge-07, made "; err != nil || !strings.HasPrefix(d.Settings.Restored, want) || !strings.HasSuffix(d.Settings.Restored, "1h0m0s before") {
			t.Errorf("%q, %v: %q", d.Settings.Restored, err, w.coord.told(actionID(2)))
		}
	})
}

// TestRestoreKeeps: a restored container is kept as the one of the backup was, also if the
// agent dies in the middle. Ports that lead elsewhere now, or that a process has, are left
// out.
func TestRestoreKeeps(t *testing.T) {
	net := &wires{listens: map[string]string{"22/tcp": "sshd, process 7"}}
	in(t, func(c *agent.Config) {
		c.Network, c.Limiter = net, &kernel{limits: make(map[int]limit.Limits)}
		c.Backups = &archive{kept: setting.New{
			Class: "cloned", Offline: "keep", Labels: []string{"app=web"}, Limits: []string{"memory=64MiB"}, Env: []string{"A=b"}, Command: []string{"/bin/job"},
			Expose: []string{"22:22/tcp", "53:53/udp", "8080:80/tcp"},
		}}
	}, func(t *testing.T, w *world) {
		first := creation(1, false)
		first.Args.(*protocol.CreateArgs).Expose = []string{"8080:80"}
		w.coord.order(actionID(1), first)
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpCreate)
		s := creation(2, true)
		s.Kind, s.Args = protocol.KindRestore, &protocol.RestoreArgs{Restore: data.Restore{BackupName: data.BackupName{Backup: "b"}, Start: true}}
		w.coord.order(actionID(2), s)
		w.pass(time.Second)
		w.restart()
		w.lxc.Hang("")
		w.pass(time.Minute)
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-2")
		if err != nil || w.state(2) != container.StateRunning {
			t.Fatalf("it is %s, %v: %q", w.state(2), err, w.coord.told(actionID(2)))
		}
		if d.Class != "cloned" || !slices.Equal(d.Labels, []string{"app=web"}) || !slices.Equal(d.Settings.Limits.Strings(), []string{"memory=64MiB"}) || !slices.Equal(d.Settings.Command, []string{"/bin/job"}) {
			t.Errorf("it is kept as %+v", d)
		}
		if got, want := net.lead(), []string{"8080:80/tcp 10.9.0.2", "53:53/udp 10.9.0.3"}; !slices.Equal(got, want) {
			t.Errorf("these lead: %q, want %q", got, want)
		}
	})
}
