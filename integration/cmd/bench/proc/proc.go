// Package proc reads what /proc tells of a process.
package proc

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

// CPU is the processor time that a process and the children that it has waited
// for have used, in milliseconds.
func CPU(pid int) (own, children float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	o, c, err := cpuTicks(string(b))
	return float64(o * tick), float64(c * tick), err
}

// RSS is the resident memory of a process in MB.
func RSS(pid int) (float64, error) { return resident(pid, "VmRSS:") }

// RSSFile is what of it are pages of files, in MB. Of a program that is in the page cache the
// kernel maps the pages around each page that is read, up to 64 KiB, whether they are read or not.
func RSSFile(pid int) (float64, error) { return resident(pid, "RssFile:") }

func resident(pid int, name string) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			kib, err := strconv.ParseFloat(f[1], 64)
			return kib * 1024 / Megabyte, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, name)
}

// Megabyte is what figures in MB are counted in.
const Megabyte = 1e6
