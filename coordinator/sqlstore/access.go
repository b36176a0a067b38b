package sqlstore

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type access tx

const (
	tokenColumns = `id, name, role, hash, created_ms, created_by, expires_ms, revoked_ms`

	getToken       = `SELECT ` + tokenColumns + ` FROM token WHERE id = $1`
	getTokenByHash = `SELECT ` + tokenColumns + ` FROM token WHERE hash = $1`
	listTokens     = `SELECT ` + tokenColumns + ` FROM token ORDER BY id`
	putToken       = `INSERT INTO token (` + tokenColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, role = excluded.role, hash = excluded.hash,
		created_ms = excluded.created_ms, created_by = excluded.created_by, expires_ms = excluded.expires_ms,
		revoked_ms = excluded.revoked_ms`

	viewerColumns = `name, serial, created_ms, created_by, revoked_ms`

	getViewer   = `SELECT ` + viewerColumns + ` FROM viewer WHERE name = $1`
	listViewers = `SELECT ` + viewerColumns + ` FROM viewer ORDER BY name`
	putViewer   = `INSERT INTO viewer (` + viewerColumns + `) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (name) DO UPDATE SET serial = excluded.serial, created_ms = excluded.created_ms,
		created_by = excluded.created_by, revoked_ms = excluded.revoked_ms`
)

func scanToken(r scanner) (k core.Token, err error) {
	err = r.Scan(&k.ID, &k.Name, &k.Role, textInto(&k.Hash), &k.CreatedMS, &k.CreatedBy, &k.ExpiresMS, &k.RevokedMS)
	return k, err
}

func (t access) Token(id string) (core.Token, error) {
	k, err := one(t.db, scanToken, getToken, id)
	return k, wrap(err, "token", id)
}

func (t access) TokenByHash(hash protocol.Digest) (core.Token, error) {
	k, err := one(t.db, scanToken, getTokenByHash, hash.String())
	return k, wrap(err, "token", "by its hash")
}

func (t access) PutToken(k core.Token) error {
	_, err := exec(t.db, putToken, k.ID, k.Name, k.Role, k.Hash.String(), k.CreatedMS, k.CreatedBy, k.ExpiresMS, k.RevokedMS)
	return wrap(err, "putting token", k.ID)
}

func (t access) Tokens() ([]core.Token, error) {
	all, err := list(t.db, scanToken, listTokens)
	return all, wrap(err, "listing", "tokens")
}

func scanViewer(r scanner) (v core.Viewer, err error) {
	err = r.Scan(&v.Name, &v.Serial, &v.CreatedMS, &v.CreatedBy, &v.RevokedMS)
	return v, err
}

func (t access) Viewer(name string) (core.Viewer, error) {
	v, err := one(t.db, scanViewer, getViewer, name)
	return v, wrap(err, "viewer", name)
}

func (t access) PutViewer(v core.Viewer) error {
	_, err := exec(t.db, putViewer, v.Name, v.Serial, v.CreatedMS, v.CreatedBy, v.RevokedMS)
	return wrap(err, "putting viewer", v.Name)
}

func (t access) Viewers() ([]core.Viewer, error) {
	all, err := list(t.db, scanViewer, listViewers)
	return all, wrap(err, "listing", "viewers")
}
