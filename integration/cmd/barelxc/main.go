//go:build linux && cgo

// Barelxc does with liblxc alone what a start and an exec cannot do without, a floor for
// package bench:
//
//	barelxc start|exec PATH NAME N
//
// It does it N times with the container NAME below PATH, and prints the milliseconds of
// each, a line each. A start ends when init runs, and an exec of /bin/true when it was
// waited for. Before and after, the container runs. No more than 1,000 starts: liblxc
// moves whoever starts a container into the control group of its monitor.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/lxc/go-lxc"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: barelxc start|exec PATH NAME N")
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
