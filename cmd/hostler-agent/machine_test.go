package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPausable: what kernel, firmware and managers of containers say of a machine decides whether it counts
// as one that can be paused, unless its owner says otherwise.
func TestPausable(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       bool
	}{
		"nothing is known":           {"proc/version", "Linux", false},
		"a machine of its own":       {"proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme vmx\nmodel name\t: hypervisor\n", false},
		"a processor that is lent":   {"proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n", true},
		"firmware of a hypervisor":   {"sys/class/dmi/id/sys_vendor", "QEMU\n", true},
		"firmware of a machine":      {"sys/class/dmi/id/sys_vendor", "LENOVO\n", false},
		"Hyper-V":                    {"sys/class/dmi/id/product_name", "Virtual Machine\n", true},
		"a hypervisor of the kernel": {"sys/hypervisor/type", "xen\n", true},
		"a device tree":              {"proc/device-tree/hypervisor/compatible", "linux,kvm\x00", true},
		"a container of podman":      {"run/.containerenv", "", true},
		"a container with systemd":   {"run/systemd/container", "lxc\n", true},
		"a container of LXC":         {"proc/1/environ", "PATH=/bin\x00container=lxc\x00", true},
		"a first process of its own": {"proc/1/environ", "PATH=/bin\x00mycontainer=lxc\x00", false},
	} {
		root := t.TempDir()
		file := filepath.Join(root, c.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := virtual(root) || inContainer(root); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !(uniqueConfig{Pausable: "yes"}).pausable() || (uniqueConfig{Pausable: "no"}).pausable() {
		t.Error("what its owner says does not count")
	}
	if (uniqueConfig{Pausable: "perhaps"}).check() == nil {
		t.Error("perhaps is taken")
	}
}
