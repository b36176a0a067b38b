// Barerun is the smallest honest supervisor, a floor for package bench: what it begins
// is durable before the fork, and how that ended is durable before anybody learns of it.
//
//	barerun DIR PROGRAM
//
// DIR must not exist. Its names are start and exit.
package main

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		os.Stderr.WriteString("barerun: " + err.Error() + "\n")
		os.Exit(1)
	}
}

func run(dir, program string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := keep(dir, "start", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	pid, err := syscall.ForkExec(program, []string{program}, nil)
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return err
	}
	return keep(dir, "exit", strconv.Itoa(status.ExitStatus()))
}

// keep writes a file and makes it durable, and its name.
func keep(dir, name, text string) error {
	fd, err := syscall.Open(filepath.Join(dir, name), syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if _, err := syscall.Write(fd, []byte(text)); err != nil {
		return err
	}
	if err := syscall.Fsync(fd); err != nil {
		return err
	}
	d, err := syscall.Open(dir, syscall.O_DIRECTORY|syscall.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(d)
	return syscall.Fsync(d)
}
