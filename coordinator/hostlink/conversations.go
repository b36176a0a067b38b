// Package hostlink leads the conversation with each host: it judges what a host
// says and takes it in, numbers what goes to a host and sends it until a receipt
// covers it, and knows which hosts are there. What a message leads to beyond that
// is decided by the rooms that it is given.
package hostlink

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/wire"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// Standing knows which hosts are kept from orders and grants. It is safe for
// concurrent use.
type Standing interface {
	Quarantined(protocol.HostID) bool
	// Quarantine keeps a host from orders and grants until a person readmits it.
	Quarantine(host protocol.HostID, why string)
}

// Output takes the output of commands. It is safe for concurrent use.
type Output interface {
	// Take takes a chunk of a host; an error refuses it. Flush ends a batch.
	Take(host protocol.HostID, chunk protocol.Message) error
	Flush(protocol.HostID)
	// Settle is told of an action that a report has changed.
	Settle(core.Action)
	// Resume asks a host that came back for what is missing, and Reask one that is
	// there for what did not come.
	Resume(protocol.HostID)
	Reask(protocol.HostID)
}

// Evidence knows what the words of former coordinators prove. It is safe for
// concurrent use.
type Evidence interface {
	// HearHello looks at what a hello shows of a coordinator, which may close the gate
	// of decisions. It returns what the host claims without proof, empty for nothing.
	HearHello(protocol.HostID, *protocol.Hello) (claim string)
	// HearNewerRing looks at the hello of a host that holds a newer ring than we do.
	HearNewerRing(protocol.HostID, *protocol.Hello)
	// SealedBefore returns how far the audit log of the store before a recovery was
	// sealed, as a checkpoint shows; 0 for nothing. NoteSealed keeps that.
	SealedBefore(checkpoint []byte) uint64
	NoteSealed(tx core.Tx, n uint64) error
}

// Questions are what hosts are asked after a recovery. It is safe for concurrent
// use.
type Questions interface {
	// Meet notes what a host that says hello can tell that is not known here. It
	// reports whether the host has to be asked; then Begin follows the transaction.
	Meet(core.Tx, *core.Host, *protocol.Hello) (ask bool, err error)
	Begin(protocol.HostID)
	// IsRecovering reports whether a host has still to tell something.
	IsRecovering(protocol.HostID) bool
	// NextQuestion returns what to ask next, nil for nothing. It ends with marker, an id
	// that nobody uses.
	NextQuestion(tx core.Tx, host protocol.HostID, marker protocol.ActionID) (*protocol.ControlItem, error)
	// Told takes an answer about an action that neither side knows, and UnknownSince
	// one about an action of before the recovery that the host does not know.
	Told(core.Tx, protocol.HostID, *protocol.Report) error
	UnknownSince(core.Tx, core.Action) (core.Action, error)
	// ToldMore reports, after answers were taken in, whether to ask on.
	ToldMore(context.Context, protocol.HostID) bool
}

// Approvals judges what was approved. It is safe for concurrent use.
type Approvals interface {
	// Approved reports whether an action has what it needs, and WhyExpired, for
	// people, why not any more.
	Approved(a *core.Action, lifeMS int64) bool
	WhyExpired(a *core.Action) string
}

// Policies knows the policies in force on hosts. It is safe for concurrent use.
type Policies interface {
	// Hear takes what a heartbeat tells. It reports whether to ask for the text; asked
	// is the policy whose text this process has asked for.
	Hear(tx core.Tx, host protocol.HostID, info *protocol.PolicyInfo, asked protocol.Digest) (ask bool, err error)
	// Told takes the text of a policy.
	Told(tx core.Tx, host protocol.HostID, text []byte) error
	// PutIntoForce takes the policy that an action has put into force.
	PutIntoForce(core.Tx, core.Action) error
}

// Rules knows which rules of alerts each host is to have. It is safe for concurrent use.
type Rules interface {
	// Next returns what brings a host the rules that it lacks, by the inventory that it
	// is called with; nil for nothing. Sent follows, once the item has its number
	// and that is durable.
	Next(core.Tx, core.Host) (*protocol.ControlItem, error)
	Sent(protocol.HostID, *protocol.AlertRules)
}

