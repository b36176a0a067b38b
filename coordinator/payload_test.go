package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
)

// TestUploadGoesOn takes a payload in pieces, over a line that breaks and a
// coordinator that is started anew, and has it when all of it is there.
func TestUploadGoesOn(t *testing.T) {
	f := coordtest.New(t)
	by := core.Actor{Name: "ann", Role: core.RoleOperator}
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	d, size := protocol.Sum(data), int64(len(data))
	put := func(offset int64, r io.Reader) (relay.Payload, error) {
		return f.Coordinator().Relay().Payloads.Put(t.Context(), by, d, size, offset, r)
	}
	if _, err := f.Coordinator().Relay().Payloads.Get(by, d); !errors.Is(err, core.ErrNotFound) {
		t.Fatalf("%v, want %v", err, core.ErrNotFound)
	}
	broken := io.MultiReader(bytes.NewReader(data[:300_000]), iotest.ErrReader(errors.New("the line broke")))
	if _, err := put(0, broken); err == nil {
		t.Fatal("an upload that broke off is whole")
	}
	spec := fmt.Appendf(nil, `{"kind":"host.run","argv":["cat"],"stdin_sha256":"%s","stdin_bytes":%d}`, d, size)
	h := f.AddHost("edge-07")
	if _, err := f.Coordinator().Actions().Propose(t.Context(), by, actions.Request{Host: h.ID, Spec: spec}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("an action with a payload that is not here: %v", err)
	}
	f.Restart()
	p, err := f.Coordinator().Relay().Payloads.Get(by, d)
	if err != nil || p.Have != 300_000 || p.Bytes != 0 {
		t.Fatal(p, err)
	}
	if _, err := put(200_000, bytes.NewReader(data[200_000:])); !errors.Is(err, core.ErrConflict) {
		t.Errorf("from another offset: %v", err)
	}
	if _, err := put(p.Have, bytes.NewReader(append(data[p.Have:], '!'))); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("with a byte too many: %v", err)
	}
	p, err = f.Coordinator().Relay().Payloads.Get(by, d)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = put(p.Have, bytes.NewReader(data[p.Have:])); err != nil || p.Bytes != size {
		t.Fatal(p, err)
	}
	wrong := fmt.Appendf(nil, `{"kind":"host.run","argv":["cat"],"stdin_sha256":"%s","stdin_bytes":%d}`, d, size+1)
	if _, err := f.Coordinator().Actions().Propose(t.Context(), by, actions.Request{Host: h.ID, Spec: wrong}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("an action with another size: %v", err)
	}
	if _, err := f.Coordinator().Actions().Propose(t.Context(), by, actions.Request{Host: h.ID, Spec: spec}); err != nil {
		t.Error(err)
	}
	if _, err := f.Coordinator().Relay().Payloads.Put(t.Context(), by, protocol.Sum([]byte("x")), 1, 0, bytes.NewReader([]byte("y"))); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("bytes of another digest: %v", err)
	}
	if _, err := f.Coordinator().Relay().Payloads.Put(t.Context(), by, d, 1<<40, 0, bytes.NewReader(nil)); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a tebibyte: %v", err)
	}
	viewer := core.Actor{Name: "vic", Role: core.RoleViewer}
	if _, err := f.Coordinator().Relay().Payloads.Put(context.Background(), viewer, d, size, 0, bytes.NewReader(data)); !errors.Is(err, core.ErrDenied) {
		t.Errorf("a viewer: %v", err)
	}
}

// TestPayloadIsAskedForLast: who would be refused anyway is told so before he sends what
// the action reads; nobody gets an action that has nothing to read.
func TestPayloadIsAskedForLast(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		c := f.Coordinator()
		spec := fmt.Appendf(nil, `{"kind":"host.run","argv":["cat"],"stdin_sha256":"%s","stdin_bytes":5}`, protocol.Sum([]byte("never")))
		if _, err := c.Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: "nobody", Spec: spec}); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("for no host: %v", err)
		}
		ask := func(hosts ...protocol.HostID) ([]actions.Proposed, error) {
			_, all, err := c.Actions().ProposeMany(t.Context(), f.Admin(), actions.BatchRequest{Hosts: hosts, Spec: spec})
			return all, err
		}
		all, err := ask("nobody", "nowhere")
		if err != nil || !errors.Is(all[0].Refused, core.ErrNotFound) || !errors.Is(all[1].Refused, core.ErrNotFound) {
			t.Errorf("for no host of two: %+v, %v", all, err)
		}
		if all, err := ask("nobody", h.ID); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("for one host of two: %+v, %v", all, err)
		}
		open, err := c.Actions().List(t.Context(), core.ActionFilter{Limit: 10})
		if err != nil || len(open) != 0 {
			t.Errorf("%+v, %v, want no action", open, err)
		}
	})
}

