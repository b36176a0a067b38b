// Package access knows with what people and tools authenticate: the tokens of the API
// and what goes on by them, and the certificates of those who only read topics.
package access

import "github.com/hostler-io/hostler/coordinator/core"

// Room gives access to people and tools. All methods are safe for concurrent use.
type Room struct {
	base      *core.Base
	authority core.Authority
	keys      core.ViewerKeys
	bearers   bearers
	wrong     wrongTokens
}

// New returns an empty room.
func New(base *core.Base, authority core.Authority, keys core.ViewerKeys) *Room {
	return &Room{base: base, authority: authority, keys: keys}
}

// Load tells the keys which certificates of viewers count. It is called at the start.
func (r *Room) Load(tx core.Tx) error {
	all, err := tx.Access.Viewers()
	if err != nil {
		return err
	}
	for _, v := range all {
		r.setViewer(v)
	}
	return nil
}

// Expire ends what is served by tokens whose life is over. It is called each second.
func (r *Room) Expire() { r.bearers.expire(r.base.LifeMS()) }
