//go:build linux && cgo

package helper

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	golxc "github.com/lxc/go-lxc"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
)

// Times that depend on the request's timeout.
const (
	// overtime is how long after its timeout the process ends itself. The
	// caller kills it at the timeout; this is for when there is no caller left.
	overtime = 2 * time.Second
	// lockShare is the part of the timeout that may be spent waiting for the
	// container's lock, so that "busy" can still be told.
	lockShare = 0.75
)

// Run performs one operation: it reads a request from in and writes an answer
// to out. Starts it performs for as long as each is seen to have brought the container to
// run and there are requests. An error means that there is no answer; every other failure is
// told in the answer. The process must end after Run, and out must not be the standard output
// that templates write to.
func Run(op string, in io.Reader, out io.Writer) error {
	// An operation may leave its thread unfit for others. The first one lives on as long as
	// the process, so none is performed there.
	runtime.LockOSThread()
	requests := bufio.NewReader(in)
	for first := true; ; first = false {
		req, err := wire.ReadRequest(requests)
		if err == io.EOF && !first {
			return nil
		}
		if err != nil {
			return err
		}
		if req.Timeout <= 0 {
			return fmt.Errorf("timeout %v is not positive", req.Timeout)
		}
		answer := perform(op, req)
		raw, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("encoding answer: %w", err)
		}
		if _, err := out.Write(append(raw, '\n')); err != nil || !answer.More {
			return err
		}
	}
}

// perform performs one operation.
func perform(op string, req wire.Request) (answer wire.Answer) {
	end := time.AfterFunc(req.Timeout+overtime, endSelf)
	defer end.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		restoreFileLimit()
		var err error
		if answer, err = dispatch(op, req); err != nil {
			answer = wire.Fail(err)
		}
		answer.Version = wire.Version
	}()
	<-done
	return answer
}

// endSelf kills this process and, if it leads a process group, all of it:
// templates run in the same group.
func endSelf() {
	if unix.Getpgrp() == unix.Getpid() {
		unix.Kill(0, unix.SIGKILL)
	}
	unix.Kill(unix.Getpid(), unix.SIGKILL)
}

func dispatch(op string, req wire.Request) (wire.Answer, error) {
	if !filepath.IsAbs(req.LXCPath) || !filepath.IsAbs(req.LockDir) {
		return wire.Answer{}, fmt.Errorf("paths %q and %q must be absolute", req.LXCPath, req.LockDir)
	}
	h := &host{
		path:     filepath.Clean(req.LXCPath),
		trees:    filepath.Join(req.LXCPath, wire.TreesDir),
		share:    req.Share,
		locks:    req.LockDir,
		program:  req.Helper,
		ids:      req.IDs,
		start:    time.Now(),
		patience: time.Duration(float64(req.Timeout) * lockShare),
		timeout:  req.Timeout,
	}
	if op != wire.OpProbe && op != wire.OpList && op != wire.OpCreate && op != wire.OpDebris {
		if err := container.CheckReference(req.Name); err != nil {
			return wire.Answer{}, err
		}
	}
	switch op {
	case wire.OpProbe:
		return wire.Answer{Liblxc: golxc.Version(), Alone: sharing{h}.alone()}, h.sweepDebris()
	case wire.OpList:
		infos, err := h.list()
		return wire.Answer{Infos: infos}, err
	case wire.OpInspect:
		info, err := h.inspect(req.Name, h.answerTime())
		return wire.Answer{Infos: []container.Info{info}}, err
	case wire.OpDebris:
		debris, err := survey{h, req.Repair}.debris()
		return wire.Answer{Debris: debris}, err
	case wire.OpCreate:
		if req.Create == nil {
			return wire.Answer{}, errors.New("create without a specification")
		}
		return wire.Answer{}, h.create(*req.Create, req.Image)
	case wire.OpDestroy:
		return wire.Answer{}, h.destroy(req.Name)
	case wire.OpRename:
		return wire.Answer{}, naming{h}.rename(req.Name, req.To, req.CTID)
	case wire.OpRehost:
		return wire.Answer{}, naming{h}.rehost(req.Name, req.To, req.CTID)
	case wire.OpClone:
		if req.Create == nil {
			return wire.Answer{}, errors.New("clone without a specification")
		}
		return h.seenAfter(req.Create.Name, cloning{h}.clone(req.Name, *req.Create))
	case wire.OpAdopt:
		return h.seenAfter(req.Name, adopting{h}.adopt(req.Name, req.CTID))
	case wire.OpDisown:
		return wire.Answer{}, adopting{h}.disown(req.Name, req.CTID)
	case wire.OpSnapshot, wire.OpRollback, wire.OpDropSnapshot:
		if req.Snapshot == nil {
			return wire.Answer{}, errors.New(op + " without a snapshot")
		}
		return wire.Answer{}, shooting{h}.shoot(op, req.Name, *req.Snapshot)
	case wire.OpUpgrade, wire.OpExchange, wire.OpExchangeBack, wire.OpEndUpgrade:
		return wire.Answer{}, upgrading{h}.upgrade(op, req)
	case wire.OpFreeze:
		return h.seenAfter(req.Name, freezing{h}.freeze(req.Name))
	case wire.OpUnfreeze:
		return h.seenAfter(req.Name, freezing{h}.thaw(req.Name))
	case wire.OpStart:
		answer, err := h.seenAfter(req.Name, h.startContainer(req.Name, req.Terms))
		answer.More = !h.astray && len(answer.Infos) == 1 && answer.Infos[0].State == container.StateRunning
		return answer, err
	case wire.OpStop:
		return h.seenAfter(req.Name, h.stopContainer(req.Name, req.Grace))
	}
	return wire.Answer{}, fmt.Errorf("unknown operation %.40q", op)
}

