// Package wire is what package lxc and the program hostler-lxc say to each
// other: requests on the helper's standard input, and an answer to each on its
// standard output, all of them lines of JSON, strict and bounded.
//
// The two sides ship in different packages and may be of different ages for
// the length of an upgrade, so both carry Version and refuse any other.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hostler-io/hostler/container"
)

// Version counts changes of meaning.
//
//	1 (2026-11): create, destroy, rename, start, stop, list, inspect, probe
//	2 (2026-11): unprivileged containers
//	3 (2026-11): containers from images
//	4 (2026-11): freeze, unfreeze
//	5 (2026-11): snapshot, rollback, dropsnapshot; host name, variables and command of a container
//	6 (2026-11): clone, rehost
//	7 (2026-11): limits that are in force before the first process
//	8 (2026-11): adopt, disown
//	9 (2026-11): unique containers, which are started on terms; upgrade, exchange, exchangeback, endupgrade
//	10 (2026-11): containers that share the files of their image
//	11 (2026-11): a helper may start several containers, one after another
const Version = 11

// SnapshotDir is where the snapshots of a container are, in its directory.
const SnapshotDir = "snapshots"

// TreesDir is where the files of images are that containers share, beside the containers. No
// container can be called so.
const TreesDir = ".hostler-trees"

// MaxSize bounds a request and an answer, in bytes: 10,000 containers of 400
// bytes each.
const MaxSize = 4 << 20

// The operations, which are also the helper's first argument. OpSupervise is
// the exception to everything above: it reads a run directory instead.
const (
	OpProbe    = "probe"
	OpList     = "list"
	OpInspect  = "inspect"
	OpCreate   = "create"
	OpDestroy  = "destroy"
	OpRename   = "rename"
	OpRehost   = "rehost"
	OpClone    = "clone"
	OpAdopt    = "adopt"
	OpDisown   = "disown"
	OpStart    = "start"
	OpStop     = "stop"
	OpDebris   = "debris"
	OpFreeze   = "freeze"
	OpUnfreeze = "unfreeze"

	OpSnapshot     = "snapshot"
	OpRollback     = "rollback"
	OpDropSnapshot = "dropsnapshot"

	OpUpgrade      = "upgrade"
	OpExchange     = "exchange"
	OpExchangeBack = "exchangeback"
	OpEndUpgrade   = "endupgrade"

	OpSupervise = "supervise"
)

// Request asks for one operation.
type Request struct {
	Version int
	// LXCPath is the directory that holds the containers.
	LXCPath string
	// LockDir holds one lock file per container.
	LockDir string
	// Helper is the path of the helper, by which unique containers run it before they start.
	Helper string `json:",omitzero"`
	// IDs are those that unprivileged containers are made with.
	IDs container.IDRange
	// Timeout is how long the helper may take. It ends itself a little later,
	// so that a hung one does not hold its lock for ever when the process that
	// started it is gone.
	Timeout time.Duration
	// Name of the container; empty for probe, list, debris and create.
	Name string `json:",omitzero"`
	// Terms are those of start.
	Terms container.Terms `json:",omitzero"`
	// Grace of stop.
	Grace time.Duration `json:",omitzero"`
	// To is the new name of rename or rehost, or the key of an upgrade, and CTID the
	// container that is meant, or the id that adopt gives to one.
	To   string         `json:",omitzero"`
	CTID container.CTID `json:",omitzero"`
	// Snapshot is the one that is made, restored or removed.
	Snapshot *container.Snapshot `json:",omitzero"`
	// Repair has debris remove what it finds.
	Repair bool `json:",omitzero"`
	// Create is what create makes, or clone of the container Name, or what upgrade makes of
	// it.
	Create *container.CreateSpec `json:",omitzero"`
	// Share has containers that are made of an image share its files, where that can be.
	Share bool `json:",omitzero"`
	// Image is what it makes it from; nil if that is a template.
	Image *container.Image `json:",omitzero"`
}

// Subject names the container of a request; empty for none.
func (r *Request) Subject() string {
	if r.Create != nil {
		return r.Create.Name
	}
	return r.Name
}

