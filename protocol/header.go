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
	_, rest, ok = bytes.Cut(rest, []byte(`"`))
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"fleet":"`)); !ok || len(rest) < 33 {
		return false
	}
	var f FleetID
	return f.UnmarshalText(rest[:32]) == nil && rest[32] == '"'
}

// check holds a header against its class.
func (h *Header) check(rule typeRule) error {
	if h.Ring == 0 {
		return fmt.Errorf("it names no ring")
	}
	if down := rule.roles[0] == RoleCoordinator; down != (h.Term != Term{}) {
		return fmt.Errorf("a term belongs to a coordinator's message, and to no other")
	}
	state := h.Seq.Inc > 0 && h.Seq.Conn > 0 && h.Seq.K > 0
	item := !h.Store.IsZero() && h.Stream != "" && h.N > 0 && len(h.Item) > 0
	chunk := !h.Action.IsZero() && h.Attempt > 0 && (h.FD == Stdout || h.FD == Stderr) && h.Offset >= 0 && h.Size > 0
	noItem := h.Store.IsZero() && h.Stream == "" && h.N == 0 && len(h.Item) == 0
	noChunk := h.Action.IsZero() && h.Attempt == 0 && h.FD == "" && h.Offset == 0 && h.Size == 0 && h.SHA256.IsZero()
	ok := false
	switch rule.class {
	case ClassState:
		ok = state && noItem && noChunk
	case ClassItem:
		ok = item && noChunk && h.Seq == Seq{}
	case ClassChunk:
		ok = chunk && noItem && h.Seq == Seq{}
	}
	if !ok {
		return fmt.Errorf("its members are not those of a %s", rule.class)
	}
	return nil
}
