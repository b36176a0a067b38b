package sqldb

import (
	"context"
	"database/sql"
	"iter"
)

// Tx is a transaction as the function given to [DB.Update] or [DB.View] sees it.
// It belongs to that call and that goroutine, and ends when the function returns.
//
// Arguments are int64 (and the other integers), float64, string, []byte, bool,
// nil, named types of these kinds, and [database/sql/driver.Valuer]. Statements
// are prepared once per connection and kept by their text: let texts be constant
// and values arguments.
type Tx struct {
	ctx   context.Context // of a View; Background in an Update, which runs to its end
	conn  *conn
	ended bool
	lost  error // SQLite may have undone the whole transaction
}

// Exec runs one statement and returns the number of rows it changed. An error
// undoes this statement alone, and the function may go on, but for ErrFull,
// ErrIO and ErrCorrupt: after these each further use of tx fails in the same way,
// and so does the whole batch.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	s, err := tx.take(query)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(tx.ctx, args...)
	if err := tx.give(query, s, err); err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Query runs one statement and yields its rows. An error is yielded last, with
// the zero Row. The rows are read as the loop asks for them, and leaving the loop
// ends the statement. Other statements may run meanwhile; whether rows that they
// change are yielded later is not defined.
func (tx *Tx) Query(query string, args ...any) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := tx.query(yield, query, args); err != nil {
			yield(Row{}, err)
		}
	}
}

// query returns nil when the caller wants no more.
func (tx *Tx) query(yield func(Row, error) bool, query string, args []any) (err error) {
	s, err := tx.take(query)
	if err != nil {
		return err
	}
	wanted := true
	defer func() {
		if err = tx.give(query, s, err); !wanted {
			err = nil
		}
	}()
	rows, err := s.QueryContext(tx.ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if wanted = yield(Row{rows: rows}, nil); !wanted {
			return nil
		}
	}
	return rows.Err()
}

// All returns what scan makes of each row of a query.
func All[T any](tx *Tx, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	var all []T
	for r, err := range tx.Query(query, args...) {
		if err != nil {
			return nil, err
		}
		v, err := scan(r)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// QueryRow runs one statement and returns its first row. An error, ErrNoRows
// among them, is returned by its Scan.
func (tx *Tx) QueryRow(query string, args ...any) Single {
	return Single{tx: tx, query: query, args: args}
}

// Row is a row of a result while it is being yielded.
type Row struct {
	rows *sql.Rows
}

// Scan copies the columns, in order, to what dest points to; the rules are those
// of [sql.Rows.Scan].
func (r Row) Scan(dest ...any) error { return r.rows.Scan(dest...) }

// Single is the result of QueryRow.
type Single struct {
	tx    *Tx
	query string
	args  []any
}

// Scan copies the columns of the first row, or returns [ErrNoRows].
func (r Single) Scan(dest ...any) error {
	for row, err := range r.tx.Query(r.query, r.args...) {
		if err != nil {
			return err
		}
		return row.Scan(dest...)
	}
	return ErrNoRows
}

func (tx *Tx) take(query string) (*sql.Stmt, error) {
	switch {
	case tx.ended:
		return nil, ErrTxDone
	case tx.lost != nil:
		return nil, tx.lost
	}
	s, err := tx.conn.take(query)
	if err != nil {
		return nil, tx.note(err)
	}
	return s, nil
}

// give hands the statement back and returns err as the caller is to see it.
func (tx *Tx) give(query string, s *sql.Stmt, err error) error {
	if cerr := tx.conn.give(query, s); err == nil {
		err = cerr
	}
	return tx.note(err)
}

// note remembers an error after which the transaction may be gone. A statement
// after it would run outside of any transaction and be durable on its own.
func (tx *Tx) note(err error) error {
	if err == nil {
		return nil
	}
	lost := endsTransaction(err)
	err = classify(err)
	if lost && tx.lost == nil {
		tx.lost = err
	}
	return err
}
