package coordinator_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// offer runs one exchange up to the proof, which spoil may break.
func offer(t *testing.T, f *coordtest.Fleet, id protocol.HostID, code string, spoil func(*enrol.OfferRequest)) error {
	t.Helper()
	a := f.Attempt(id, code)
	begin, err := a.Begin()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.Coordinator().Members().BeginEnrolment(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	_, ring := f.Trust.RingInForce()
	_, own := f.Trust.Own()
	r, _, err := a.Reveal(answer, ring, own)
	if err != nil {
		t.Fatal(err)
	}
	if spoil != nil {
		spoil(&r)
	}
	_, err = f.Coordinator().Members().OfferEnrolment(t.Context(), coordtest.Address, r)
	return err
}

func invite(t *testing.T, f *coordtest.Fleet) string {
	t.Helper()
	_, code, err := f.Coordinator().Members().Invite(t.Context(), f.Admin(), time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func TestInviteIsForOneHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		code := invite(t, f)
		for range 2 { // a host that lost the answer asks again
			if err := offer(t, f, "edge-20", code, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := offer(t, f, "edge-21", code, nil); !errors.Is(err, core.ErrDenied) || !errors.Is(err, enrol.ErrUsed) {
			t.Errorf("a second host with the same code: %v", err)
		}
		pending, err := f.Coordinator().Members().Enrolments(t.Context(), core.EnrolmentPending)
		if err != nil || len(pending) != 1 {
			t.Errorf("%d hosts wait, %v, want 1", len(pending), err)
		}
	})
}

func TestWrongProofsBurnInvite(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		code := invite(t, f)
		for range enrol.MaxWrong {
			err := offer(t, f, "edge-20", code, func(r *enrol.OfferRequest) { r.Proof[0] ^= 1 })
			if !errors.Is(err, core.ErrDenied) || !errors.Is(err, enrol.ErrProof) {
				t.Fatalf("a wrong proof: %v", err)
			}
		}
		if err := offer(t, f, "edge-20", code, nil); !errors.Is(err, enrol.ErrBurned) {
			t.Errorf("the right proof afterwards: %v", err)
		}
		// Whoever goes on guessing does not fill the audit log.
		rows, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, row := range rows {
			if row.Verb == "host.proof_refused" {
				n++
			}
		}
		if n != enrol.MaxWrong {
			t.Errorf("%d wrong proofs were written down, want %d", n, enrol.MaxWrong)
		}
	})
}

func TestApprovalByNameInALargeFleet(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		f.PutEnrolments(func(put func(core.Enrolment)) {
			for i := range 1500 { // more than one listing shows
				put(core.Enrolment{ID: fmt.Sprintf("old %d", i), Host: protocol.HostID(fmt.Sprintf("old-%d", i)), State: core.EnrolmentApproved, CreatedMS: int64(i)})
			}
		})
		if err := offer(t, f, "edge-20", invite(t, f), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Coordinator().Members().ApproveEnrolment(t.Context(), f.Admin(), "edge-20", ""); err != nil {
			t.Error(err)
		}
		_, err := f.Coordinator().Members().ApproveEnrolment(t.Context(), f.Admin(), "edge-20", "")
		if !errors.Is(err, core.ErrConflict) && !errors.Is(err, core.ErrNotFound) {
			t.Errorf("approved twice: %v", err)
		}
	})
}

func TestInviteExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		code := invite(t, f)
		after(time.Hour)
		if err := offer(t, f, "edge-20", code, nil); !errors.Is(err, enrol.ErrExpired) {
			t.Errorf("an old code: %v", err)
		}
	})
}

func TestInviteEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		m, ctx := f.Coordinator().Members(), t.Context()
		first, code, err := m.Invite(ctx, f.Admin(), time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		invite(t, f)
		if all, err := m.Invites(ctx); err != nil || len(all) != 2 {
			t.Fatalf("%d invites are valid, %v, want 2", len(all), err)
		}
		for range 2 { // a client that lost the answer asks again
			if err := m.EndInvite(ctx, f.Admin(), first.ID); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := m.Invites(ctx); err != nil || len(all) != 1 || all[0].ID == first.ID {
			t.Errorf("after one has ended: %+v, %v", all, err)
		}
		if err := offer(t, f, "edge-20", code, nil); !errors.Is(err, enrol.ErrExpired) {
			t.Errorf("a code that was ended: %v", err)
		}
		if err := m.EndInvite(ctx, f.Admin(), "nosuch"); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("ending what does not exist: %v", err)
		}
	})
}

func TestChangedOfferIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		err := offer(t, f, "edge-20", invite(t, f), func(r *enrol.OfferRequest) { r.Offer[len(r.Offer)-2] ^= 1 })
		if !errors.Is(err, core.ErrInvalid) || !errors.Is(err, enrol.ErrCommit) {
			t.Errorf("an offer that was changed behind its commitment: %v", err)
		}
	})
}

func TestApprovalNeedsTheWordsOfTheScreen(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		e := f.Join("edge-20")
		c, ctx := f.Coordinator(), t.Context()
		if _, err := c.Members().ApproveEnrolment(ctx, f.Admin(), "edge-20", "abandon ability able about"); !errors.Is(err, core.ErrConflict) {
			t.Errorf("other words: %v", err)
		}
		got, err := c.Members().ApproveEnrolment(ctx, f.Admin(), "edge-20", e.Words)
		if err != nil || got.State != core.EnrolmentApproved || got.DecidedBy != "admin" {
			t.Fatalf("approved: %+v, %v", got, err)
		}
		if _, err := c.Members().ApproveEnrolment(ctx, f.Admin(), e.ID, ""); !errors.Is(err, core.ErrConflict) {
			t.Errorf("approved twice: %v", err)
		}
		if p, ok := f.Trust.Principal(e.Key); !ok || p.Host != "edge-20" {
			t.Error("the host's key is not believed")
		}
		// A member that joins again with its key needs nobody's word.
		if err := offer(t, f, h.ID, invite(t, f), nil); err != nil {
			t.Errorf("a member that joins again with its key: %v", err)
		}
	})
}

func TestDenialIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		e := f.Join("edge-20")
		if _, err := f.Coordinator().Members().DenyEnrolment(t.Context(), f.Admin(), e.ID, "not ours"); err != nil {
			t.Fatal(err)
		}
		got, err := f.Coordinator().Members().FindEnrolment(t.Context(), "edge-20")
		if err != nil || got.State != core.EnrolmentDenied || got.Reason != "not ours" {
			t.Errorf("denied: %+v, %v", got, err)
		}
	})
}

// The name of a host belongs to the key that was approved under it: whoever asks
// for it with another key is refused, and of two that wait one is let in.
func TestNamesBelongToKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := coordtest.New(t)
		f.AddHost("edge-07")
		c := f.Coordinator()
		_, code, err := c.Members().Invite(t.Context(), f.Admin(), time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := claim(t, f, "edge-07", "stranger", code); !errors.Is(err, core.ErrExists) {
			t.Errorf("the name of a member, with another key: %v", err)
		}
		for _, key := range []string{"one", "other"} {
			_, code, err := c.Members().Invite(t.Context(), f.Admin(), time.Hour, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := claim(t, f, "edge-08", protocol.HostID(key), code); err != nil {
				t.Fatal(err)
			}
		}
		waiting, err := c.Members().Enrolments(t.Context(), core.EnrolmentPending)
		if err != nil || len(waiting) != 2 {
			t.Fatalf("%d wait, %v", len(waiting), err)
		}
		if _, err := c.Members().ApproveEnrolment(t.Context(), f.Admin(), waiting[0].ID, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Members().ApproveEnrolment(t.Context(), f.Admin(), waiting[1].ID, ""); !errors.Is(err, core.ErrExists) {
			t.Errorf("the second of one name: %v", err)
		}
		if h, err := c.Members().Host(t.Context(), "edge-08"); err != nil || h.Key != waiting[0].Key {
			t.Errorf("the host has key %s, %v", h.Key, err)
		}
	})
}

// claim asks for a name with the key of another name.
func claim(t *testing.T, f *coordtest.Fleet, id, key protocol.HostID, code string) (enrol.StateResponse, error) {
	t.Helper()
	a := f.Attempt(key, code)
	o, err := enrol.DecodeOffer(a.Offer)
	if err != nil {
		t.Fatal(err)
	}
	o.Host = id
	if a.Offer, err = o.Encode(); err != nil {
		t.Fatal(err)
	}
	begin, err := a.Begin()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.Coordinator().Members().BeginEnrolment(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	_, ring := f.Trust.RingInForce()
	_, own := f.Trust.Own()
	r, _, err := a.Reveal(answer, ring, own)
	if err != nil {
		t.Fatal(err)
	}
	return f.Coordinator().Members().OfferEnrolment(t.Context(), coordtest.Address, r)
}
