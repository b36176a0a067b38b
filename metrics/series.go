// Package metrics measures a host and its containers and keeps what it measured.
//
// A [Collector] reads the kernel's counters every [Interval] and makes rates of them,
// over the time that has really passed on the boot clock. A [Store] keeps the samples
// in three tiers on the disk: each of the last hour, averages over a minute of the
// last day, and averages over five minutes of the last week. [Read] answers questions
// from the files alone, so that any process may ask, also while the agent is down.
//
// Nothing here is a promise of the agent's: samples are not synced to the disk, and a
// disk that is full or damaged costs samples, and never an action.
package metrics

import (
	"cmp"
	"time"
)

// Interval is the pause between two samples.
const Interval = 15 * time.Second

// Metric names a quantity. The names, units and meanings are in [Metrics].
type Metric string

// What is measured of a host.
const (
	CPU         Metric = "cpu"
	IOWait      Metric = "iowait"
	Steal       Metric = "steal"
	Load1       Metric = "load1"
	Load5       Metric = "load5"
	Load15      Metric = "load15"
	Tasks       Metric = "tasks"
	Memory      Metric = "memory"
	MemoryMax   Metric = "memory_max"
	Swap        Metric = "swap"
	SwapMax     Metric = "swap_max"
	Disk        Metric = "disk"
	DiskMax     Metric = "disk_max"
	Inodes      Metric = "inodes"
	InodesMax   Metric = "inodes_max"
	DiskRead    Metric = "read"
	DiskWritten Metric = "written"
	NetReceived Metric = "received"
	NetSent     Metric = "sent"
	WaitCPU     Metric = "psi_cpu"
	WaitMemory  Metric = "psi_memory"
	WaitIO      Metric = "psi_io"
	OOM         Metric = "oom"
	OOMLimit    Metric = "oom_limit"
	Heat        Metric = "temperature"
	Restarts    Metric = "restarts"
	QueueAge    Metric = "queue_age"
	Certificate Metric = "certificate"
	BackupAge   Metric = "backup_age"
	Broken      Metric = "broken"
	Degraded    Metric = "degraded"
	SpoolLoss   Metric = "spool_loss"
)

// Unit is what a value counts.
type Unit string

// The units of values.
const (
	Percent        Unit = "%"
	Bytes          Unit = "B"
	BytesPerSecond Unit = "B/s"
	Count          Unit = ""
	Celsius        Unit = "°C"
	Seconds        Unit = "s"
)

// Info describes a metric.
type Info struct {
	Metric Metric
	Unit   Unit
	Doc    string
	// Part says what the parts of the metric are; empty is a metric of one part.
	Part string
	// OfHost and OfContainer tell whose metric it is.
	OfHost, OfContainer bool
}

var all = []Info{
	{CPU, Percent, "Time that processors worked; 100 % is one processor.", "", true, true},
	{IOWait, Percent, "Time that processors were idle while disks worked; 100 % is one processor.", "", true, false},
	{Steal, Percent, "Time that the hypervisor gave to other machines; 100 % is one processor.", "", true, false},
	{Load1, Count, "Load average over one minute.", "", true, false},
	{Load5, Count, "Load average over five minutes.", "", true, false},
	{Load15, Count, "Load average over fifteen minutes.", "", true, false},
	{Tasks, Count, "Processes and threads.", "", true, true},
	{Memory, Bytes, "Memory in use: without what the kernel can take back (host), without the inactive part of the page cache (container).", "", true, true},
	{MemoryMax, Bytes, "Memory of the host; the limit of a container, if it has one.", "", true, true},
	{Swap, Bytes, "Swap in use.", "", true, true},
	{SwapMax, Bytes, "Swap of the host; of a container its limit, or the swap of the host if that is less.", "", true, true},
	{Disk, Bytes, "Space in use on a file system; of a container, what its root directory takes.", "mount point", true, true},
	{DiskMax, Bytes, "Size of a file system, without what is reserved for root; the limit of a container, if it has one.", "mount point", true, true},
	{Inodes, Count, "Files in use on a file system; of a container, those in its root directory.", "mount point", true, true},
	{InodesMax, Count, "Files that a file system can hold.", "mount point", true, false},
	{DiskRead, BytesPerSecond, "Bytes read from disks.", "disk", true, true},
	{DiskWritten, BytesPerSecond, "Bytes written to disks.", "disk", true, true},
	{NetReceived, BytesPerSecond, "Bytes received on a network interface.", "interface", true, true},
	{NetSent, BytesPerSecond, "Bytes sent on a network interface.", "interface", true, true},
	{WaitCPU, Percent, "Time in which some task waited for a processor (PSI).", "", true, true},
	{WaitMemory, Percent, "Time in which some task waited for memory (PSI).", "", true, true},
	{WaitIO, Percent, "Time in which some task waited for a disk (PSI).", "", true, true},
	{OOM, Count, "Processes that the kernel has killed for want of memory since the sample before; those of the host include those of its containers.", "", true, true},
	{OOMLimit, Count, "How often the container has wanted more memory than its limit leaves it, since the sample before, so that a process had to be killed. Where it is 0 and oom is not, the memory of the host was used up.", "", false, true},
	{Heat, Celsius, "Temperature of a thermal zone.", "zone", true, false},
	{Restarts, Count, "How often the container has ended and runs again, within the last hour.", "", false, true},
	{Broken, Count, "1 while the host does not start the container any more, because its start has failed too often; 0 else.", "", false, true},
	{Degraded, Count, "1 while the host accepts nothing new; 0 else.", "", true, false},
	{QueueAge, Seconds, "How long something has waited for the coordinator's receipt; 0 if nothing waits.", "", true, false},
	{SpoolLoss, Count, "Lines of samples for the database of measurements that were lost from the spool within the last hour, or since the agent was started or reloaded; 0 if samples stay on the host.", "", true, false},
	{BackupAge, Seconds, "Time since the newest backup was made that is known to be good; ten years if there is none.", "", false, true},
	{Certificate, Seconds, "Time until the date at which the host's TLS certificate ends.", "", true, false},
}

// Metrics returns all metrics, in the order in which people read them. The caller must
// not change them.
func Metrics() []Info { return all }

// InfoOf describes a metric; false for one that is not known.
func InfoOf(m Metric) (Info, bool) {
	for _, i := range all {
		if i.Metric == m {
			return i, true
		}
	}
	return Info{}, false
}

// Series is what is measured again and again.
type Series struct {
	// Container is its name; empty is the host.
	Container string
	Metric    Metric
	// Part is a mount point, a disk, an interface or a zone; empty where a metric has
	// one part only.
	Part string
}

func order(a, b Series) int {
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(rank(a.Metric), rank(b.Metric)),
		cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Part, b.Part))
}

func rank(m Metric) int {
	for n, i := range all {
		if i.Metric == m {
			return n
		}
	}
	return len(all)
}

// Value is what a series was over the time of its sample: on average, and at most. In
// a sample that was just taken, both are the same.
type Value struct {
	Series
	Mean, Max float64
}

// Sample is what was measured at one time.
type Sample struct {
	// At is the wall clock's time at the end of the sample. People read it; nothing is
	// decided by it.
	At time.Time
	// Span is how much time the sample covers, by the boot clock.
	Span   time.Duration
	Values []Value
}
