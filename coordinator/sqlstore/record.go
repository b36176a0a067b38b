package sqlstore

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/sqldb"
)

// scanner is a row of a result.
type scanner interface{ Scan(dest ...any) error }

// one returns the only row of a query, or ErrNotFound.
func one[T any](t *sqldb.Tx, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	v, err := scan(t.QueryRow(query, args...))
	if errors.Is(err, sqldb.ErrNoRows) {
		err = core.ErrNotFound
	}
	return v, err
}

// list returns all rows of a query.
func list[T any](t *sqldb.Tx, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	var all []T
	for row, err := range t.Query(query, args...) {
		if err != nil {
			return nil, err
		}
		v, err := scan(row)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// exec runs a statement that writes, and returns how many rows it changed.
func exec(t *sqldb.Tx, query string, args ...any) (int64, error) {
	for i, arg := range args {
		switch v := arg.(type) {
		case uint64:
			if v > math.MaxInt64 { // a column holds 63 bits
				return 0, fmt.Errorf("number %d: %w", v, core.ErrInvalid)
			}
		case encoded:
			if v.err != nil {
				return 0, v.err
			}
			args[i] = v.text
		}
	}
	n, err := t.Exec(query, args...)
	if errors.Is(err, sqldb.ErrUnique) {
		err = fmt.Errorf("%w: %w", core.ErrExists, err)
	}
	return n, err
}

// wrap says what an operation was about.
func wrap(err error, what string, id any) error {
	if err != nil {
		return fmt.Errorf("%s %v: %w", what, id, err)
	}
	return nil
}

// atMost is a limit for SQLite, to which a negative one means none.
func atMost(limit int) int { return max(limit, 0) }

// upTo is a number for a comparison; columns hold 63 bits.
func upTo(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// text is the column of an id that may be missing.
func text[T interface {
	IsZero() bool
	String() string
}](id T) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// textInto scans such a column into a zero id.
func textInto(id encoding.TextUnmarshaler) textScanner { return textScanner{id} }

type textScanner struct{ into encoding.TextUnmarshaler }

// Scan implements [database/sql.Scanner].
func (s textScanner) Scan(column any) error {
	text, ok := column.(string)
	switch {
	case !ok:
		return fmt.Errorf("column of an id holds a %T", column)
	case text == "":
		return nil
	}
	return s.into.UnmarshalText([]byte(text))
}

// encoded is the column of a list or structure; exec unwraps it.
type encoded struct {
	text []byte
	err  error
}

func asJSON(v any) encoded {
	text, err := json.Marshal(v)
	return encoded{text, err}
}

// jsonInto scans such a column into a zero value.
func jsonInto(v any) jsonScanner { return jsonScanner{v} }

type jsonScanner struct{ into any }

// Scan implements [database/sql.Scanner].
func (s jsonScanner) Scan(column any) error {
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("column of a structure holds a %T", column)
	}
	return json.Unmarshal(text, s.into)
}

// bit is the column of a yes or no.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
