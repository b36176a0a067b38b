//go:build integration

package integration

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// lease is what the coordinator says of the only unique container.
func (w *world) lease(t testing.TB) (l api.Lease) {
	t.Helper()
	var all []api.Lease
	if out := w.must(t, "lease", "ls", "-o", "json"); json.Unmarshal([]byte(out), &all) != nil || len(all) != 1 {
		t.Fatalf("lease ls: %s", out)
	}
	return all[0]
}

// awaitLease waits until the only unique container stands so.
func (w *world) awaitLease(t testing.TB, what string, ok func(api.Lease) bool) api.Lease {
	t.Helper()
	p := w.start(t, "hostler", "lease", "ls", "--watch", "-o", "json")
	defer p.end(t, kill)
	var found api.Lease
	until(t, &p.out.change, what, func() bool {
		lines := p.out.lines()
		if p.ended() {
			t.Fatalf("hostler lease ls --watch: %s", p.talk)
		}
		found = api.Lease{}
		return len(lines) > 0 && json.Unmarshal([]byte(lines[len(lines)-1]), &found) == nil && ok(found)
	})
	return found
}

// pulseImage makes an image of the program that has a copy tell, every 10 ms, that it runs.
func (w *world) pulseImage(t testing.TB, program string) string {
	t.Helper()
	var system []imagetest.Entry
	for _, dir := range []string{"proc", "sys", "dev", "etc", "run", "tmp", "beats"} {
		system = append(system, imagetest.Entry{Header: tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}})
	}
	system = append(system, imagetest.Entry{Header: tar.Header{Name: "pulse", Mode: 0o755}, Content: read(t, program)})
	write(t, w.path("pulse.tar"), string(imagetest.Layer(t, system...)))
	return "file:" + w.path("pulse.tar")
}

// placed waits until the unique container runs on a host, on which it may not be yet.
func (w *world) placed(t testing.TB, host, name string) {
	t.Helper()
	p := w.start(t, "hostler", "ct", "ls", host, "--filter", "name="+name, "--filter", "state=running", "-o", "name", "--no-headers", "--watch")
	defer p.end(t, kill)
	until(t, &p.out.change, name+" runs on "+host, func() bool {
		if p.ended() {
			t.Fatalf("hostler ct ls --watch: %s", p.talk)
		}
		return slices.Contains(p.out.lines(), host+"/"+name)
	})
}

// pending names, in a refusal, the action of a unique container that has not ended.
var pending = regexp.MustCompile("action ([0-9a-f-]{36}) of unique container [a-z]+ has not ended")

// moves moves a unique container, once the action by which it came to its host has ended.
func (w *world) moves(t testing.TB, from, to, reason string) {
	t.Helper()
	ask := []string{"ct", "move", from, to, "--reason", reason, "--wait", "2m", "--yes"}
	for range 100 {
		r := w.cli(t, ask...)
		waits := pending.FindStringSubmatch(r.stderr)
		if waits == nil {
			r.exits(t, 0)
			return
		}
		w.must(t, "action", "wait", waits[1])
	}
	t.Fatalf("an action of %s ends, and is still waited for", from)
}

// settled waits until the coordinator has taken the end of the action that made the only
// unique container on a host. Before that the container does not leave the host, and no plan
// names it.
func (w *world) settled(t testing.TB, host string) {
	t.Helper()
	all := show[[]api.Action](t, w, "action", "ls", host)
	i := slices.IndexFunc(all, func(a api.Action) bool { return a.Kind == "container.create" })
	if i < 0 {
		t.Fatalf("host %s has created nothing: %+v", host, all)
	}
	w.must(t, "action", "wait", all[i].ID)
	made := w.action(t, all[i].ID)
	w.awaitLease(t, "the end of its creation is taken", func(l api.Lease) bool { return made.EndedAt != nil && !l.ChangedAt.Before(*made.EndedAt) })
}

