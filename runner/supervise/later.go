package supervise

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// maxPath bounds the path of a run directory, in bytes: the kernel takes no more.
const maxPath = 4096

// Await is for a supervisor whose argument is rundir.Later instead of a run
// directory. It waits on standard input for the directory, takes it for Run, and
// makes its log standard error. It returns "" when there will be none.
func Await() (rundir.Dir, error) {
	b, err := io.ReadAll(io.LimitReader(os.Stdin, maxPath))
	if err != nil || len(b) == 0 {
		return "", wrap("reading the run directory", err)
	}
	dir := rundir.Dir(b)
	log, err := os.OpenFile(dir.Path(rundir.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", err
	}
	defer null.Close()
	if err := unix.Dup3(int(null.Fd()), 0, 0); err != nil {
		return "", os.NewSyscallError("dup3", err)
	}
	return dir, os.NewSyscallError("dup3", unix.Dup3(int(log.Fd()), 2, 0))
}