// TestPayloadIsOfItsHost: what an action reads goes to its host and no other.
func TestPayloadIsOfItsHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		other := f.AddHost("edge-08")
		other.Connect()
		after(10 * time.Second)
		by := core.Actor{Name: "ann", Role: core.RoleOperator}
		p, err := f.Coordinator().Relay().Payloads.Put(t.Context(), by, protocol.Digest{}, -1, 0, bytes.NewReader([]byte("a secret")))
		if err != nil {
			t.Fatal(err)
		}
		a, err := f.Coordinator().Actions().Propose(t.Context(), by, actions.Request{Host: h.ID,
			Spec: fmt.Appendf(nil, `{"kind":"host.run","argv":["cat"],"stdin_sha256":"%s","stdin_bytes":%d}`, p.SHA256, p.Bytes)})
		if err != nil {
			t.Fatal(err)
		}
		ask := protocol.Credit{Action: a.ID, Attempt: 1, FD: protocol.Stdin, Window: protocol.ChunkSize}
		other.Ask(ask)
		after(time.Second)
		if n := f.Coordinator().Stats().Refused[protocol.ErrAction]; n != 1 {
			t.Errorf("%d credits of another host were refused, not 1", n)
		}
		h.Ask(ask)
		after(time.Second)
		if n := f.Coordinator().Stats().Refused[protocol.ErrAction]; n != 1 {
			t.Errorf("the host's own credit was refused")
		}
	})
}

// TestKnownDigestIsNoPayload: who knows the digest of what another has sent, as all do
// who read specs, has nothing of it: neither whether it is here, nor a part to go on
// from, nor an action that reads it, be it one of a user of a host.
func TestKnownDigestIsNoPayload(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		ann, eve := core.Actor{Name: "ann", Role: core.RoleOperator}, core.Actor{Name: "eve", Role: core.RoleAdmin}
		payloads, data := f.Coordinator().Relay().Payloads, []byte("a secret")
		p, err := payloads.Put(t.Context(), ann, protocol.Digest{}, -1, 0, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		spec := fmt.Appendf(nil, `{"kind":"host.run","argv":["cat"],"stdin_sha256":"%s","stdin_bytes":%d}`, p.SHA256, p.Bytes)
		if _, err := payloads.Get(eve, p.SHA256); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("another looks for it: %v", err)
		}
		if got, err := payloads.Put(t.Context(), eve, p.SHA256, p.Bytes, 0, bytes.NewReader(nil)); err == nil && got.Bytes != 0 {
			t.Errorf("another sends nothing, and has %+v", got)
		}
		ask := func(by core.Actor) error {
			_, err := f.Coordinator().Actions().Propose(t.Context(), by, actions.Request{Host: h.ID, Spec: spec})
			return err
		}
		if err := ask(eve); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("another has it read: %v", err)
		}
		id := f.Coordinator().Actions().NewActionID()
		h.Report(protocol.Report{
			Action: id, Digest: protocol.Sum(spec), Spec: spec, Requester: "uid:1000", Event: protocol.EventStart, State: protocol.StateRunning,
			AcceptSeq: h.Accept(), Attempt: 1, AtMS: 1,
		})
		after(time.Second)
		h.Ask(protocol.Credit{Action: id, Attempt: 1, FD: protocol.Stdin, Window: protocol.ChunkSize})
		after(time.Minute)
		for _, m := range f.Published(h.ID, protocol.ChannelIn) {
			if bytes.Contains(m.Payload, data) {
				t.Error("a user of the host has it read")
			}
		}
		if got, err := payloads.Put(t.Context(), eve, p.SHA256, p.Bytes, 0, bytes.NewReader(data)); err != nil || got.Bytes != p.Bytes {
			t.Fatalf("who has the bytes sends them: %+v, %v", got, err)
		}
		for _, by := range []core.Actor{ann, eve} {
			if err := ask(by); err != nil {
				t.Errorf("%s has it read: %v", by.Name, err)
			}
		}
	})
}

// TestSamePayloadByMany: who sends what another is sending waits for it, and goes on
// behind it when its line breaks.
func TestSamePayloadByMany(t *testing.T) {
	f := coordtest.New(t)
	by := core.Actor{Name: "ann", Role: core.RoleOperator}
	data := bytes.Repeat([]byte("0123456789"), 10_000)
	d, size := protocol.Sum(data), int64(len(data))
	put := func(r io.Reader) error {
		p, err := f.Coordinator().Relay().Payloads.Put(t.Context(), by, d, size, 0, r)
		if err == nil && p.Bytes != size {
			return fmt.Errorf("%d of %d bytes are there", p.Have, size)
		}
		return err
	}
	r, w := io.Pipe()
	first := make(chan error)
	go func() { first <- put(r) }()
	if _, err := w.Write(data[:30_000]); err != nil {
		t.Fatal(err)
	}
	var others errgroup.Group
	for range 4 {
		others.Go(func() error { return put(bytes.NewReader(data)) })
	}
	if _, err := w.Write(data[30_000:60_000]); err != nil {
		t.Fatal(err)
	}
	w.CloseWithError(errors.New("the line broke"))
	if err := <-first; err == nil {
		t.Error("what broke off is whole")
	}
	if err := others.Wait(); err != nil {
		t.Error(err)
	}
}
