package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol/san"
)

func TestTokenLife(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		c, ctx := f.Coordinator(), t.Context()
		short, _, err := c.Access().CreateToken(ctx, f.Admin(), access.Wish{Name: "bob", Role: core.RoleOperator, Life: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		long, tok, err := c.Access().CreateToken(ctx, f.Admin(), access.Wish{Name: "ann", Role: core.RoleViewer, Life: 0})
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

// TestOneTokenOfAName: whom the records name is one, for as long as his token is.
func TestOneTokenOfAName(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		room, ctx := f.Coordinator().Access(), t.Context()
		make := func(life time.Duration) (core.Token, error) {
			_, tok, err := room.CreateToken(ctx, f.Admin(), access.Wish{Name: "bob", Role: core.RoleOperator, Life: life})
			return tok, err
		}
		if _, err := make(time.Hour); err != nil {
			t.Fatal(err)
		}
		after(time.Hour - time.Second)
		if _, err := make(0); !errors.Is(err, core.ErrExists) || !strings.Contains(err.Error(), "revoke") {
			t.Errorf("a second one: %v", err)
		}
		after(time.Second)
		next, err := make(0)
		if err != nil {
			t.Fatalf("after the first has expired: %v", err)
		}
		if _, err := make(0); !errors.Is(err, core.ErrExists) {
			t.Errorf("a second one beside one for ever: %v", err)
		}
		if err := room.RevokeToken(ctx, f.Admin(), next.ID); err != nil {
			t.Fatal(err)
		}
		// An answer that was lost: asking again is harmless, for the same actor alone.
		wish := access.Wish{Name: "bob", Role: core.RoleOperator, Secret: "hst_" + strings.Repeat("A", 32)}
		secret, first, err := room.CreateToken(ctx, f.Admin(), wish)
		if err != nil || secret != wish.Secret {
			t.Fatalf("after the second was revoked: %v", err)
		}
		if secret, again, err := room.CreateToken(ctx, f.Admin(), wish); err != nil || secret != wish.Secret || again.ID != first.ID {
			t.Errorf("asked again: %v, %v", again, err)
		}
		f.Trust.AddPerson("bob", "bob")
		for why, c := range map[string]struct {
			by   core.Actor
			wish access.Wish
			want error
		}{
			"another actor":     {core.Actor{Name: "eve", Role: core.RoleAdmin}, wish, core.ErrExists},
			"another role":      {f.Admin(), access.Wish{Name: "bob", Role: core.RoleAdmin, Secret: wish.Secret}, core.ErrExists},
			"another name":      {f.Admin(), access.Wish{Name: "eve", Role: core.RoleOperator, Secret: wish.Secret}, core.ErrConflict},
			"another person":    {f.Admin(), access.Wish{Name: "bob", Person: "bob", Role: core.RoleOperator, Secret: wish.Secret}, core.ErrExists},
			"nobody's":          {f.Admin(), access.Wish{Name: "eve", Person: "eve", Role: core.RoleOperator}, core.ErrInvalid},
			"a password":        {f.Admin(), access.Wish{Name: "eve", Role: core.RoleOperator, Secret: "hst_secret"}, core.ErrInvalid},
			"without its start": {f.Admin(), access.Wish{Name: "eve", Role: core.RoleOperator, Secret: strings.Repeat("A", 32)}, core.ErrInvalid},
		} {
			if _, _, err := room.CreateToken(ctx, c.by, c.wish); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", why, err, c.want)
			}
		}
		all, err := room.Tokens(ctx, f.Admin())
		if err != nil || len(all) != 3 {
			t.Errorf("%d tokens, %v", len(all), err)
		}
		if err := room.RevokeToken(ctx, f.Admin(), first.ID); err != nil {
			t.Fatal(err)
		}
		if _, _, err := room.CreateToken(ctx, f.Admin(), wish); !errors.Is(err, core.ErrConflict) {
			t.Errorf("a secret that was revoked: %v", err)
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
		secret, token, err := f.Coordinator().Access().CreateToken(t.Context(), f.Admin(), access.Wish{Name: "bob", Role: core.RoleOperator, Life: 0})
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
		if cut := f.Cut(); len(cut) != 1 || cut[0] != (san.Name{Kind: san.Viewer, ID: "eyes"}) {
			t.Errorf("cut: %v", cut)
		}
		if _, err := c.Access().CreateViewer(ctx, f.Admin(), "eyes"); err != nil {
			t.Errorf("made again after its revocation: %v", err)
		}
	})
}
