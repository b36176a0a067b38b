package sqlstore

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type access tx

const (
	tokenColumns = `id, name, role, hash, created_ms, created_by, expires_ms, revoked_ms, person`

	getToken       = `SELECT ` + tokenColumns + ` FROM token WHERE id = $1`
	getTokenByHash = `SELECT ` + tokenColumns + ` FROM token WHERE hash = $1`
	listTokens     = `SELECT ` + tokenColumns + ` FROM token ORDER BY id`

	viewerColumns = `name, serial, created_ms, created_by, revoked_ms`

	getViewer   = `SELECT ` + viewerColumns + ` FROM viewer WHERE name = $1`
	listViewers = `SELECT ` + viewerColumns + ` FROM viewer ORDER BY name`
)

var (
	putToken  = upsert("token", 1, tokenColumns)
	putViewer = upsert("viewer", 1, viewerColumns)
)

func tokenFields(k *core.Token) []any {
	return []any{&k.ID, &k.Name, &k.Role, whole(&k.Hash), &k.CreatedMS, &k.CreatedBy, &k.ExpiresMS, &k.RevokedMS, &k.Person}
}

func viewerFields(v *core.Viewer) []any {
	return []any{&v.Name, &v.Serial, &v.CreatedMS, &v.CreatedBy, &v.RevokedMS}
}

func (t access) Token(id string) (core.Token, error) {
	k, err := one(t.db, tokenFields, getToken, id)
	return k, wrap(err, "token", id)
}

func (t access) TokenByHash(hash protocol.Digest) (core.Token, error) {
	k, err := one(t.db, tokenFields, getTokenByHash, hash.String())
	return k, wrap(err, "token", "by its hash")
}

func (t access) PutToken(k core.Token) error {
	_, err := exec(t.db, putToken, tokenFields(&k)...)
	return wrap(err, "putting token", k.ID)
}

func (t access) Tokens() ([]core.Token, error) {
	all, err := list(t.db, tokenFields, listTokens)
	return all, wrap(err, "listing", "tokens")
}

func (t access) Viewer(name string) (core.Viewer, error) {
	v, err := one(t.db, viewerFields, getViewer, name)
	return v, wrap(err, "viewer", name)
}

func (t access) PutViewer(v core.Viewer) error {
	_, err := exec(t.db, putViewer, viewerFields(&v)...)
	return wrap(err, "putting viewer", v.Name)
}

func (t access) Viewers() ([]core.Viewer, error) {
	all, err := list(t.db, viewerFields, listViewers)
	return all, wrap(err, "listing", "viewers")
}
