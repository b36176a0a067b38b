package protocol

import (
	"bytes"
	"fmt"
)

// readHeader is check 7: BODY is I-JSON, starts with type and fleet, and its
// header has what its class needs and nothing of another class.
func readHeader(body []byte, rule typeRule) (Header, error) {
	if err := CheckJSON(body); err != nil {
		return Header{}, err
	}
	if !separated(body) {
		return Header{}, refuse(ErrHeader, "it does not start with its type and its fleet")
	}
	if rule.class == ClassDocument {
		var d documentHeader
		if err := decodeChecked(body, &d, true); err != nil {
			return Header{}, refuse(ErrHeader, "%s", err)
		}
		return Header{Type: d.Type, Fleet: d.Fleet}, nil
	}
	var h Header
	// Members beyond the header belong to the payload. Items and chunks have
	// no payload there, so for them the header is everything.
	lax := rule.class == ClassState || rule.lax
	if err := decodeChecked(body, &h, lax); err != nil {
		return Header{}, refuse(ErrHeader, "%s", err)
	}
	if err := h.check(rule); err != nil {
		return Header{}, refuse(ErrHeader, "%s", err)
	}
	return h, nil
}

// documentHeader is what all documents start with.
type documentHeader struct {
	Type  Type    `json:"hostler"`
	Fleet FleetID `json:"fleet"`
}

// separated reports whether BODY starts {"hostler":"T/V","fleet":"<32 hex>".
func separated(body []byte) bool {
	rest, ok := bytes.CutPrefix(body, []byte(`{"hostler":"`))
	if !ok {
		return false
	}
	_, rest, _ = bytes.Cut(rest, []byte(`"`))
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"fleet":"`)); !ok || len(rest) < 33 {
		return false
	}
	var f FleetID
	return f.UnmarshalText(rest[:32]) == nil && rest[32] == '"'
}

// check holds a header against its class.
func (h *Header) check(rule typeRule) error {
	down := rule.roles[0] == RoleCoordinator
	switch {
	case h.Ring == 0:
		return fmt.Errorf("it names no ring")
	case down && (h.Term.Ring == 0 || h.Term.Counter == 0), !down && h.Term != Term{}:
		return fmt.Errorf("a term belongs to a coordinator's message, and to no other")
	case h.Term.Ring > h.Ring:
		return fmt.Errorf("its term is of ring %d, and it names ring %d", h.Term.Ring, h.Ring)
	case !down && h.Revoked != 0:
		return fmt.Errorf("the number of the revocation list belongs to a coordinator's message")
	case rule.heard && !h.Heard.valid(), !rule.heard && h.Heard != Seq{} && !h.carries(rule):
		return fmt.Errorf("heard is allowed only in answers to a host")
	case h.LeftMS < 0, h.LeftMS != 0 && rule.stream != StreamOrder && !h.carries(rule):
		return fmt.Errorf("left_ms belongs to an order and is not negative")
	case !h.Chal.IsZero() && (down || rule.class != ClassState):
		return fmt.Errorf("a challenge belongs to a host's state message")
	}
	var ok bool
	switch noItem, noChunk := h.noItem(), h.noChunk(); rule.class {
	case ClassState:
		ok = h.Seq.valid() && noItem && noChunk
	case ClassItem:
		ok = !h.Store.IsZero() && h.Stream != "" && h.N > 0 && len(h.Item) > 0 && noChunk && h.Seq == Seq{}
	case ClassChunk:
		ok = h.chunk(down) && noItem && h.Seq == Seq{}
	}
	if !ok {
		return fmt.Errorf("its members are not those of a %s", rule.class)
	}
	return nil
}

func (h *Header) chunk(down bool) bool {
	return !h.Action.IsZero() && h.Attempt > 0 && (h.FD.goes(down) || h.whole()) && (h.FD == Samples) == (h.Type == TypeSamples) && h.Offset >= 0 && h.Size >= 0 && h.Size <= ChunkSize &&
		(h.Gone == 0 || !down && h.Gone > h.Offset && h.Size == 0)
}

// whole reports whether h may be of a chunk of what is typed, which has its places
// within, or of samples.
func (h *Header) whole() bool {
	return (h.FD == TTYInput || h.FD == Samples) && h.Offset == 0 && h.Size > 0 && h.Gone == 0
}

// carries reports whether h may be of a control that carries an action: as with
// an order, it matters when it arrives.
func (h *Header) carries(rule typeRule) bool {
	return rule.stream == StreamControl && h.Heard.valid()
}

func (h *Header) noItem() bool {
	return h.Store.IsZero() && h.Stream == "" && h.N == 0 && len(h.Item) == 0
}

func (h *Header) noChunk() bool {
	return h.Action.IsZero() && h.Attempt == 0 && h.FD == "" && h.Offset == 0 && h.Gone == 0 && h.Size == 0 && h.SHA256.IsZero()
}

// IsHello reports whether the header of a presence is that of a hello: the
// only message of a host, beside the will, that carries no challenge.
func (h *Header) IsHello() bool {
	return h.Type == TypePresence && h.Chal.IsZero() && h.Seq.K < KWill
}
