//go:build integration && heavy

package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bootBudget bounds one machine, booted by emulation on a processor with other work: 10 s to
// boot, the faults, and up to three minutes until an idle guard has ended.
const bootBudget = 6 * time.Minute

// TestWatchdogResetsTheMachine boots machines with the kernel of Debian, its watchdog in
// software, and the built guard, for about three minutes. The machine is reset in time, by the
// watchdog or by the guard, whenever a process that is held could live on and one of them was
// asked for, and in no other case.
func TestWatchdogResetsTheMachine(t *testing.T) {
	kernel, disk := newMachine(t)
	const (
		nothing  = ""
		watchdog = "Initiating system reboot" // what the kernel prints
		restart  = "sysrq: Resetting"
	)
	for name, c := range map[string]struct {
		by    string
		state string // the last that is seen of the process that is held
	}{
		"killed":     {watchdog, "S"},   // guard and second process at once
		"unwatched":  {nothing, "S"},    // the same, without the watchdog: the process lives on
		"stopped":    {watchdog, "S"},   // the guard by SIGSTOP
		"unkillable": {watchdog, "D"},   // the process, at its deadline
		"alone":      {nothing, "gone"}, // the guard, whose second process kills and disarms
		"emptied":    {nothing, "S"},    // held for a while, then not held any more
		"undead":     {nothing, "D"},    // the process, at its deadline, with nothing but kills
		"restarted":  {restart, "D"},    // the same, where the guard may restart the machine
		"followed":   {restart, "D"},    // the same by the second process: the guard is killed as well
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := boot(t, kernel, disk, name)
			m := storyOf(t, out)
			if lasted := strings.Contains(out, " lasted\n"); lasted != (c.by == nothing) {
				t.Errorf("the machine lasted: %t", lasted)
			}
			for _, by := range []string{watchdog, restart} {
				if strings.Contains(out, by) != (by == c.by) {
					t.Errorf("the kernel printed %q: %t", by, by != c.by)
				}
			}
			if m.state != c.state {
				t.Errorf("what is held is %s at last, want %s", m.state, c.state)
			}
			asked := !slices.Contains([]string{"unwatched", "undead", "restarted", "followed"}, name)
			if watched := strings.Contains(out, "{Path:/dev/watchdog Armed:true Identity:Software Watchdog Error:}"); watched != asked {
				t.Errorf("the watchdog was armed by the test of the guard: %t", watched)
			}
			if ready := strings.Contains(out, "it can restart the machine: true"); ready != (c.by == restart) {
				t.Errorf("the guard was ready to restart the machine: %t", ready)
			}
			least, most := 5*time.Second, 13*time.Second
			if c.by == restart { // the guard is killed some time after the deadline
				least, most = time.Second, 10*time.Second
			}
			if took := m.last - m.fault; c.by != nothing && (took < least || took > most) {
				t.Errorf("the reset came %s after the fault", took)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// story is what a machine has told of itself.
type story struct {
	fault, last time.Duration // since its boot
	state       string
}

func storyOf(t *testing.T, out string) (m story) {
	t.Helper()
	for _, line := range regexp.MustCompile(`lonely (\d+) (.*)`).FindAllStringSubmatch(out, -1) {
		ms, err := strconv.ParseInt(line[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		at, what := time.Duration(ms)*time.Millisecond, strings.TrimSpace(line[2])
		if what == "fault" {
			m.fault = at
		} else if state, ok := strings.CutPrefix(what, "runs, and what is held is "); ok {
			m.last, m.state = at, state
		}
	}
	if m.fault == 0 {
		t.Fatalf("there was no fault:\n%s", out)
	}
	return m
}

// boot runs one machine until it is reset or switched off, and returns what its console
// showed.
func boot(t *testing.T, kernel, disk, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootBudget)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-m", "768", "-nodefaults", "-nographic", "-no-reboot",
		"-serial", "stdio", "-kernel", kernel, "-initrd", disk, "-append", "console=ttyS0 panic=0 case="+name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the machine: %v (packaging/deps heavy installs qemu-system-x86)\n%s", err, out)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

// newMachine returns a kernel, and the archive with everything of a machine.
func newMachine(t *testing.T) (kernel, disk string) {
	t.Helper()
	dir := t.TempDir()
	tool(t, dir, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "github.com/hostler-io/hostler/integration/cmd/lonely")
	tool(t, dir, "truncate", "-s", "8M", "frozen.ext4")
	tool(t, dir, "mkfs.ext4", "-q", "frozen.ext4")
	debianKernel(t, dir)
	a := &archive{}
	a.add("init", 0o100755, []byte(read(t, filepath.Join(dir, "lonely"))))
	a.add("hostler-agent", 0o100755, []byte(read(t, filepath.Join(os.Getenv("HOSTLER_BIN"), "hostler-agent"))))
	a.add("frozen.ext4", 0o100644, []byte(read(t, filepath.Join(dir, "frozen.ext4"))))
	a.add("bin", 0o040755, nil)
	a.add("bin/sleep", 0o120777, []byte("/init"))
	a.add("bin/writer", 0o120777, []byte("/init"))
	a.add("dev", 0o040755, nil)
	a.add("modules", 0o040755, nil)
	for _, module := range []string{"drivers/watchdog/watchdog.ko", "drivers/watchdog/softdog.ko", "drivers/block/loop.ko"} {
		a.add("modules/"+filepath.Base(module), 0o100644, []byte(read(t, one(t, filepath.Join(dir, "root/lib/modules/*/kernel", module)))))
	}
	a.add("TRAILER!!!", 0, nil)
	disk = filepath.Join(dir, "disk.cpio")
	write(t, disk, a.String())
	return one(t, filepath.Join(dir, "root/boot/vmlinuz-*")), disk
}

// debianKernel unpacks the newest kernel of Debian for virtual machines into root below dir.
// It is not installed.
func debianKernel(t *testing.T, dir string) {
	t.Helper()
	const meta = "linux-image-cloud-amd64"
	fetch := func() error {
		out, err := exec.Command("apt-cache", "depends", "--important", meta).Output()
		if err != nil {
			return err
		}
		_, name, ok := strings.Cut(string(out), "Depends: ")
		if !ok {
			return fmt.Errorf("%s needs no kernel: %s", meta, out)
		}
		cmd := exec.Command("apt-get", "-q", "download", strings.TrimSpace(name))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if fetch() != nil { // the lists may be old, or not there at all
		tool(t, dir, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", "update")
		if err := fetch(); err != nil {
			t.Fatalf("a kernel of Debian is needed: %v", err)
		}
	}
	tool(t, dir, "dpkg-deb", "-x", one(t, filepath.Join(dir, "linux-image-*.deb")), "root")
}

// tool runs a program in a directory.
func tool(t *testing.T, dir string, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = dir
	if argv[0] == "env" {
		cmd.Dir = "" // within the module
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
}

// one is the only file of a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %v, %v", pattern, all, err)
	}
	return all[0]
}

// archive is a cpio archive as kernels unpack at their boot ("newc").
type archive struct {
	bytes.Buffer
	files int
}

func (a *archive) add(name string, mode int, content []byte) {
	a.files++
	pad := func() { a.Write(make([]byte, -a.Len()&3)) }
	fmt.Fprintf(a, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", a.files, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0)
	a.WriteString(name + "\x00")
	pad()
	a.Write(content)
	pad()
}
