package main

import (
	"fmt"
	"path/filepath"

	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/fence/devices"
)

// fenceConfig is about fence devices that this host asks for the coordinator.
type fenceConfig struct {
	Devices string `toml:"devices_dir" takes:"reload" does:"The directory of the fence devices that this host asks for the coordinator, which does not reach them: NAME.toml has the program (agent), its params, its secrets (parameter = name of a file in the directory) and, if not all may be switched, the plugs of one device."`
	Agents  string `toml:"agents_dir" takes:"reload" does:"The directory of the programs of fence-agents. Programs elsewhere are never run."`
}

func defaultFence() fenceConfig {
	return fenceConfig{Devices: "/etc/hostler/fence", Agents: agents.Dir}
}

func (c fenceConfig) check() error {
	for name, dir := range map[string]string{"devices_dir": c.Devices, "agents_dir": c.Agents} {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("fence.%s: %q is not an absolute path", name, dir)
		}
	}
	return nil
}

func (c fenceConfig) dir() devices.Dir {
	return devices.Dir{Path: c.Devices, Run: agents.Runner{Dir: c.Agents, Known: new(agents.Descriptions)}}
}
