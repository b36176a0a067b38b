package core

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// PutJSON puts a value as JSON.
func PutJSON(tx Tx, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return tx.Values.Put(name, b)
}

// GetJSON reads a value that is JSON into v. It reports false if there is none, or an
// empty one.
func GetJSON(tx Tx, name string, v any) (bool, error) {
	b, err := tx.Values.Get(name)
	if errors.Is(err, ErrNotFound) || err == nil && len(b) == 0 {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return false, fmt.Errorf("value %s: %w", name, err)
	}
	return true, nil
}

// Tag names plain data as they are, in an ETag.
func Tag(v any) string {
	b, _ := json.Marshal(v) // texts, numbers, and lists and maps of them: it never fails
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Unread stands for the tag that a requester has not sent: such a change makes what is not
// there, and touches nothing that is.
const Unread = "*unread"

// AsRead refuses the change of a thing that is not as the requester has read it: as is the
// tag that was read, and is the tag of now, empty if the thing is not there. Of an empty as
// any will do, and of [Unread] none. It belongs in the transaction of the change.
func AsRead(thing, as, is string) error {
	switch {
	case as == "", as == is, as == Unread && is == "":
		return nil
	case as == Unread:
		return fmt.Errorf("%w: %s is there, and the request does not say which version of it was read; send its ETag as If-Match, or If-Match: * to replace or remove any version", ErrUnread, thing)
	}
	became := "was changed"
	if is == "" {
		became = "is not there any more, or never was,"
	}
	return fmt.Errorf("%w: %s %s since you read it, so nothing is changed now; read it again, and send your change with the new ETag", ErrChanged, thing, became)
}
