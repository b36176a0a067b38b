package sqlstore

import (
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/sqldb"
)

// one returns the only row of a query, or ErrNotFound. fields are the places of the
// columns in a record.
func one[T any](t *sqldb.Tx, fields func(*T) []any, query string, args ...any) (v T, err error) {
	err = t.QueryRow(query, args...).Scan(fields(&v)...)
	if errors.Is(err, sqldb.ErrNoRows) {
		err = core.ErrNotFound
	}
	return v, err
}

// list returns all rows of a query.
func list[T any](t *sqldb.Tx, fields func(*T) []any, query string, args ...any) (all []T, _ error) {
	for row, err := range t.Query(query, args...) {
		var v T
		if err == nil {
			err = row.Scan(fields(&v)...)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// single is the only column of a row.
func single[T any](v *T) []any { return []any{v} }

// exec runs a statement that writes, and returns how many rows it changed. Its
// arguments are values, or the places of the columns in a record.
func exec(t *sqldb.Tx, query string, args ...any) (int64, error) {
	for _, arg := range args {
		n, ok := arg.(uint64)
		if p, pointer := arg.(*uint64); pointer {
			n, ok = *p, true
		}
		if ok && n > math.MaxInt64 { // a column holds 63 bits
			return 0, fmt.Errorf("number %d: %w", n, core.ErrInvalid)
		}
	}
	n, err := t.Exec(query, args...)
	if errors.Is(err, sqldb.ErrUnique) {
		err = fmt.Errorf("%w: %w", core.ErrExists, err)
	}
	return n, err
}

// insert is a statement that adds a record.
func insert(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + places(0, strings.Count(columns, ",")+1) + ")"
}

// places are those of so many arguments, behind the first ones.
func places(behind, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("$%d", behind+i+1)
	}
	return strings.Join(all, ", ")
}

// atOnce is how many records one statement adds at most: statements are kept prepared.
const atOnce = 8

// several makes of a statement that adds a record those that add one, two and more.
func several(one string) (texts [atOnce]string) {
	n := strings.Count(one, "$")
	last := fmt.Sprintf("$%d)", n)
	for i := range texts {
		texts[i] = one
		one = strings.Replace(one, last, fmt.Sprintf("%s, (%s)", last, places((i+1)*n, n)), 1)
		last = fmt.Sprintf("$%d)", (i+2)*n)
	}
	return texts
}

// insertAll adds records with the statements of several.
func insertAll[T any](t *sqldb.Tx, texts [atOnce]string, all []T, fields func(*T) []any) error {
	for some := range slices.Chunk(all, atOnce) {
		var args []any
		for i := range some {
			args = append(args, fields(&some[i])...)
		}
		if _, err := exec(t, texts[len(some)-1], args...); err != nil {
			return err
		}
	}
	return nil
}

// upsert is a statement that adds a record, or replaces the one that has its key: the
// first columns, so many.
func upsert(table string, key int, columns string) string {
	all := strings.Split(columns, ",")
	var set []string
	for _, c := range all[key:] {
		c = strings.TrimSpace(c)
		set = append(set, c+" = excluded."+c)
	}
	return insert(table, columns) + " ON CONFLICT (" + strings.Join(all[:key], ",") + ") DO UPDATE SET " + strings.Join(set, ", ")
}

// update is a statement that replaces the record whose key is the first column.
func update(table, columns string) string {
	key, rest, _ := strings.Cut(columns, ",")
	var set []string
	for i, c := range strings.Split(rest, ",") {
		set = append(set, fmt.Sprintf("%s = $%d", strings.TrimSpace(c), i+2))
	}
	return "UPDATE " + table + " SET " + strings.Join(set, ", ") + " WHERE " + key + " = $1"
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

// id is what the ids of package protocol have in common.
type id interface {
	encoding.TextUnmarshaler
	IsZero() bool
	String() string
}

// text is the column of an id that may be missing, an empty text then; whole is that of
// one that is written whatever it is. Both are read into a zero id.
func text(v id) textColumn  { return textColumn{v, true} }
func whole(v id) textColumn { return textColumn{v, false} }

type textColumn struct {
	id    id
	empty bool // a zero id is an empty text
}

// Value implements [driver.Valuer].
func (c textColumn) Value() (driver.Value, error) {
	if c.empty && c.id.IsZero() {
		return "", nil
	}
	return c.id.String(), nil
}

// Scan implements [database/sql.Scanner].
func (c textColumn) Scan(column any) error {
	text, ok := column.(string)
	switch {
	case !ok:
		return fmt.Errorf("column of an id holds a %T", column)
	case text == "":
		return nil
	}
	return c.id.UnmarshalText([]byte(text))
}

// asJSON is the column of a list or structure. It is read into a zero value.
func asJSON(v any) jsonColumn { return jsonColumn{v} }

type jsonColumn struct{ v any }

// Value implements [driver.Valuer].
func (c jsonColumn) Value() (driver.Value, error) { return json.Marshal(c.v) }

// Scan implements [database/sql.Scanner].
func (c jsonColumn) Scan(column any) error {
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("column of a structure holds a %T", column)
	}
	return json.Unmarshal(text, c.v)
}
