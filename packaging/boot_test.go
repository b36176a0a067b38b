//go:build heavy

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// machine is a Debian with systemd as PID 1.
type machine struct {
	*testing.T
	dir, name string
	env       []string
}

const script = "../scripts/systemd.sh"

// boot starts a machine with a network of the bridge, or without one.
func boot(t *testing.T, base string, packages []string, name string, net ...string) *machine {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "hostler-machines", base)
	output(t, script, append([]string{"base", root}, packages...)...)
	m := &machine{T: t, dir: t.TempDir(), name: name}
	output(t, script, append([]string{"up", root, m.dir, name}, net...)...)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			for _, look := range []string{"journalctl -b --no-pager -n 60 -u hostler-agent -u hostler-coordinator", "systemctl --no-pager --failed"} {
				out, _ := m.command(ctx, look).CombinedOutput()
				t.Logf("%s: %s\n%s", name, look, out)
			}
		}
		if out, err := exec.CommandContext(ctx, script, "down", m.dir, name).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return m
}

// fullPackages are what containers of LXC need, and what tests look with.
var fullPackages = []string{"liblxc1", "lxc", "busybox-static", "sudo", "procps"}

// full is a machine on which containers can run.
func full(t *testing.T) *machine {
	m := boot(t, "full", fullPackages, "full")
	m.give(dist)
	return m
}

// give copies the packages of a directory into the machine, below /packages.
func (m *machine) give(dir string) {
	m.Helper()
	to := filepath.Join(m.dir, m.name, "root", "packages")
	output(m.T, "mkdir", "-p", to)
	for _, p := range packages() {
		found, err := filepath.Glob(filepath.Join(dir, p.name+"_*_amd64.deb"))
		if err != nil || len(found) != 1 {
			m.Fatalf("%s holds %q", dir, found)
		}
		output(m.T, "cp", found[0], filepath.Join(to, p.name+".deb"))
	}
}

func (m *machine) command(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, script, "run", m.dir, m.name, "--", "bash", "-c", line)
}

// try runs a line of shell.
func (m *machine) try(line string) (string, error) {
	out, err := m.command(m.Context(), line).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// do runs a line of shell, which must succeed, and returns what it printed.
func (m *machine) do(line string) string {
	m.Helper()
	out, err := m.try(line)
	if err != nil {
		m.Fatalf("%s: %s: %v\n%s", m.name, line, err, out)
	}
	return out
}

// until waits for a line of shell to succeed.
func (m *machine) until(line string) string {
	m.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		out, err := m.try(line)
		if err == nil {
			return out
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-deadline:
			m.Fatalf("%s: %s never succeeded: %s", m.name, line, out)
		}
	}
}

// pid is the main process of a service.
func (m *machine) pid(service string) string {
	m.Helper()
	pid := m.do("systemctl show -p MainPID --value " + service)
	if pid == "0" {
		m.Fatalf("%s does not run", service)
	}
	return pid
}

// sleeper starts a command on the host that goes on for long, and returns a check that
// it is the same process still.
func (m *machine) sleeper(how, word string) (alive func()) {
	m.Helper()
	return m.sleeperOn(m, how, word)
}

// sleeperOn is sleeper for a command that is asked for here and runs on another machine.
func (m *machine) sleeperOn(on *machine, how, word string) (alive func()) {
	m.Helper()
	m.do(how + " sleep " + word)
	find := "pgrep -fx 'sleep " + word + "'"
	pid := on.until(find)
	return func() {
		m.Helper()
		if now, err := on.try(find); err != nil || now != pid {
			m.Errorf("sleep %s was %s and is %q: %v", word, pid, now, err)
		}
	}
}

