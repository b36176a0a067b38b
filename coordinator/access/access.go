package access

import (
	"cmp"
	"context"
	"encoding/base32"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/protocol/san"
)

// tokenPrefix starts every API token, so that people and secret scanners know
// one when they see it.
const tokenPrefix = "hst_"

// Wish is what a token is to be. Person is the person of the ring to whom it is bound, or
// empty. Life 0 is for ever. Secret is made up by who asks, so that asking again is
// harmless, or empty.
type Wish struct {
	Name   string
	Person string
	Role   core.TokenRole
	Life   time.Duration
	Secret string
}

// CreateToken makes an API token and returns its secret, which is nowhere stored and
// never shown again. Records tell of people by the names of their tokens, so a name has
// one token that is valid: for a second one it returns [core.ErrExists]. The same wish
// with the same secret, of the same actor, is no second one.
func (r *Room) CreateToken(ctx context.Context, by core.Actor, want Wish) (secret string, t core.Token, err error) {
	if err := by.May(core.RoleAdmin, "create tokens"); err != nil {
		return "", core.Token{}, err
	}
	if core.Rank(want.Role) == 0 {
		return "", core.Token{}, fmt.Errorf("%w: %.40q is no role: want viewer, operator, approver or admin", core.ErrInvalid, want.Role)
	}
	if _, err := protocol.ParseHostID(want.Name); err != nil {
		return "", core.Token{}, fmt.Errorf("%w: the name of a token is like that of a host: %w", core.ErrInvalid, err)
	}
	if want.Person != "" && !slices.ContainsFunc(r.base.Keys.Members(), func(m protocol.Member) bool { return m.Person == want.Person && !m.Revoked }) {
		return "", core.Token{}, fmt.Errorf("%w: the ring has no person %.70q; see whom it has: hostler fleet ring show", core.ErrInvalid, want.Person)
	}
	if want.Secret != "" && !wellMade(want.Secret) {
		return "", core.Token{}, fmt.Errorf("%w: a secret is %s and 32 characters of base32, all drawn at random", core.ErrInvalid, tokenPrefix)
	}
	if secret, t, err = newToken(r.base.Rand, r.base.LifeMS(), by.Name, want.Name, want.Role, want.Life); err != nil {
		return "", core.Token{}, err
	}
	t.Person = want.Person
	if want.Secret != "" {
		secret, t.Hash = want.Secret, protocol.Sum([]byte(want.Secret))
	}
	made := t
	err = r.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		t = made
		all, err := tokensOf(tx, want.Name)
		if err != nil {
			return err
		}
		for _, old := range all {
			switch {
			case old.Hash == t.Hash && old.Role == t.Role && old.Person == t.Person && old.CreatedBy == t.CreatedBy && !ended(old, r.base.LifeMS()):
				t = old // its answer was lost
				return nil
			case !ended(old, r.base.LifeMS()):
				return fmt.Errorf("a valid token of %s: %w; revoke it first, or choose another name: hostler token revoke %s", want.Name, core.ErrExists, want.Name)
			}
			old.RevokedMS = r.base.NowMS() // it has expired by a date that may yet be put right
			if err := tx.Access.PutToken(old); err != nil {
				return err
			}
		}
		switch _, err := tx.Access.TokenByHash(t.Hash); {
		case err == nil:
			return fmt.Errorf("%w: this secret was another token's", core.ErrConflict)
		case !errors.Is(err, core.ErrNotFound):
			return err
		}
		return cmp.Or(tx.Access.PutToken(t), r.base.Audit(tx, by, "token.create", t.ID, tokenDetail(t)))
	})
	r.bearers.changed()
	return secret, t, err
}

// tokenDetail is what the audit log says of a new token.
func tokenDetail(t core.Token) map[string]any {
	detail := map[string]any{"name": t.Name, "role": t.Role}
	if t.Person != "" {
		detail["person"] = t.Person
	}
	return detail
}

// wellMade reports whether a secret is like those that are made here.
func wellMade(secret string) bool {
	text, ok := strings.CutPrefix(secret, tokenPrefix)
	b, err := base32.StdEncoding.DecodeString(text)
	return ok && err == nil && len(b) == 20
}

// LifeMS is the clock by which tokens expire.
func (r *Room) LifeMS() int64 { return r.base.LifeMS() }

// tokensOf returns the tokens of a name that were not revoked.
func tokensOf(tx core.Tx, name string) ([]core.Token, error) {
	all, err := tx.Access.Tokens()
	return slices.DeleteFunc(all, func(t core.Token) bool { return t.Name != name || t.RevokedMS != 0 }), err
}

