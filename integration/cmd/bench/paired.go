package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// shorter is the unit of times that are compared: less is better.
const shorter = "× bare"

// pair is one thing that is done in two ways.
type pair struct {
	row
	n            int // times each
	ours, theirs func(context.Context) (float64, error)
	compare      func(ours, theirs float64) float64
	way, others  string // their names, for people; ours is an order if it has none
}

// quotient and difference compare times.
func quotient(ours, theirs float64) float64   { return ours / theirs }
func difference(ours, theirs float64) float64 { return ours - theirs }

// speedup compares the speeds of what took these times.
func speedup(ours, theirs float64) float64 { return theirs / ours }

// paired measures both ways in turns. The first way of a turn is the second of the next one,
// for the machine changes its speed meanwhile. The medians count. A note tells both.
func (b *bench) paired(ctx context.Context, p pair) error {
	fmt.Fprintln(b.talk, "measuring", p.name)
	var found [2][]float64
	for i := range p.n {
		for j := range found {
			which := (i + j) % 2
			took, err := []func(context.Context) (float64, error){p.ours, p.theirs}[which](ctx)
			if err != nil {
				return fmt.Errorf("measuring %s: %w", p.name, err)
			}
			found[which] = append(found[which], took)
		}
	}
	ours, theirs := percentile(found[0], 50), percentile(found[1], 50)
	b.report.figures = append(b.report.figures, p.figure(p.compare(ours, theirs), floors{}))
	b.report.notes = append(b.report.notes, fmt.Sprintf("%s: %s %s ms, %s %s ms, medians of %d.", p.name, cmp.Or(p.way, "an order"), number(ours), p.others, number(theirs), p.n))
	return nil
}

// apart has a step measure a fleet of its own, with podman if prepare gives it one.
func (b *bench) apart(ctx context.Context, prepare func(context.Context, *fleet) error, do step) (err error) {
	f, err := newFleet(b.fleet.bin)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.tellLogs(b.talk)
		}
		err = errors.Join(err, f.close(context.WithoutCancel(ctx)))
	}()
	if prepare != nil {
		if err := prepare(ctx, f); err != nil {
			return err
		}
	}
	if err := f.start(ctx); err != nil {
		return err
	}
	there, err := newBench(f, b.bare, b.talk)
	if err != nil {
		return err
	}
	there.report = b.report
	err = do(there, ctx)
	b.report = there.report
	return err
}

// held has something done while the agent is held still, which would take part in it.
func (b *bench) held(do func() (float64, error)) (_ float64, err error) {
	if err := syscall.Kill(b.fleet.agent, syscall.SIGSTOP); err != nil {
		return 0, fmt.Errorf("holding the agent still: %w", err)
	}
	defer func() { err = errors.Join(err, syscall.Kill(b.fleet.agent, syscall.SIGCONT)) }()
	return do()
}

// own is a container of the bench.
type own struct {
	name string
	id   protocol.CTID
}

func newOwn(name string) (own, error) {
	var random [10]byte
	_, err := rand.Read(random[:])
	return own{name, protocol.NewCTID(time.Now().UnixMilli(), random)}, err
}

// ct orders something of a container, and returns how long that took in milliseconds.
func (b *bench) ct(ctx context.Context, c own, kind protocol.Kind, args protocol.Args) (float64, error) {
	body, err := request(protocol.Spec{Kind: kind, Target: c.id, Name: protocol.ContainerName(c.name), Args: args})
	if err != nil {
		return 0, err
	}
	took, err := b.probe.oneByOne(ctx, 1, body)
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", kind, c.name, err)
	}
	return took[0], nil
}

// create makes a container.
func (b *bench) create(ctx context.Context, name string, args *protocol.CreateArgs) (c own, took float64, err error) {
	if c, err = newOwn(name); err == nil {
		took, err = b.ct(ctx, c, protocol.KindCreate, args)
	}
	return c, took, err
}

// destroy takes a container away.
func (b *bench) destroy(ctx context.Context, c own) error {
	_, err := b.ct(ctx, c, protocol.KindDestroy, &protocol.StopArgs{GraceMS: 1})
	return err
}

// socket returns a client of the agent's socket that keeps its connection.
func (f *fleet) socket() *probe { return f.socketOf(hostName) }

func (f *fleet) socketOf(host string) *probe {
	return &probe{url: "http://agent", client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", f.path(host+"/agent.sock"))
		},
	}}}
}
