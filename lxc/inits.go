package lxc

import (
	"sync"
	"time"

	"github.com/hostler-io/hostler/runner/rundir"
)

// inits remembers the first processes of containers by pid and start time, which
// name a process for ever: as long as it lives it is that container's init. It may
// be used concurrently.
type inits struct {
	mu    sync.Mutex
	known map[string]initProcess // by name of the container
}

type initProcess struct {
	pid   int
	ticks int64 // its start, as rundir.StartTicks
}

// learn notes that pid was the init of a container, as a process said that was
// asked at that time since boot. A process that is younger may be another one that
// was given the pid meanwhile, so it is not noted, and its start is not told.
func (m *inits) learn(name string, pid int, asked time.Duration) initProcess {
	ticks, ok := rundir.StartedBefore(pid, asked)
	if !ok {
		return initProcess{pid: pid}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = make(map[string]initProcess)
	}
	m.known[name] = initProcess{pid, ticks}
	return m.known[name]
}

// alive returns the init of a container if it is known and lives.
func (m *inits) alive(name string) (p initProcess, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok = m.known[name]; !ok {
		return p, false
	}
	if ticks, err := rundir.StartTicks(p.pid); err != nil || ticks != p.ticks {
		delete(m.known, name)
		return initProcess{}, false
	}
	return p, true
}
