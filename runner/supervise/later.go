package supervise

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// maxPath bounds the path of a run directory, in bytes: the kernel takes no more.
const maxPath = 4096

// Self is what a supervisor knows of itself and of its machine before it knows what to
// run. It stays so for as long as the process lives.
type Self struct {
	ticks int64 // when the process started
	boot  string
}

func look() (*Self, error) {
	ticks, err := rundir.StartTicks(os.Getpid())
	if err != nil {
		return nil, err
	}
	boot, err := rundir.Boot()
	if err != nil {
		return nil, wrap("reading the boot id", err)
	}
	return &Self{ticks, boot}, nil
}

// Await is for a supervisor whose argument is rundir.Later instead of a run
// directory. It does what can be done without one, waits on standard input for the
// directory, takes it and self for Run, and makes its log standard error. It returns ""
// when there will be none.
func Await() (dir rundir.Dir, self *Self, err error) {
	if self, err = look(); err != nil {
		return "", nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", nil, err
	}
	defer null.Close()
	b, err := io.ReadAll(io.LimitReader(os.Stdin, maxPath))
	if err != nil || len(b) == 0 {
		return "", nil, wrap("reading the run directory", err)
	}
	dir = rundir.Dir(b)
	log, err := os.OpenFile(dir.Path(rundir.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", nil, err
	}
	defer log.Close()
	if err := unix.Dup3(int(null.Fd()), 0, 0); err != nil {
		return "", nil, os.NewSyscallError("dup3", err)
	}
	return dir, self, os.NewSyscallError("dup3", unix.Dup3(int(log.Fd()), 2, 0))
}
