package agent

import "os"

func keep(b []byte) error { return os.WriteFile("record", b, 0o600) } // want

func begin() (*os.File, error) { return os.Create("record") } // want

func tell(b []byte) error { return os.WriteFile("/sys/fs/cgroup/cgroup.procs", b, 0) }
