// Package checkup looks, on a host, for what keeps it from doing its work: what it needs
// of its kernel and of other programs, whether it reaches its coordinator, and whether its
// own memory is whole. A coordinator looks at itself in the same way. It changes nothing.
package checkup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/space"
)

// Config says what is looked at.
type Config struct {
	// Dirs are the directories whose file systems must have room, each by what it is for.
	Dirs []Dir
	// Needs are parts that the host may lack.
	Needs []Need
	// Addresses are those of the coordinator, and the own one that others may ask; none on
	// a host without a fleet.
	Addresses []Address
	// Certificate is when the certificate of the host ends; zero without a fleet.
	Certificate time.Time
	// Memory reads the agent's database whole, and returns what is wrong with it. Nil
	// skips the check.
	Memory func(context.Context) error
	// Left counts what a crash or a person has left on the host. Nil skips the check.
	Left func(context.Context) (int, error)
	// Synced tells whether something keeps the clock of the host right. Default: asks
	// the kernel.
	Synced func() (bool, error)
	// NoSystemd tells that systemd does not run here: no remedy is a command that asks it.
	NoSystemd bool
	// Now is the time of the wall clock. Default [time.Now].
	Now func() time.Time
}

// Dir is a directory.
type Dir struct{ Name, Path string }

// Need is a part that the host can do without, at a price.
type Need struct {
	Name string
	// Problem is why it is missing; nil if it is there.
	Problem error
	// Mend is the command that brings it.
	Mend string
	// Vital tells that nothing works without it.
	Vital bool
}

// Address is where the coordinator listens.
type Address struct {
	// Name says of what it is the address: API or broker.
	Name, Address string
	// Own tells that this host listens there, and not the coordinator.
	Own bool
	// Try connects and looks at the certificate.
	Try func(context.Context, string) error
}

// Bounds of what is well.
const (
	// leastFree is the part of a file system that stays free, in percent: of its bytes
	// and of its inodes.
	leastFree = 10
	// leastLife is how long a certificate has still to live: the agent renews it when a
	// third of its 90 days is left, so less means that renewals fail.
	leastLife = 14 * 24 * time.Hour
	// patience bounds each attempt to connect.
	patience = 5 * time.Second
)

// Run makes all checks and returns their results in a fixed order. It ends soon after ctx
// does, with what it knows by then.
func Run(ctx context.Context, c Config) []api.Finding {
	if c.Synced == nil {
		c.Synced = synced
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	var all report
	for _, d := range c.Dirs {
		all.room(d)
	}
	for _, n := range c.Needs {
		result := api.FindingWarning
		if n.Vital {
			result = api.FindingFailed
		}
		all.note(n.Name, result, n.Problem, n.Mend)
	}
	ok, err := c.Synced()
	if err == nil && !ok {
		err = fmt.Errorf("nothing keeps the clock right; people read its times, and nothing else depends on it")
	}
	all.note("clock", api.FindingWarning, err, c.either("timedatectl set-ntp true", "apt-get install chrony    # or another program that sets the clock of this machine; start it"))
	all.reach(ctx, c)
	if !c.Certificate.IsZero() {
		var err error
		if left := c.Certificate.Sub(c.Now()); left < leastLife {
			err = fmt.Errorf("it ends at %s and was not renewed; the fleet goes on with it, other programs do not", c.Certificate.UTC().Format(time.RFC3339))
		}
		all.note("certificate", api.FindingWarning, err, c.either("journalctl -u hostler-agent | grep certificate    # why it is not renewed", "the log of hostler-agent run says why it is not renewed: look for certificate"))
	}
	if c.Memory != nil {
		all.note("memory", api.FindingFailed, c.Memory(ctx), c.either("systemctl restart hostler-agent    # it says what to restore", "start hostler-agent run anew: it says what to restore"))
	}
	if c.Left != nil {
		n, err := c.Left(ctx)
		if err == nil && n > 0 {
			err = fmt.Errorf("a crash or a person has left %d things", n)
		}
		all.note("debris", api.FindingWarning, err, "hostler-agent fsck    # lists them; --repair removes them while the agent is stopped")
	}
	return all
}

// either is the remedy with systemd, or the one without.
func (c *Config) either(with, without string) string {
	if c.NoSystemd {
		return without
	}
	return with
}

// report collects findings.
type report []api.Finding

// note notes a check that found a problem, or none.
func (r *report) note(check, result string, problem error, mend string) {
	f := api.Finding{Check: check, Result: api.FindingOK}
	if problem != nil {
		f.Result, f.Cause, f.Mend = result, strings.ReplaceAll(problem.Error(), "\n", "; "), mend
	}
	*r = append(*r, f)
}

// room looks at the file system of a directory.
func (r *report) room(d Dir) {
	path := d.Path
	s, err := space.Of(path)
	for errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) { // it is made when it is needed
		path = filepath.Dir(path)
		s, err = space.Of(path)
	}
	mend := "du -xh --max-depth 2 " + path
	if err != nil {
		r.note("disk of "+d.Name, api.FindingFailed, fmt.Errorf("look at %s: %w", path, err), "ls -ld "+path)
		return
	}
	var problem error
	if s.Total > 0 && s.Free*100/s.Total < leastFree {
		problem = fmt.Errorf("%d %% of the file system of %s are free", s.Free*100/s.Total, d.Path)
	}
	r.note("disk of "+d.Name, api.FindingWarning, problem, mend)
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil {
		(*r)[len(*r)-1].Room = &api.Room{FileSystem: fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))), Free: s.Free}
	}
	if s.Files == 0 { // the file system counts no inodes
		return
	}
	problem = nil
	if s.FreeFiles*100/s.Files < leastFree {
		problem = fmt.Errorf("%d %% of the inodes of the file system of %s are free", s.FreeFiles*100/s.Files, d.Path)
	}
	r.note("inodes of "+d.Name, api.FindingWarning, problem, "du -x --inodes --max-depth 2 "+path)
}

// reach tries all addresses at once.
func (r *report) reach(ctx context.Context, c Config) {
	all := c.Addresses
	problems := make([]error, len(all))
	var tries sync.WaitGroup
	for i, a := range all {
		tries.Go(func() {
			given, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			problems[i] = a.Try(given, a.Address)
		})
	}
	tries.Wait()
	reached := make(map[string]bool)
	for i, a := range all {
		reached[a.Name] = reached[a.Name] || problems[i] == nil
	}
	for i, a := range all {
		result := api.FindingFailed
		if reached[a.Name] { // by another address
			result = api.FindingWarning
		}
		if a.Own {
			r.note(a.Name+" "+a.Address, api.FindingWarning, problems[i], c.either("journalctl -u hostler-agent | grep "+a.Name+"    # why it is not served", "the log of hostler-agent run says why it is not served: look for "+a.Name))
			continue
		}
		r.note(a.Name+" "+a.Address, result, problems[i], "hostler-coordinator config show --origin | grep addresses    # on its machine: hosts dial its http.addresses and mqtt.addresses; is a firewall between, or a name that this host resolves otherwise?")
	}
}

// synced asks the kernel whether something keeps its clock right.
func synced() (bool, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, fmt.Errorf("ask the kernel about its clock: %w", err)
	}
	return t.Status&unix.STA_UNSYNC == 0, nil
}