// alive reports whether a process is there, as more than a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// guards are the processes of the guard of a host: the first one, and the one that
// follows it.
func (h *host) guards(t testing.TB) (all []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var first int
	parents := map[int]int{}
	for _, name := range dirs {
		b, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(b), "\x00guard\x00") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if strings.Contains(string(b), h.socket()+"-guard") {
			first = pid
		} else if stat, err := os.ReadFile(filepath.Join(filepath.Dir(name), "stat")); err == nil {
			fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	if first == 0 {
		t.Fatal("there is no guard")
	}
	all = []int{first}
	for pid, parent := range parents {
		if parent == first {
			all = append(all, pid)
		}
	}
	return all
}

// told wants that the first process of a unique container is told an epoch.
func told(t testing.TB, init int, epoch string) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", init)
	if env, err := containertest.Environ(init, container.EpochVariable); err != nil || !slices.Contains(env, "HOSTLER_EPOCH="+epoch) {
		t.Errorf("its first process has %q, %v, want HOSTLER_EPOCH=%s", env, err, epoch)
	}
	if got := read(t, proc+"/root/etc/hostler/epoch"); got != epoch+"\n" {
		t.Errorf("/etc/hostler/epoch says %q, want %s", got, epoch)
	}
}

// TestUniqueInPodman: a container of podman is unique as one of LXC is. When its host hears no
// coordinator, it is dead before the lease can be over for anybody; nobody starts it by
// hand; and it runs again when the coordinator is back. The death of its monitor is its death,
// also while the agent is stopped.
func TestUniqueInPodman(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+"[lease]\nmin_self_fence = \"guard\"\nttl_seconds = 15\nkill_seconds = 2\nmargin_seconds = 1\n")
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	s := podmantest.Start(t)
	h := w.newHost(t, "edge-01", false)
	write(t, h.config(), read(t, h.config())+"[podman]\nuse = \"on\"\nsocket = \""+s.Socket+"\"\n[unique]\nguard = true\npausable = \"no\"\n")
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", h.name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	w.must(t, "ct", "create", "edge-01/db", podmantest.Image, "--class", "unique", "--data", "none", "--start")
	first := w.lease(t)
	if first.Host != "edge-01" || first.Phase != "held" || first.LeftMS <= 0 {
		t.Fatalf("%+v", first)
	}
	initOf := func() int {
		s.Podman(t, "wait", "--condition", "running", "db") // its event may come before its number is shown
		pid, err := strconv.Atoi(s.Podman(t, "inspect", "--format", "{{.State.Pid}}", "db"))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	pid := initOf()
	told(t, pid, first.Epoch)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)

	monitorDies(t, h, s, fd)
	for end, old := time.Now().Add(time.Minute), pid; pid == old || pid == 0; pid = initOf() { // podman itself is waited for
		if time.Now().After(end) {
			t.Fatal("it is not started again when its monitor has died")
		}
	}
	if fd, err = unix.PidfdOpen(pid, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)

	// A lease that was granted just now lasts for 15 s, and a kill takes 2 s at most.
	w.coordinator.end(t, kill)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 17_000); n != 1 {
		t.Fatalf("it lives 17 s after the coordinator has ended: %v", err)
	}
	if err := s.Try("start", "db"); err == nil {
		t.Error("it is started by hand without a lease")
	}
	started := s.Next(t, "start", "db")
	w.startCoordinator(t)
	started()
	told(t, initOf(), w.lease(t).Epoch)
	w.must(t, "ct", "stop", "edge-01/db", "--grace", "1s")
	if err := s.Try("start", "db"); err == nil {
		t.Error("it is started by hand though its user has stopped it")
	}
	w.must(t, "ct", "rm", "edge-01/db", "--yes")
	if left := s.Podman(t, "secret", "ls", "--quiet"); left != "" {
		t.Errorf("secrets are left: %s", left)
	}
}

// monitorDies kills the monitor of the container db of podman, while the agent is stopped. What
// runs in the container, whose first process is given, is dead long before its lease ends.
func monitorDies(t *testing.T, h *host, s *podmantest.Service, init int) {
	t.Helper()
	monitor, err := strconv.Atoi(s.Podman(t, "inspect", "--format", "{{.State.ConmonPid}}", "db"))
	if err != nil {
		t.Fatal(err)
	}
	h.agent.signal(t, syscall.SIGSTOP)
	if err := unix.Kill(monitor, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(init), Events: unix.POLLIN}}, 3_000); n != 1 {
		t.Errorf("it outlives its monitor for 3 s: %v", err)
	}
	h.agent.signal(t, syscall.SIGCONT)
}