// TestService looks at the agent and the coordinator as services: start, reload, a
// watchdog that ends what hangs, stop, and restart, while a command goes on.
func TestService(t *testing.T) {
	m := full(t)
	m.do("dpkg -i /packages/hostler.deb /packages/hostler-agent.deb /packages/hostler-coordinator.deb </dev/null")
	m.do("systemctl is-active hostler-coordinator && systemctl is-enabled hostler-coordinator")
	m.do("test \"$(systemctl is-enabled hostler-agent)\" = disabled && ! systemctl is-active hostler-agent")
	if out, err := m.try("hostler --local ct ls"); err == nil || !strings.Contains(out, "systemctl enable --now hostler-agent") {
		t.Errorf("before a join it is not said how to start the agent: %v: %s", err, out)
	}
	m.do("systemctl enable --now hostler-agent") // for its own people alone
	if status := m.do("systemctl show -p StatusText --value hostler-coordinator"); !strings.Contains(status, "not part of a fleet") {
		t.Errorf("without a fleet the coordinator says %q", status)
	}
	if next := m.do("journalctl --no-pager -u hostler-coordinator"); !strings.Contains(next, "hostler fleet init NAME --coordinator /var/lib/hostler/coordinator") {
		t.Errorf("the coordinator does not say what to type: %s", next)
	}
	m.do("hostler fleet init demo --coordinator /var/lib/hostler/coordinator >/root/fleet")
	m.until("systemctl show -p StatusText --value hostler-coordinator | grep 'serves fleet demo'")
	m.do("hostler login https://127.0.0.1:8443 <<<\"$(sed -n 's/^token: //p' /root/fleet)\" && hostler host ls")
	if lies := m.do("find /var/lib/hostler -name '*owner*'; stat -c '%U %a' /var/lib/hostler/coordinator /var/lib/hostler/agent"); lies != "hostler-coordinator 700\nroot 700" {
		t.Errorf("state: %q", lies)
	}
	if out, err := m.try("runuser -u hostler-coordinator -- find /var/lib/hostler/coordinator ! -user hostler-coordinator"); err != nil || out != "" {
		t.Errorf("files of others in the coordinator's state: %q, %v", out, err)
	}

	alive := m.sleeper("hostler --local run --no-wait --timeout none --", "1001")
	agent := m.pid("hostler-agent")
	m.do("systemctl reload hostler-agent hostler-coordinator")
	if now := m.pid("hostler-agent"); now != agent {
		t.Errorf("a reload made process %s of %s", now, agent)
	}
	m.do("echo '[sessions]\nparallel = 3' >/etc/hostler/agent.d/50-test.toml && systemctl reload hostler-agent")
	m.do("hostler-agent config show --origin | grep 'sessions.parallel = 3 .*50-test.toml'")
	m.until("journalctl --no-pager -u hostler-agent | grep 'other settings are taken.*sessions.parallel'")
	m.do("echo 'http.listen = \":8444\"' >/etc/hostler/coordinator.d/50-test.toml && systemctl reload hostler-coordinator")
	m.until("journalctl --no-pager -u hostler-coordinator | grep 'take a restart.*http.listen'")
	m.do("rm /etc/hostler/coordinator.d/50-test.toml")
	alive()
	m.do("systemctl restart hostler-agent")
	alive()
	m.do("systemctl stop hostler-agent")
	alive()
	m.do("systemctl start hostler-agent && hostler --local action ls | grep running")
	alive()

	// A command sees the host as it is: what it mounts, all see, and sudo works.
	m.do("hostler --local run -- sh -c 'mkdir -p /mnt/t && mount -t tmpfs none /mnt/t && sudo -u nobody id -un && sudo -n touch /mnt/t/file'")
	m.do("test -e /mnt/t/file && umount /mnt/t")

	// A password comes from systemd, and no user but the service's can read it.
	m.do("umask 077; echo hunter2 >/root/smtp; printf 'notify.mail_server = \"127.0.0.1:25\"\nnotify.mail_from = \"a@example.org\"\n" +
		"notify.mail_to = [\"b@example.org\"]\nnotify.mail_user = \"a\"\nnotify.mail_password_file = \"credential:smtp\"\n' >/etc/hostler/coordinator.d/50-mail.toml; chmod 644 /etc/hostler/coordinator.d/50-mail.toml")
	if _, err := m.try("systemctl restart hostler-coordinator"); err == nil {
		t.Error("the coordinator starts without the password that it is configured to use")
	}
	if log := m.do("journalctl --no-pager -n 20 -u hostler-coordinator"); !strings.Contains(log, "add LoadCredential=smtp:") {
		t.Errorf("it does not say what is missing: %s", log)
	}
	m.do("mkdir -p /etc/systemd/system/hostler-coordinator.service.d && printf '[Service]\nLoadCredential=smtp:/root/smtp\n' >/etc/systemd/system/hostler-coordinator.service.d/smtp.conf && " +
		"systemctl daemon-reload && systemctl reset-failed hostler-coordinator && systemctl restart hostler-coordinator")
	m.until("systemctl show -p StatusText --value hostler-coordinator | grep 'serves fleet demo'")

	// Who hangs is ended and begins anew.
	for _, name := range []string{"hostler-agent", "hostler-coordinator"} {
		m.do(fmt.Sprintf("mkdir -p /run/systemd/system/%[1]s.service.d && printf '[Service]\\nWatchdogSec=3\\nTimeoutAbortSec=1\\n' >/run/systemd/system/%[1]s.service.d/test.conf", name))
	}
	m.do("systemctl daemon-reload && systemctl restart hostler-agent hostler-coordinator")
	for _, name := range []string{"hostler-agent", "hostler-coordinator"} {
		before := m.pid(name)
		m.do("kill -STOP " + before)
		m.until("test \"$(systemctl show -p NRestarts --value " + name + ")\" -ge 1 && systemctl is-active " + name)
		if now := m.pid(name); now == before {
			t.Errorf("%s hangs on as %s", name, now)
		}
		if log := m.do("journalctl --no-pager -u " + name); !strings.Contains(log, "Watchdog timeout") {
			t.Errorf("%s was not ended by the watchdog: %s", name, log)
		}
	}
	alive()
	m.do("hostler host ls")
}