// Grants knows which unique containers each host may hold. It is safe for concurrent use.
type Grants interface {
	// Renew takes a verified lease and returns what the grant of that number, which
	// answers it, is to name, and how long that is good for. It is memory alone.
	Renew(host protocol.HostID, lease *protocol.Lease, seq protocol.Seq) (held []protocol.LeaseHeld, ttl time.Duration)
	// Greeted takes the hello of a host that has proved itself.
	Greeted(host protocol.HostID, h *protocol.Hello)
	// Told takes the containers of an inventory of a host that is durable. It is memory
	// alone.
	Told(host protocol.HostID, all []protocol.Container)
	// Untold reports, once in a while, that a host which is back has not told what it has since.
	Untold(host protocol.HostID) bool
}

// Samples takes what hosts have measured, for a database. It is safe for concurrent use, and
// never waits for the database.
type Samples interface {
	// Take takes a message of a host, and answers it with a credit.
	Take(host protocol.HostID, m protocol.Message) error
}

// Config is what Conversations are made of. All of it is needed, but for what has a default.
type Config struct {
	Standing  Standing
	Output    Output
	Evidence  Evidence
	Questions Questions
	Approvals Approvals
	Policies  Policies
	Rules     Rules
	Grants    Grants
	// Samples takes the samples of hosts. Default: none are taken, and no host is told that
	// they were.
	Samples Samples
	// Acked takes what a host has taken of what is typed in a session.
	Acked func(protocol.HostID, protocol.ActionID, []byte) error
	// Input takes what a host asks for of what an action reads.
	Input func(protocol.HostID, protocol.Credit) error
	// Told takes what a host answers about actions.
	Told func(protocol.HostID, []protocol.Report)
	// NewestSeal returns the newest checkpoint of the audit log, nil if there is none.
	NewestSeal func() *core.Seal
	// Window is the reconnect window for so many hosts. Default: none.
	Window func(hosts int) time.Duration
	// Start runs a function on a goroutine that the process waits for in the end. It
	// reports false when nothing begins any more.
	Start func(func()) bool
}

// Conversations are those with all hosts. All methods are safe for concurrent use.
type Conversations struct {
	base *core.Base
	wire *wire.Wire
	cfg  Config

	mu       sync.Mutex
	links    map[protocol.HostID]*link
	expected int // how many hosts were members at the start
}

// Expect says how many hosts are members. It is called once, before anything is said.
func Expect(c *Conversations, hosts int) { c.expected = hosts }

// window is the reconnect window for as many hosts as there are.
func window(c *Conversations) time.Duration {
	if c.cfg.Window == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.Window(max(c.expected, len(c.links)))
}

// New returns conversations in which nothing was said yet. Join must follow.
func New(base *core.Base, w *wire.Wire) *Conversations {
	return &Conversations{base: base, wire: w, links: make(map[protocol.HostID]*link)}
}

// Join gives the conversations the rooms that they work with, some of which are
// made with the conversations. It is called once, before anything is said.
func (c *Conversations) Join(cfg Config) {
	c.cfg = cfg
}

// old returns the conversation with a host, nil if there is none.
func (c *Conversations) old(host protocol.HostID) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links[host]
}

// Presence returns whether a host is there, and why that is known.
func (c *Conversations) Presence(host protocol.HostID) core.Presence {
	if l := c.old(host); l != nil {
		return l.presence.view(c.base.Boot(), c.base.NowMS())
	}
	return core.Presence{Connectivity: core.Unknown, Reason: "not heard since the coordinator started"}
}

// Here reports whether a host was heard just now on a connection that is not lost,
// and when it was last heard, Unix milliseconds; 0 if not since the start.
func (c *Conversations) Here(host protocol.HostID) (bool, int64) {
	if l := c.old(host); l != nil {
		return l.presence.here(c.base.Boot()), l.presence.view(c.base.Boot(), c.base.NowMS()).SeenMS
	}
	return false, 0
}

// Quarantined reports whether a host gets no orders until a person readmits it.
func (c *Conversations) Quarantined(host protocol.HostID) bool {
	return c.cfg.Standing.Quarantined(host)
}

// Readmitted begins anew with a host that a person has readmitted.
func (c *Conversations) Readmitted(host protocol.HostID) { c.link(host).forget() }

// Drop forgets the conversation with a host whose machine is another one now.
func (c *Conversations) Drop(host protocol.HostID) {
	c.mu.Lock()
	l := c.links[host]
	delete(c.links, host)
	c.mu.Unlock()
	if l != nil {
		l.forget() // a caller that still holds it sends nothing of what was
	}
}

