package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// tick is the unit of /proc/PID/stat in milliseconds: USER_HZ is 100 on every
// architecture that Go runs on.
const tick = 10

// cpuTicks reads the processor time from a line of /proc/PID/stat: that of the
// process itself, and that of the children that it has waited for.
func cpuTicks(stat string) (own, children int64, err error) {
	// The name, which comes second, may hold anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const first, n = 11, 4 // utime, stime, cutime, cstime after the name
	if len(fields) < first+n {
		return 0, 0, fmt.Errorf("not a line of /proc/PID/stat: %q", stat)
	}
	var ticks [n]int64
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[first+i], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("reading /proc/PID/stat: %w", err)
		}
	}
	return ticks[0] + ticks[1], ticks[2] + ticks[3], nil
}

// cpu is the processor time that a process and the children that it has waited
// for have used, in milliseconds.
func cpu(pid int) (own, children float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	o, c, err := cpuTicks(string(b))
	return float64(o * tick), float64(c * tick), err
}

// usage is the processor time of a fleet so far, in milliseconds.
type usage struct {
	coordinator, agent float64
	commands           float64 // that have ended, with their supervisors
}

func (f *fleet) usage() (usage, error) {
	co, coChildren, err := cpu(f.coordinator)
	if err != nil {
		return usage{}, err
	}
	agent, commands, err := cpu(f.agent)
	return usage{coordinator: co + coChildren, agent: agent, commands: commands}, err
}

func (u usage) minus(v usage) usage {
	return usage{u.coordinator - v.coordinator, u.agent - v.agent, u.commands - v.commands}
}

func (u usage) per(n float64) usage { return usage{u.coordinator / n, u.agent / n, u.commands / n} }

func (u usage) sum() float64 { return u.coordinator + u.agent + u.commands }

// rss is the resident memory of a process in MB.
func rss(pid int) (float64, error) { return resident(pid, "VmRSS:") }

// rssFile is what of it are pages of files, in MB. Of a program that is in the page cache the
// kernel maps the pages around each page that is read, up to 64 KiB, whether they are read or not.
func rssFile(pid int) (float64, error) { return resident(pid, "RssFile:") }

func resident(pid int, name string) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			kib, err := strconv.ParseFloat(f[1], 64)
			return kib * 1024 / megabyte, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, name)
}

// megabyte is what figures in MB are counted in.
const megabyte = 1e6

// size is that of a file in MB.
func size(path string) (float64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / megabyte, nil
}
