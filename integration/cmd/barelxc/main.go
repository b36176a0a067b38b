//go:build linux && cgo

// Barelxc does with liblxc alone what a start and an exec cannot do without, a floor for
// package bench:
//
//	barelxc start|exec PATH NAME N
//	barelxc startall PATH PREFIX N
//
// It does it N times with the container NAME below PATH, and prints the milliseconds of
// each, a line each. A start ends when init runs, and an exec of /bin/true when it was
// waited for. Before and after, the container runs. It makes 1,000 starts at most: with each,
// liblxc moves the process that starts the container into the control group of its monitor.
// With startall it starts all stopped containers of that prefix, N at a time, and prints
// nothing.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lxc/go-lxc"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: barelxc start|exec PATH NAME N, or barelxc startall PATH PREFIX N")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "barelxc:", err)
		os.Exit(1)
	}
}

func run(what, path, name, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	if what == "startall" {
		return startAll(path, name, n)
	}
	c, err := lxc.NewContainer(name, path)
	if err != nil {
		return err
	}
	defer c.Release()
	for range n {
		var took time.Duration
		switch what {
		case "start":
			took, err = start(c)
		case "exec":
			took, err = command(c)
		default:
			err = errors.New("want start or exec")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		fmt.Println(float64(took.Microseconds()) / 1000)
	}
	return nil
}

// patience bounds a stop.
const patience = 10 * time.Second

func start(c *lxc.Container) (time.Duration, error) {
	if err := c.Stop(); err != nil {
		return 0, err
	}
	if !c.Wait(lxc.STOPPED, patience) {
		return 0, errors.New("it does not stop")
	}
	begun := time.Now()
	err := c.Start() // as a daemon: it returns when init runs
	return time.Since(begun), err
}

// startAll starts the containers of a prefix, so many at a time.
func startAll(path, prefix string, atOnce int) error {
	names := make(chan string)
	failed := make(chan error)
	for range atOnce {
		go func() { // it ends with the names
			var errs []error
			for name := range names {
				errs = append(errs, startOne(path, name))
			}
			failed <- errors.Join(errs...)
		}()
	}
	for _, name := range lxc.DefinedContainerNames(path) {
		if strings.HasPrefix(name, prefix) {
			names <- name
		}
	}
	close(names)
	var errs []error
	for range atOnce {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

func startOne(path, name string) error {
	c, err := lxc.NewContainer(name, path)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := c.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

func command(c *lxc.Container) (time.Duration, error) {
	options := lxc.DefaultAttachOptions
	options.ClearEnv = true
	begun := time.Now()
	code, err := c.RunCommandStatus([]string{"/bin/true"}, options)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return time.Since(begun), err
}