// TestUniqueMoves: a unique container runs on one host. When the agent of that is dead, the
// guard kills it at the end of the lease, and only then another host starts it, under a
// higher epoch. The first host, when it is back, does not start its old copy.
func TestUniqueMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+"[lease]\nmin_self_fence = \"guard\"\nttl_seconds = 15\nkill_seconds = 2\nmargin_seconds = 1\n")
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	a, b := w.newHost(t, "edge-01", false), w.newHost(t, "edge-02", false)
	for _, h := range []*host{a, b} {
		write(t, h.config(), read(t, h.config())+"[unique]\nguard = true\npausable = \"no\"\n")
		p, words := h.join(t, w.invite(t))
		w.must(t, "host", "approve", h.name, "--words", words)
		p.finish(t).exits(t, 0)
		h.start(t)
	}
	w.cli(t, "ct", "create", "edge-01/db", "--template", "busybox", "--data", "none").exits(t, 2, "--class unique")
	w.must(t, "ct", "create", "edge-01/db", "--template", "busybox", "--class", "unique", "--data", "none", "--start")
	w.cli(t, "ct", "set", "edge-01/db", "--class", "pinned").exits(t, 1, "stays unique")
	w.cli(t, "ct", "set", "edge-01/db", "--offline", "keep").exits(t, 1, "keeps the contract of its creation")
	a.local(t, "ct", "set", "db", "--offline", "keep").exits(t, 1, "keeps the contract of its creation")
	w.must(t, "ct", "set", "edge-01/db", "--offline", "lease") // as it is
	first := w.lease(t)
	if first.Host != "edge-01" || first.Phase != "held" || first.SelfFence != "guard" || first.LeftMS <= 0 {
		t.Fatalf("%+v", first)
	}
	pid := a.initPID(t, "db")
	told(t, pid, first.Epoch)
	if out := w.must(t, "ct", "config", "ls", "edge-01/db"); !strings.Contains(out, first.Epoch) {
		t.Errorf("ct config ls: %s", out)
	}

	a.agent.end(t, kill)
	gone := w.awaitLease(t, "edge-02 holds it", func(l api.Lease) bool { return l.Host == "edge-02" && l.Phase == "held" })
	if alive(pid) {
		t.Fatalf("it still runs on edge-01 when edge-02 is to start it: %+v", gone)
	}
	w.placed(t, "edge-02", "db")
	second := w.lease(t)
	if second.Epoch == first.Epoch || second.CTID != first.CTID {
		t.Errorf("first %+v, then %+v", first, second)
	}
	told(t, b.initPID(t, "db"), second.Epoch)
	if out, err := exec.Command("lxc-start", "-P", a.path("lxc"), "-n", "db").CombinedOutput(); err == nil {
		t.Errorf("the copy with the old epoch is started by hand on edge-01: %s", out)
	}

	a.start(t)
	w.container(t, "edge-01/db", "is kept, and stays stopped", func(c ct) bool { return c.State == "stopped" && c.Intended == "running" && c.Waits != "" })
	if got := b.initPID(t, "db"); got <= 0 || !alive(got) {
		t.Error("it does not run on edge-02")
	}

	// The guard of a host is dead, and so is everything that it held; the agent goes on.
	all := b.guards(t)
	if len(all) != 2 {
		t.Fatalf("%d processes guard edge-02", len(all))
	}
	was := b.initPID(t, "db")
	fd, err := unix.PidfdOpen(was, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := syscall.Kill(all[0], kill); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 {
		t.Fatalf("what the guard held lives on: %v", err)
	}
	w.container(t, "edge-02/db", "runs again", func(c ct) bool { return c.State == "running" })

	w.settled(t, "edge-02")

	// What can leave a drained host starts on another one, and what is in its way is said.
	w.must(t, "placement", "set", "db", "-l", "host=edge-02")
	w.must(t, "host", "drain", "edge-02")
	plan := w.start(t, "hostler", "placement", "plan", "--watch")
	until(t, &plan.out.change, "edge-01 has told what it has, and db wants another host", func() bool {
		return strings.Contains(plan.out.String(), "edge-01: it wants host edge-02")
	})
	plan.end(t, kill)
	w.must(t, "placement", "set", "db")
	w.awaitLease(t, "edge-01 holds it", func(l api.Lease) bool { return l.Host == "edge-01" && l.Phase == "held" })
	w.container(t, "edge-01/db", "runs", func(c ct) bool { return c.State == "running" })
	w.container(t, "edge-02/db", "is stopped", func(c ct) bool { return c.State == "stopped" })
	w.must(t, "host", "undrain", "edge-02")
	if out := w.must(t, "why", "db"); !strings.Contains(out, "host edge-02 can take it") {
		t.Errorf("why db: %s", out)
	}

	// A person moves it: not to a host that takes nothing, and then to that and no other one.
	third := w.lease(t)
	w.must(t, "host", "drain", "edge-02", "--cordon")
	w.cli(t, "ct", "move", "edge-01/db", "edge-02", "--yes").exits(t, 1, "host edge-02 cannot take it: it is cordoned")
	w.must(t, "host", "undrain", "edge-02")
	w.cli(t, "ct", "move", "edge-02/db", "edge-01", "--yes").exits(t, 1, "host edge-01 holds the container now")
	if got := a.initPID(t, "db"); !alive(got) || w.lease(t).Epoch != third.Epoch {
		t.Error("what was refused has stopped it")
	}
	w.moves(t, "edge-01/db", "edge-02", "new disks")
	w.container(t, "edge-02/db", "runs", func(c ct) bool { return c.State == "running" })
	w.container(t, "edge-01/db", "is stopped", func(c ct) bool { return c.State == "stopped" })
	fourth := w.lease(t)
	if fourth.Host != "edge-02" || fourth.Epoch == third.Epoch || fourth.Move != nil || fourth.Moved == nil || fourth.Moved.Reason != "new disks" || fourth.Moved.Dropped != "" {
		t.Errorf("first %+v, then %+v", third, fourth)
	}
	told(t, b.initPID(t, "db"), fourth.Epoch)

	// What starts after it waits until its host tells that it runs, and stays where it runs.
	w.must(t, "ct", "stop", "edge-02/db")
	w.container(t, "edge-02/db", "is stopped", func(c ct) bool { return c.State == "stopped" })
	web := []string{"ct", "create", "--place", "-l", "host=edge-01", "web", "--template", "busybox", "--class", "unique", "--data", "none", "--after", "db", "--start"}
	w.cli(t, web...).exits(t, 1, "it waits for db, after which it starts")
	w.must(t, "ct", "start", "edge-02/db")
	w.container(t, "edge-02/db", "runs", func(c ct) bool { return c.State == "running" })
	for end := time.Now().Add(patience); ; elapse(t, 100*time.Millisecond) { // what starts after it waits for the newest inventory of its host
		r := w.cli(t, web...)
		if r.code == 0 {
			break
		}
		if r.exits(t, 1, "it waits for db, after which it starts"); time.Now().After(end) {
			t.Fatal("db runs, and web waits for it")
		}
	}
	w.container(t, "edge-01/web", "runs", func(c ct) bool { return c.State == "running" })
	w.cli(t, "placement", "set", "db", "--after", "web").exits(t, 2, "--after: none of these would ever start: db starts after web starts after db")
	w.must(t, "ct", "stop", "edge-02/db")
	w.container(t, "edge-02/db", "is stopped", func(c ct) bool { return c.State == "stopped" })
	w.must(t, "placement", "set", "web", "--after", "db")
	w.must(t, "host", "drain", "edge-01")
	if out := w.cli(t, "placement", "plan").exits(t, 10).stdout; !strings.Contains(out, "it waits for db, after which it starts") {
		t.Errorf("hostler placement plan: %s", out)
	}
	w.must(t, "host", "undrain", "edge-01")
	for _, name := range []string{"edge-02/db", "edge-01/web"} {
		w.must(t, "ct", "stop", name)
		w.must(t, "ct", "rm", name, "--yes")
	}
}
