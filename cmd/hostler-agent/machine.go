package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The values of unique.pausable.
const (
	pausableAuto = "auto"
	pausableYes  = "yes"
	pausableNo   = "no"
)

func (c uniqueConfig) check() error {
	if !slices.Contains([]string{pausableAuto, pausableYes, pausableNo}, c.Pausable) {
		return fmt.Errorf("unique.pausable: %q: use auto, yes or no", c.Pausable)
	}
	switch {
	case c.Watchdog == "":
	case !filepath.IsAbs(c.Watchdog):
		return fmt.Errorf("unique.watchdog: %q is not an absolute path", c.Watchdog)
	case !c.Guard:
		return errors.New("unique.watchdog: the guard feeds it, so set unique.guard = true as well")
	}
	if c.Reboot && !c.Guard {
		return errors.New("unique.reboot: the guard restarts the machine, so set unique.guard = true as well")
	}
	return nil
}

// pausable reports whether this machine may be stopped as a whole: a virtual machine is
// paused, and a container is frozen, with the guard in it.
func (c uniqueConfig) pausable() bool {
	return c.Pausable == pausableYes || c.Pausable == pausableAuto && (virtual("/") || inContainer("/"))
}

// inContainer reports whether the agent below root runs in a container, by what the managers
// of containers leave in it.
func inContainer(root string) bool {
	for _, name := range []string{"run/systemd/container", "run/.containerenv", ".dockerenv"} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			return true
		}
	}
	env, err := os.ReadFile(filepath.Join(root, "proc/1/environ"))
	return err == nil && slices.ContainsFunc(strings.Split(string(env), "\x00"), func(v string) bool {
		return strings.HasPrefix(v, "container=") && v != "container="
	})
}

// virtual reports whether the machine below root is a virtual one, by what the kernel and
// the firmware say of it. What nothing says so of counts as a machine of its own.
func virtual(root string) bool {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return ""
		}
		return string(b[:min(len(b), 64<<10)])
	}
	for line := range strings.Lines(read("proc/cpuinfo")) {
		name, flags, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "flags" && slices.Contains(strings.Fields(flags), "hypervisor") {
			return true
		}
	}
	for _, name := range []string{"sys/hypervisor/type", "proc/device-tree/hypervisor/compatible"} {
		if read(name) != "" {
			return true
		}
	}
	firmware := read("sys/class/dmi/id/sys_vendor") + " " + read("sys/class/dmi/id/product_name")
	return slices.ContainsFunc([]string{"QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Bochs", "Parallels", "Virtual Machine", "Amazon EC2", "Google Compute Engine", "OpenStack"}, func(s string) bool {
		return strings.Contains(firmware, s)
	})
}