// ended reports whether a token was revoked or has expired.
func ended(t core.Token, lifeMS int64) bool {
	return t.RevokedMS != 0 || t.ExpiresMS != 0 && core.Over(t.CreatedMS, t.ExpiresMS, lifeMS)
}

// newToken draws a token. The secret has 160 bits.
func newToken(random io.Reader, nowMS int64, by, name string, role core.TokenRole, life time.Duration) (string, core.Token, error) {
	var raw [26]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", core.Token{}, fmt.Errorf("draw a token: %w", err)
	}
	secret := tokenPrefix + base32.StdEncoding.EncodeToString(raw[:20])
	t := core.Token{ID: hex.EncodeToString(raw[20:]), Name: name, Role: role, Hash: protocol.Sum([]byte(secret)), CreatedMS: nowMS, CreatedBy: by}
	if life > 0 {
		t.ExpiresMS = nowMS + life.Milliseconds()
	}
	return secret, t, nil
}

// FirstToken makes the admin token of a new store, with which all others are
// made. It refuses a store that has tokens; but unseen tells that nobody was
// shown the first one, which is then replaced if no coordinator has run yet.
func FirstToken(ctx context.Context, store core.Store, random io.Reader, now time.Time, unseen bool) (string, error) {
	secret, t, err := newToken(random, now.UnixMilli(), "init", "admin", core.RoleAdmin, 0)
	if err != nil {
		return "", err
	}
	err = core.Update(ctx, store, failpoint.AccessKept, func(tx core.Tx) error {
		all, err := tx.Access.Tokens()
		if err != nil {
			return err
		}
		if len(all) > 0 {
			started, err := core.Started(tx)
			if !unseen || len(all) > 1 || started || err != nil {
				return fmt.Errorf("first token: %w", errors.Join(core.ErrExists, err))
			}
			all[0].RevokedMS = now.UnixMilli()
			if err := tx.Access.PutToken(all[0]); err != nil {
				return err
			}
		}
		return keepToken(tx, t)
	})
	return secret, err
}

// AdminToken makes an admin token in a store that no coordinator uses. by is who
// asks for it, and its name: tokens that it had before are revoked.
func AdminToken(ctx context.Context, store core.Store, random io.Reader, now time.Time, by string) (string, error) {
	secret, t, err := newToken(random, now.UnixMilli(), by, by, core.RoleAdmin, 0)
	if err != nil {
		return "", err
	}
	return secret, core.Update(ctx, store, failpoint.AccessKept, func(tx core.Tx) error {
		all, err := tokensOf(tx, by)
		if err != nil {
			return err
		}
		for _, old := range all {
			old.RevokedMS = now.UnixMilli()
			if err := errors.Join(tx.Access.PutToken(old), record(tx, now, by, "token.revoke", old.ID, nil)); err != nil {
				return err
			}
		}
		return keepToken(tx, t)
	})
}

// keepToken puts a token into a store that no coordinator uses.
func keepToken(tx core.Tx, t core.Token) error {
	if err := tx.Access.PutToken(t); err != nil {
		return err
	}
	return record(tx, time.UnixMilli(t.CreatedMS), t.CreatedBy, "token.create", t.ID, map[string]any{"name": t.Name, "role": string(t.Role)})
}

// record appends to the audit log of a store that no coordinator uses.
func record(tx core.Tx, at time.Time, by, verb, object string, detail map[string]any) error {
	record, err := audit.Record{AtMS: at.UnixMilli(), Actor: by, Verb: verb, Object: object, Detail: detail}.Encode()
	if err != nil {
		return err
	}
	return tx.Audit.Append(record)
}

// token returns the token of a secret. Any fault is [core.ErrDenied]: nothing tells a
// guesser how near they came.
func (r *Room) token(ctx context.Context, secret string) (t core.Token, err error) {
	hash := protocol.Sum([]byte(secret))
	t, known := r.bearers.recall(hash)
	if !known {
		t, err = core.Read(ctx, r.base, func(tx core.Tx) (core.Token, error) { return tx.Access.TokenByHash(hash) })
	}
	switch {
	case errors.Is(err, core.ErrNotFound), err == nil && ended(t, r.base.LifeMS()):
		return core.Token{}, fmt.Errorf("%w: the token is unknown, revoked or expired", core.ErrDenied)
	case err != nil:
		return core.Token{}, err
	}
	return t, nil
}

