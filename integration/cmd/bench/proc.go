package main

import (
	"os"

	"github.com/hostler-io/hostler/integration/cmd/bench/proc"
)

// usage is the processor time of a fleet so far, in milliseconds.
type usage struct {
	coordinator, agent float64
	commands           float64 // that have ended, with their supervisors
}

func (f *fleet) usage() (usage, error) {
	co, coChildren, err := proc.CPU(f.coordinator)
	if err != nil {
		return usage{}, err
	}
	agent, commands, err := proc.CPU(f.agent)
	return usage{coordinator: co + coChildren, agent: agent, commands: commands}, err
}

func (u usage) minus(v usage) usage {
	return usage{u.coordinator - v.coordinator, u.agent - v.agent, u.commands - v.commands}
}

func (u usage) per(n float64) usage { return usage{u.coordinator / n, u.agent / n, u.commands / n} }

func (u usage) sum() float64 { return u.coordinator + u.agent + u.commands }

// size is that of a file in MB.
func size(path string) (float64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / proc.Megabyte, nil
}
