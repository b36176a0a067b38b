package podman

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// process is the part of a container's configuration that says how a process of it is
// confined, in the words of the OCI. What is not named here (such as the profile of
// AppArmor and the limits of resources) is handed on as it is.
type process map[string]json.RawMessage

// readConfig reads how the container's first process was confined.
func readConfig(file string) (process, error) {
	b, err := rundir.ReadCapped(file, maxState)
	if err != nil {
		return nil, err
	}
	var c struct{ Process process }
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.Process == nil {
		return nil, fmt.Errorf("%s describes no process", file)
	}
	return c.Process, nil
}

// podmansOwn are variables that say something of the container's first process.
var podmansOwn = []string{"HOME", "HOSTNAME", "TERM", "container"}

// imageEnv are the variables that an image gives to all its commands.
func (p process) imageEnv() (env []string) {
	var all []string
	if json.Unmarshal(p["env"], &all) != nil {
		return nil
	}
	for _, v := range all {
		if name, _, ok := strings.Cut(v, "="); ok && !slices.Contains(podmansOwn, name) {
			env = append(env, v)
		}
	}
	return env
}

// user is who a process is.
type user struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Umask  uint32   `json:"umask"`
	Groups []uint32 `json:"additionalGids,omitempty"`
}

// size is that of a terminal.
type size struct {
	Height int `json:"height"`
	Width  int `json:"width"`
}

// process describes the command to the runtime, in a file that is nowhere on a disk:
// its variables may be secret.
func (l *launcher) process(spec *rundir.Spec) (*os.File, error) {
	p := process{}
	for name, value := range l.config {
		p[name] = value
	}
	var failure error
	set := func(name string, value any) {
		b, err := json.Marshal(value)
		p[name], failure = b, errors.Join(failure, err)
	}
	groups := slices.DeleteFunc(slices.Clone(l.user.Groups), func(g uint32) bool { return g == l.user.GID })
	set("user", user{UID: l.user.UID, GID: l.user.GID, Umask: 0o022, Groups: groups})
	set("args", spec.Argv)
	set("env", supervise.Environ(spec, l.user))
	set("cwd", cmp.Or(spec.Dir, "/"))
	set("terminal", spec.Terminal != nil)
	delete(p, "consoleSize")
	if spec.Terminal != nil {
		set("consoleSize", size{spec.Terminal.Rows, spec.Terminal.Cols})
	}
	if l.user.UID != 0 {
		// As of every program that a user starts who is not root: what may be regained,
		// by a program with the set-user-id bit, stays.
		var caps map[string][]string
		failure = errors.Join(failure, json.Unmarshal([]byte(cmp.Or(string(p["capabilities"]), "{}")), &caps))
		for _, held := range []string{"effective", "permitted", "inheritable", "ambient"} {
			delete(caps, held)
		}
		set("capabilities", caps)
	}
	b, err := json.Marshal(p)
	if err := errors.Join(failure, err); err != nil {
		return nil, fmt.Errorf("describing the command: %w", err)
	}
	fd, err := unix.MemfdCreate("process", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "process")
	if _, err := f.Write(b); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
