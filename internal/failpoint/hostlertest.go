//go:build hostlertest

package failpoint

import (
	"os"
	"strconv"
	"syscall"
)

// Before dies here if the point before the step is armed.
func Before(s Step) { hit(s.Before()) }

// After dies here if the point after the step is armed.
func After(s Step) { hit(s.After()) }

// Environ is what a process hands on to those that it starts with an
// environment of their own: which points are armed.
func Environ() []string {
	if dir, ok := os.LookupEnv(Variable); ok {
		return []string{Variable + "=" + dir}
	}
	return nil
}

// hit dies if the point is armed and this is the hit that was meant. Only the
// process that renames the file has it.
func hit(point string) {
	dir := os.Getenv(Variable)
	if dir == "" {
		return
	}
	armed := dir + "/" + point
	pid := strconv.Itoa(os.Getpid())
	mine := armed + "." + pid
	if os.Rename(armed, mine) != nil {
		return
	}
	text, err := os.ReadFile(mine)
	if err != nil {
		panic(err)
	}
	if left, _ := strconv.Atoi(string(text)); left > 1 {
		put(mine, strconv.Itoa(left-1))
		rename(mine, armed)
		return
	}
	put(mine, pid)
	rename(mine, armed+".hit")
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // no line of this process runs after its death
}

func put(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		panic(err)
	}
}

func rename(from, to string) {
	if err := os.Rename(from, to); err != nil {
		panic(err)
	}
}
