package prom

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// goMetrics are what the runtime tells of itself, under the names that
// dashboards know.
var goMetrics = [...]struct {
	runtime, name, help string
	counter             bool
}{
	{"/sched/goroutines:goroutines", "go_goroutines", "Number of goroutines that currently exist.", false},
	{"/memory/classes/heap/objects:bytes", "go_memstats_heap_alloc_bytes", "Bytes of heap objects.", false},
	{"/memory/classes/total:bytes", "go_memstats_sys_bytes", "Bytes obtained from the system.", false},
	{"/memory/classes/heap/released:bytes", "go_memstats_heap_released_bytes", "Bytes given back to the system.", false},
	{"/gc/heap/goal:bytes", "go_memstats_next_gc_bytes", "Heap size at which the next collection begins.", false},
	{"/gc/heap/allocs:bytes", "go_memstats_alloc_bytes_total", "Bytes allocated so far.", true},
	{"/gc/cycles/total:gc-cycles", "go_gc_cycles_total", "Collections so far.", true},
}

// system writes the metrics of the Go runtime and of the process.
func (s *Scrape) system() error {
	samples := make([]metrics.Sample, len(goMetrics))
	for i, m := range goMetrics {
		samples[i].Name = m.runtime
	}
	metrics.Read(samples)
	for i, m := range goMetrics {
		value := float64(samples[i].Value.Uint64())
		if m.counter {
			s.Counter(m.name, m.help, value)
		} else {
			s.Gauge(m.name, m.help, value)
		}
	}
	s.GaugeBy("go_info", "1 for the version of Go.", "version", map[string]float64{runtime.Version(): 1})
	if err := s.process(); err != nil {
		return fmt.Errorf("reading /proc/self: %w", err)
	}
	return nil
}

// tick is the unit of times in /proc: USER_HZ is 100 on every architecture that
// Go runs on.
const tick = 10 * time.Millisecond

// process writes what the kernel tells of this process.
func (s *Scrape) process() error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	// The name, which comes second, may hold anything. After it utime and stime
	// are the 12th and 13th field, start, size and pages the 20th to 22nd.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 22 {
		return fmt.Errorf("not a line of /proc/self/stat: %q", stat)
	}
	var n [22]float64
	for i := 11; i < len(n); i++ {
		if n[i], err = strconv.ParseFloat(fields[i], 64); err != nil {
			return err
		}
	}
	boot, err := bootTime()
	if err != nil {
		return err
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	s.Counter("process_cpu_seconds_total", "Processor time of this process in seconds.", (n[11]+n[12])*tick.Seconds())
	s.Gauge("process_start_time_seconds", "When the process started, in seconds since 1970.", boot+n[19]*tick.Seconds())
	s.Gauge("process_virtual_memory_bytes", "Virtual memory in bytes.", n[20])
	s.Gauge("process_resident_memory_bytes", "Resident memory in bytes.", n[21]*float64(os.Getpagesize()))
	s.Gauge("process_open_fds", "Open file descriptors.", float64(len(fds)-1)) // but for that of the listing
	s.Gauge("process_max_fds", "How many there may be.", float64(limit.Cur))
	return nil
}

// bootTime is when the machine started, in seconds since 1970.
func bootTime() (float64, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			return strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	return 0, fmt.Errorf("/proc/stat does not tell when the machine started")
}
