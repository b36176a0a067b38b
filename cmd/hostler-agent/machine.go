package main

import (
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
	return nil
}

// pausable reports whether this machine may be stopped as a whole.
func (c uniqueConfig) pausable() bool {
	return c.Pausable == pausableYes || c.Pausable == pausableAuto && virtual("/")
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
