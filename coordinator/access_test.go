package coordinator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
)

func TestTokenLife(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		c, ctx := f.Coordinator(), t.Context()
		short, _, err := c.CreateToken(ctx, f.Admin(), "bob", coordinator.RoleOperator, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		long, tok, err := c.CreateToken(ctx, f.Admin(), "bob", coordinator.RoleViewer, 0)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := c.Authenticate(ctx, short); err != nil || a != (coordinator.Actor{Name: "bob", Role: coordinator.RoleOperator}) {
			t.Errorf("authenticated as %+v, %v", a, err)
		}
		after(time.Hour)
		if _, err := c.Authenticate(ctx, short); !errors.Is(err, coordinator.ErrDenied) {
			t.Errorf("an expired token: %v", err)
		}
		if _, err := c.Authenticate(ctx, long); err != nil {
			t.Errorf("a token for ever: %v", err)
		}
		for range 2 { // twice does no harm
			if err := c.RevokeToken(ctx, f.Admin(), tok.ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Authenticate(ctx, long); !errors.Is(err, coordinator.ErrDenied) {
			t.Errorf("a revoked token: %v", err)
		}
	})
}

func TestViewerLife(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		c, ctx := f.Coordinator(), t.Context()
		if _, err := c.CreateViewer(ctx, f.Admin(), string(h.ID)); !errors.Is(err, coordinator.ErrConflict) {
			t.Errorf("a viewer with the name of a host: %v", err)
		}
		if _, err := c.CreateViewer(ctx, f.Admin(), "eyes"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CreateViewer(ctx, f.Admin(), "eyes"); !errors.Is(err, coordinator.ErrExists) {
			t.Errorf("the same viewer twice: %v", err)
		}
		if err := c.RevokeViewer(ctx, f.Admin(), "eyes"); err != nil {
			t.Fatal(err)
		}
		if cut := f.Cut(); len(cut) != 1 || cut[0] != (protocol.SAN{Kind: protocol.SANViewer, ID: "eyes"}) {
			t.Errorf("cut: %v", cut)
		}
		if _, err := c.CreateViewer(ctx, f.Admin(), "eyes"); err != nil {
			t.Errorf("made again after its revocation: %v", err)
		}
	})
}
