package core

import (
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
