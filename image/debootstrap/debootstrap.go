// Package debootstrap makes root directories of Debian from its packages, by Debian's
// program of that name.
//
// The program verifies the list of packages by the keys of the distribution, and each
// package by that list. It runs the scripts of the packages as root, so it has a namespace
// of mounts and one of processes: when it ends, or this process does, nothing of it runs
// any more and nothing is mounted.
package debootstrap

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/container"
)

// Request says what is made.
type Request struct {
	// Suite is the release, such as bookworm; see [IsSuite].
	Suite string
	// Mirror is the URL of the archive of packages.
	Mirror string
	// Proxy is the URL of the proxy by which the mirror is reached; empty is none.
	Proxy string
	// Dir becomes the root directory. It is made; its parent is there.
	Dir string
}

// suite is a file of scripts: it leads nowhere else, and is no option.
var suite = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,62}$`)

// IsSuite reports whether a text can be the name of a release.
func IsSuite(s string) bool { return suite.MatchString(s) }

// Error says why there is no root directory, and what may help.
type Error struct {
	Err  error
	Hint string
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is for [errors.Is].
func (e *Error) Unwrap() error { return e.Err }

// searched is where the program finds the others, here and in the root directory.
const searched = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// endGrace is how long its output is waited for when the program was killed.
const endGrace = 2 * time.Second

// Make makes the smallest root directory that boots: the required packages, apt and init.
// It tells each step as the program prints it. Every error is an [*Error]; what was made
// then stays, and the caller removes it.
func Make(ctx context.Context, r Request, told func(string)) error {
	for _, program := range []string{"debootstrap", "gpgv"} {
		if _, err := exec.LookPath(program); err != nil {
			return &Error{fmt.Errorf("%w: %s is not installed on this host", container.ErrUnsupported, program), "install the package " + program + " on the host, and ask for it again"}
		}
	}
	cmd := exec.CommandContext(ctx, "debootstrap", "--variant=minbase", "--force-check-gpg", "--include=init", r.Suite, r.Dir, r.Mirror)
	cmd.Env = []string{searched, "LC_ALL=C", "HOME=/root"}
	if r.Proxy != "" {
		cmd.Env = append(cmd.Env, "http_proxy="+r.Proxy, "https_proxy="+r.Proxy) // it reads them in lower case alone
	}
	cmd.Dir = "/"
	said := &lines{told: told}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = endGrace
	// The first process of a namespace takes the others with it. The kernel kills it when
	// the thread that has started it ends, so that is kept.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		return &Error{context.Cause(ctx), "ask for it again"}
	}
	if err != nil {
		words := said.end(r.Dir)
		return &Error{fmt.Errorf("debootstrap: %w: %s", err, words), hint(words, r)}
	}
	if err := tidy(r.Dir); err != nil {
		return &Error{fmt.Errorf("debootstrap: what it has left: %w", err), "ask for it again"}
	}
	return nil
}

// hint says what may help against what the program has said.
func hint(words string, r Request) string {
	switch {
	case strings.Contains(words, "No such script"):
		return "check the name of the suite; a newer package debootstrap on the host knows newer ones"
	case strings.Contains(words, "eyring"), strings.Contains(words, "unknown key"):
		return "install the package debian-archive-keyring on the host, or a newer one, and ask for it again"
	case strings.Contains(words, "Failed getting release"), strings.Contains(words, "Couldn't download"), strings.Contains(words, "Invalid Release"):
		return fmt.Sprintf("check that the host reaches %s, and that it has %s; images.debootstrap in the host's agent.toml names another mirror", r.Mirror, r.Suite)
	case strings.Contains(words, "noexec or nodev"):
		return "mount the file system of the agent's directory without these options"
	}
	return "mend what it says, and ask for it again"
}

// What a failure tells: so many lines of what was printed and of the log, of no more bytes
// each.
const (
	lastLines = 4
	maxLine   = 300
	maxTail   = 4 << 10
)

// lines tells what is written by lines, and keeps the last ones.
type lines struct {
	told func(string)
	part []byte
	last []string
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		l.part = append(l.part, line[:min(len(line), maxLine-len(l.part))]...)
		if !whole {
			return n, nil
		}
		l.whole()
		p = rest
	}
}

// whole ends a line.
func (l *lines) whole() {
	text := strings.ToValidUTF8(string(bytes.TrimSpace(l.part)), "�")
	l.part = l.part[:0]
	if text == "" {
		return
	}
	l.last = append(l.last, text)
	l.last = l.last[max(0, len(l.last)-lastLines):]
	if l.told != nil {
		l.told(strings.TrimPrefix(text, "I: "))
	}
}

// end is what the program said last, and what the programs that it ran did: they write to
// a log, which goes with the directory.
func (l *lines) end(dir string) string {
	l.whole()
	all := l.last
	if root, err := os.OpenRoot(dir); err == nil {
		defer root.Close()
		if f, err := root.Open("debootstrap/debootstrap.log"); err == nil {
			defer f.Close()
			if i, err := f.Stat(); err == nil && i.Size() > maxTail {
				_, _ = f.Seek(-maxTail, io.SeekEnd) // then it is the beginning that is told
			}
			log := &lines{}
			_, _ = io.Copy(log, io.LimitReader(f, maxTail)) // the rest is said anyway
			log.whole()
			all = slices.Concat(log.last, all)
		}
	}
	return cmp.Or(strings.Join(all, "; "), "it said nothing")
}

// tidy removes what is this host's, or what the next installation of a package fetches
// anew.
func tidy(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	gone := []string{"etc/hostname", "etc/resolv.conf", "var/log/bootstrap.log"}
	for _, pattern := range []string{"var/cache/apt/archives/*.deb", "var/cache/apt/*.bin", "var/lib/apt/lists/*_*"} {
		names, bad := fs.Glob(root.FS(), pattern)
		gone, err = append(gone, names...), errors.Join(err, bad)
	}
	for _, name := range gone {
		if bad := root.Remove(path.Clean(name)); !errors.Is(bad, fs.ErrNotExist) {
			err = errors.Join(err, bad)
		}
	}
	return err
}
