package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

func TestTokenLife(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		c, ctx := f.Coordinator(), t.Context()
		short, _, err := c.Access().CreateToken(ctx, f.Admin(), "bob", core.RoleOperator, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		long, tok, err := c.Access().CreateToken(ctx, f.Admin(), "bob", core.RoleViewer, 0)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := f.Authenticate(short); err != nil || a != (core.Actor{Name: "bob", Role: core.RoleOperator}) {
			t.Errorf("authenticated as %+v, %v", a, err)
		}
		after(time.Hour)
		if _, err := f.Authenticate(short); !errors.Is(err, core.ErrDenied) {
			t.Errorf("an expired token: %v", err)
		}
		if _, err := f.Authenticate(long); err != nil {
			t.Errorf("a token for ever: %v", err)
		}
		for range 2 { // twice does no harm
			if err := c.Access().RevokeToken(ctx, f.Admin(), tok.ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.Authenticate(long); !errors.Is(err, core.ErrDenied) {
			t.Errorf("a revoked token: %v", err)
		}
	})
}

// judgedStore does something when a token was read.
type judgedStore struct {
	core.Store
	read func()
}

func (s *judgedStore) View(ctx context.Context, f func(core.Tx) error) error {
	err := s.Store.View(ctx, f)
	if read := s.read; read != nil {
		s.read = nil
		read()
	}
	return err
}

// TestRevokedWhileJudged: a token that is revoked when it has been read, and is not
// known to serve anything yet, serves nothing.
func TestRevokedWhileJudged(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		store := &judgedStore{Store: f.Store()}
		f.RestartOn(store)
		synctest.Wait()
		secret, token, err := f.Coordinator().Access().CreateToken(t.Context(), f.Admin(), "bob", core.RoleOperator, 0)
		if err != nil {
			t.Fatal(err)
		}
		store.read = func() {
			if err := f.Coordinator().Access().RevokeToken(t.Context(), f.Admin(), token.ID); err != nil {
				t.Error(err)
			}
		}
		if by, err := f.Authenticate(secret); !errors.Is(err, core.ErrDenied) {
			t.Errorf("%+v is served by a revoked token: %v", by, err)
		}
	})
}

func TestViewerLife(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		c, ctx := f.Coordinator(), t.Context()
		if _, err := c.Access().CreateViewer(ctx, f.Admin(), string(h.ID)); !errors.Is(err, core.ErrConflict) {
			t.Errorf("a viewer with the name of a host: %v", err)
		}
		if _, err := c.Access().CreateViewer(ctx, f.Admin(), "eyes"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Access().CreateViewer(ctx, f.Admin(), "eyes"); !errors.Is(err, core.ErrExists) {
			t.Errorf("the same viewer twice: %v", err)
		}
		if err := c.Access().RevokeViewer(ctx, f.Admin(), "eyes"); err != nil {
			t.Fatal(err)
		}
		if cut := f.Cut(); len(cut) != 1 || cut[0] != (protocol.SAN{Kind: protocol.SANViewer, ID: "eyes"}) {
			t.Errorf("cut: %v", cut)
		}
		if _, err := c.Access().CreateViewer(ctx, f.Admin(), "eyes"); err != nil {
			t.Errorf("made again after its revocation: %v", err)
		}
	})
}