// Tokens returns all tokens, without secrets.
func (r *Room) Tokens(ctx context.Context, by core.Actor) ([]core.Token, error) {
	if err := by.May(core.RoleAdmin, "list tokens"); err != nil {
		return nil, err
	}
	return core.Read(ctx, r.base, func(tx core.Tx) ([]core.Token, error) { return tx.Access.Tokens() })
}

// RevokeToken ends a token, and what is served by it.
func (r *Room) RevokeToken(ctx context.Context, by core.Actor, id string) error {
	if err := by.May(core.RoleAdmin, "revoke tokens"); err != nil {
		return err
	}
	err := r.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		t, err := tx.Access.Token(id)
		if err != nil {
			return fmt.Errorf("token %.40q: %w", id, err)
		}
		if t.RevokedMS != 0 {
			return nil
		}
		t.RevokedMS = r.base.NowMS()
		return cmp.Or(tx.Access.PutToken(t), r.base.Audit(tx, by, "token.revoke", id, nil))
	})
	r.bearers.changed() // also after an error: it may be that of a disk which has it all the same
	if err == nil {
		r.bearers.revoked(id)
	}
	return err
}

// ViewerPass is what a viewer connects to the broker with, PEM.
type ViewerPass struct {
	core.Viewer
	Certificate, Key, CA []byte
}

// CreateViewer makes a certificate that may read all topics and say nothing.
// Its key is nowhere stored. A viewer that was revoked may be made again.
func (r *Room) CreateViewer(ctx context.Context, by core.Actor, name string) (ViewerPass, error) {
	if err := by.May(core.RoleAdmin, "create viewers"); err != nil {
		return ViewerPass{}, err
	}
	if _, err := protocol.ParseHostID(name); err != nil {
		return ViewerPass{}, fmt.Errorf("%w: the name of a viewer is like that of a host: %w", core.ErrInvalid, err)
	}
	cert, key, serial, err := r.authority.IssueViewer(name)
	if err != nil {
		return ViewerPass{}, fmt.Errorf("issue the certificate of viewer %s: %w", name, err)
	}
	v := core.Viewer{Name: name, Serial: serial, CreatedMS: r.base.NowMS(), CreatedBy: by.Name}
	err = r.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		old, err := tx.Access.Viewer(name)
		if err == nil && old.RevokedMS == 0 {
			return fmt.Errorf("viewer %s: %w; revoke it first", name, core.ErrExists)
		}
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		if _, err := tx.Hosts.Get(protocol.HostID(name)); err == nil {
			return fmt.Errorf("%w: a host is named %s; a viewer of that name would confuse people", core.ErrConflict, name)
		}
		return cmp.Or(tx.Access.PutViewer(v), r.base.Audit(tx, by, "viewer.create", name, map[string]any{"serial": serial}))
	})
	if err != nil {
		return ViewerPass{}, err
	}
	r.setViewer(v)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.authority.CA()})
	return ViewerPass{Viewer: v, Certificate: cert, Key: key, CA: ca}, nil
}

// setViewer tells the keys which certificate of a viewer counts. The store keeps
// the newest of each alone, so those before it must end without being named.
func (r *Room) setViewer(v core.Viewer) {
	serial := v.Serial
	if v.RevokedMS != 0 {
		serial = ""
	}
	r.keys.SetViewer(v.Name, serial)
}

// Viewers returns all viewers.
func (r *Room) Viewers(ctx context.Context, by core.Actor) ([]core.Viewer, error) {
	if err := by.May(core.RoleAdmin, "list viewers"); err != nil {
		return nil, err
	}
	return core.Read(ctx, r.base, func(tx core.Tx) ([]core.Viewer, error) { return tx.Access.Viewers() })
}

// RevokeViewer ends a viewer's certificate and cuts its connections.
func (r *Room) RevokeViewer(ctx context.Context, by core.Actor, name string) error {
	if err := by.May(core.RoleAdmin, "revoke viewers"); err != nil {
		return err
	}
	var v core.Viewer
	err := r.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) (err error) {
		if v, err = tx.Access.Viewer(name); err != nil {
			return fmt.Errorf("viewer %.70q: %w", name, err)
		}
		if v.RevokedMS != 0 {
			return nil
		}
		v.RevokedMS = r.base.NowMS()
		return cmp.Or(tx.Access.PutViewer(v), r.base.Audit(tx, by, "viewer.revoke", name, map[string]any{"serial": v.Serial}))
	})
	if err != nil {
		return err
	}
	r.setViewer(v)
	r.base.Broker.Disconnect(san.Name{Kind: san.Viewer, ID: v.Name})
	return nil
}