// maxLooks is how many hosts are looked at at a time: what they write shares
// commits, so that a fleet whose receipts all came at once waits for a few.
const maxLooks = 64

// Tick looks at all hosts: it sends again what no receipt covers, and marks silent
// hosts. It is called each second.
func (c *Conversations) Tick(ctx context.Context) {
	now := c.base.Boot() // a call of the kernel, which ten thousand hosts share
	eachOf(c.allLinks(), maxLooks, func(l *link) { l.tick(ctx, now) })
}

// eachOf calls do for each of all, for so many at a time, and returns when all calls have.
// It begins no more goroutines than that: of ten thousand hosts almost none has anything to
// do in a second, and a goroutine for each would cost more than the look at it.
func eachOf[T any](all []T, atOnce int, do func(T)) {
	var looks sync.WaitGroup
	var next atomic.Int64
	for range min(atOnce, len(all)) {
		looks.Go(func() {
			for i := next.Add(1); i <= int64(len(all)); i = next.Add(1) {
				do(all[i-1])
			}
		})
	}
	looks.Wait()
}

// Sealed sends the newest checkpoint to the hosts that it is about: what was
// done with them cannot be taken back any more without their knowing.
func (c *Conversations) Sealed(hosts []protocol.HostID) {
	for _, host := range hosts {
		if l := c.old(host); l != nil && l.presence.alive() {
			l.receipt()
		}
	}
}

// Credit asks for output with the next receipt to a host.
func (c *Conversations) Credit(host protocol.HostID, cr protocol.Credit) {
	c.link(host).receipts.credit(cr)
}

// Send sends a receipt to a host now.
func (c *Conversations) Send(host protocol.HostID) { c.link(host).receipt() }

// SendOwed sends a receipt to a host if there is something new to tell.
func (c *Conversations) SendOwed(host protocol.HostID) { c.link(host).receiptIfOwed() }

// Number gives the next numbers to actions of a host that wait for theirs, within
// the caller's transaction. The function that it returns sends them, and is called
// when the transaction is durable.
func (c *Conversations) Number(tx core.Tx, host protocol.HostID) (send func(), _ error) {
	l := c.link(host) // of a host that exists: a host cannot be invented
	given, err := c.number(tx, l)
	return func() { l.numbered(given); l.pump() }, err
}

// NumberNew is Number for a new action before it is written, which gets its number
// if its host is there and nothing can be waiting in front of it; else send is nil.
func (c *Conversations) NumberNew(tx core.Tx, a *core.Action) (send func(), _ error) {
	l := c.link(a.Host)
	given, err := c.numberFirst(tx, l, a)
	if err != nil || len(given.orders) == 0 {
		return nil, err
	}
	return func() { l.numbered(given); l.pump() }, nil
}

// Control gives a control item its number within the caller's transaction. The
// function that it returns sends the item, as that of Number.
func (c *Conversations) Control(tx core.Tx, host protocol.HostID, item protocol.ControlItem) (send func(), _ error) {
	it, err := c.control(tx, host, item)
	return func() {
		l := c.link(host)
		l.out.add(protocol.StreamControl, it)
		l.pump()
	}, err
}

// Offer numbers and sends what waits for a host, if it is there.
func (c *Conversations) Offer(ctx context.Context, host protocol.HostID) {
	l := c.link(host)
	c.numberWaiting(ctx, l)
	l.pump()
}

// AskIn returns when a host may be asked about an action, one question behind the
// other: false if that is further off than patience.
func (c *Conversations) AskIn(host protocol.HostID, patience time.Duration) (time.Duration, bool) {
	return c.link(host).agenda.whyIn(c.base.Boot(), patience)
}

// Ask asks a host about an action. That nothing is asked, because the host takes no
// questions, is no error.
func (c *Conversations) Ask(ctx context.Context, host protocol.HostID, action protocol.ActionID) error {
	l := c.link(host)
	err := l.ask(ctx, func(tx core.Tx) (*protocol.ControlItem, error) {
		controls, err := tx.Streams.Get(host, protocol.StreamControl)
		// A person who only looks does not fill the window of what the host must hear.
		if err != nil || controls.Pos.N-max(controls.Freed.N, l.out.acked(protocol.StreamControl)) >= stream.Window/2 {
			return nil, err
		}
		return &protocol.ControlItem{Verb: protocol.VerbTell, IDs: []protocol.ActionID{action}}, nil
	})
	if err == nil {
		l.pump()
	}
	return err
}