// host is the LXC installation that one operation works on.
type host struct {
	path     string // directory of the containers
	trees    string // directory of the files that they share
	share    bool   // new ones share files
	parted   bool   // this thread has a table of mounts of its own
	astray   bool   // this process is not in the control groups that it was in
	locks    string // directory of the locks
	program  string // path of the helper
	ids      container.IDRange
	start    time.Time
	patience time.Duration // for locks
	timeout  time.Duration // of the whole operation
}

func (h *host) dir(name string) string { return filepath.Join(h.path, name) }

// left is the time that remains of the operation, at least one second: less
// cannot be given to liblxc, which counts in whole ones.
func (h *host) left() time.Duration {
	return max(time.Second, h.timeout-time.Since(h.start))
}

// half is the part of it that one of two ways to the same end may take.
func (h *host) half() time.Duration { return max(time.Second, h.left()/2) }

// target is a container held by its lock.
type target struct {
	name   string
	record record // zero if foreign
	lock   *locked
}

func (t *target) foreign() bool { return t.record.CTID == "" }

// acquire locks the container of that name, whatever the state of its record.
func (h *host) acquire(name string) (*target, error) {
	for {
		before, err := h.look(name)
		if err != nil {
			return nil, err
		}
		key := string(before.CTID)
		if key == "" {
			key = name
		}
		l, err := lock(h.locks, key, h.patience)
		if err != nil {
			return nil, err
		}
		// While we waited, the name may have passed to another container.
		now, err := h.look(name)
		if err != nil {
			l.release()
			return nil, err
		}
		if now.CTID == before.CTID {
			return &target{name: name, record: now, lock: l}, nil
		}
		l.release()
	}
}

// acquireReady is acquire for whom a half-made container is not there.
func (h *host) acquireReady(name string) (*target, error) {
	t, err := h.acquire(name)
	if err != nil {
		return nil, err
	}
	if !t.foreign() && t.record.State != recordReady {
		t.lock.release()
		return nil, fmt.Errorf("%w: %s was interrupted while %s", container.ErrNotFound, name, t.record.State)
	}
	if t.record.Renaming {
		if err := h.settle(name); err != nil {
			t.lock.release()
			return nil, err
		}
	}
	return t, nil
}

// look returns the record of a container, zero if it is foreign.
func (h *host) look(name string) (record, error) {
	r, err := readRecord(h.dir(name))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if _, err := os.Stat(filepath.Join(h.dir(name), "config")); err != nil {
		return record{}, fmt.Errorf("%w: no %s in %s", container.ErrNotFound, name, h.path)
	}
	return record{}, nil
}

// open returns liblxc's object of a container. The caller releases it.
func (h *host) open(name string) (*golxc.Container, error) {
	c, err := golxc.NewContainer(name, h.path)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", name, err)
	}
	return c, nil
}