// Answer tells how an operation ended.
type Answer struct {
	Version int
	// More tells that the helper waits for another request of the same operation. If not, it
	// ends.
	More bool `json:",omitzero"`
	// Code is empty on success.
	Code Code `json:",omitzero"`
	// Reason is for people; never empty when Code is set.
	Reason string `json:",omitzero"`
	// Infos are the containers found by list, or the one of inspect.
	Infos []container.Info `json:",omitzero"`
	// Debris is what debris has found.
	Debris []container.Debris `json:",omitzero"`
	// Alone is why containers here cannot share the files of their image, told by probe; empty if
	// they can.
	Alone string `json:",omitzero"`
	// Liblxc is the library's version, told by probe.
	Liblxc string `json:",omitzero"`
}

// Code is why an operation failed.
type Code string

// The codes; each but CodeFailed stands for a sentinel of package container.
const (
	CodeNotFound    Code = "not_found"
	CodeExists      Code = "exists"
	CodeNotRunning  Code = "not_running"
	CodeUnsupported Code = "unsupported"
	CodeTimeout     Code = "timeout"
	CodeBusy        Code = "busy"
	CodeFailed      Code = "failed"
)

func sentinels() map[Code]error {
	return map[Code]error{
		CodeNotFound:    container.ErrNotFound,
		CodeExists:      container.ErrExists,
		CodeNotRunning:  container.ErrNotRunning,
		CodeUnsupported: container.ErrUnsupported,
		CodeTimeout:     container.ErrTimeout,
		CodeBusy:        container.ErrBusy,
	}
}

// Fail turns an error into an answer.
func Fail(err error) Answer {
	a := Answer{Version: Version, Code: CodeFailed, Reason: err.Error()}
	for code, sentinel := range sentinels() {
		if errors.Is(err, sentinel) {
			a.Code = code
		}
	}
	return a
}

// Err turns an answer back into the error it carries; nil on success.
func (a Answer) Err() error {
	if a.Code == "" {
		return nil
	}
	return remoteError{reason: a.Reason, sentinel: sentinels()[a.Code]}
}

// remoteError keeps the helper's words, which name the sentinel already.
type remoteError struct {
	reason   string
	sentinel error // nil for CodeFailed
}

func (e remoteError) Error() string { return e.reason }
func (e remoteError) Unwrap() error { return e.sentinel }

// errVersion says what to do about it.
func errVersion(got int) error {
	return fmt.Errorf("%w: the other program has version %d of the helper protocol, this one has %d; install the same release of both packages",
		container.ErrUnsupported, got, Version)
}

// ReadRequest decodes the next request of r. io.EOF tells that there is none.
func ReadRequest(r *bufio.Reader) (Request, error) {
	var raw []byte
	for {
		part, err := r.ReadSlice('\n')
		raw = append(raw, part...)
		if err == nil || err == io.EOF && len(raw) > 0 || len(raw) > MaxSize {
			break
		}
		if err == io.EOF {
			return Request{}, err
		}
		if err != bufio.ErrBufferFull {
			return Request{}, fmt.Errorf("reading request: %w", err)
		}
	}
	var req Request
	if err := decode(raw, &req); err != nil {
		return Request{}, fmt.Errorf("decoding request: %w", err)
	}
	return req, nil
}

// DecodeAnswer decodes the answer in raw.
func DecodeAnswer(raw []byte) (Answer, error) {
	var a Answer
	if err := decode(raw, &a); err != nil {
		return Answer{}, fmt.Errorf("decoding answer: %w", err)
	}
	if a.Code != "" && a.Reason == "" {
		return Answer{}, fmt.Errorf("decoding answer: code %.40q without a reason", a.Code)
	}
	if _, known := sentinels()[a.Code]; a.Code != "" && a.Code != CodeFailed && !known {
		return Answer{}, fmt.Errorf("decoding answer: unknown code %.40q", a.Code)
	}
	for _, i := range a.Infos {
		if i.Kind == "" || !slices.Contains(container.States(), i.State) {
			return Answer{}, fmt.Errorf("decoding answer: container %.40q without a kind or a state", i.Name)
		}
	}
	return a, nil
}

// decode judges the version before anything that another version may have changed.
func decode(raw []byte, v any) error {
	if len(raw) > MaxSize {
		return fmt.Errorf("more than %d bytes", MaxSize)
	}
	var head struct{ Version int }
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	if head.Version != Version {
		return errVersion(head.Version)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}
