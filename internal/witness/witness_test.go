package witness

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	for script, want := range map[string]syscall.WaitStatus{"exit 3": 3 << 8, "kill -TERM $$": syscall.WaitStatus(syscall.SIGTERM), "kill -KILL $$": syscall.WaitStatus(syscall.SIGKILL)} {
		cmd := exec.Command("sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, err := Watch(cmd.Process.Pid) // nobody has heard of its end, so it is there
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan struct{})
		go func() { cmd.Wait(); close(heard) }()
		got, err := p.Wait(t.Context(), func() {})
		<-heard
		if err != nil || !got.Known || got.Status != want || got.OOM {
			t.Errorf("%q: %+v, %v, want %v", script, got, err, want)
		}
	}
}

func TestWaitEnds(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	p, err := Watch(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Wait(ctx, func() {})
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Watch(1 << 30); err == nil {
		t.Error("a process that is not there can be watched")
	}
}

func TestParse(t *testing.T) {
	at, group, ok := parse([]byte("6,815,4711000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/lxc.payload.web,task_memcg=/lxc.payload.web,task=dd,pid=12,uid=0\n"))
	if !ok || at != 4711*time.Millisecond || group != "/lxc.payload.web" {
		t.Error(at, group, ok)
	}
	for _, other := range []string{"", ";", "6,1;x", "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,oom_memcg=/x,", "6,1,x,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/x,", "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG"} {
		if _, _, ok := parse([]byte(other)); ok {
			t.Errorf("%q is a kill", other)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("6,815,4711000,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, group, ok := parse(b); ok && len(group) > len(b) {
			t.Error("more comes out than went in")
		}
	})
}
