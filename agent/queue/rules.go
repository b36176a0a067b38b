package queue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Rules returns the rules of alerts that the coordinator has for this host; number 0
// before any came.
func Rules(ctx context.Context, q *Queue) (protocol.AlertRules, error) {
	return view(ctx, q, "reading the rules of alerts", func(tx txn) (protocol.AlertRules, error) {
		r, _, err := readRules(tx)
		return r, err
	})
}

func readRules(tx txn) (r protocol.AlertRules, store string, _ error) {
	var text string
	if err := tx.QueryRow(`SELECT rules, rules_store FROM self`).Scan(&text, &store); err != nil || text == "" {
		return r, store, err
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, store, fmt.Errorf("the rules of alerts: %w", err)
	}
	return r, store, nil
}

// KeepRules takes the rules that an item of the coordinator brings, and returns those
// that are in force then: of the same store, ones with a lower number change nothing.
func KeepRules(ctx context.Context, q *Queue, at protocol.Position, r protocol.AlertRules) (kept protocol.AlertRules, _ error) {
	err := q.commit(ctx, failpoint.RulesKept, "keeping the rules of alerts", func(tx txn) error {
		var store string
		var err error
		if kept, store, err = readRules(tx); err != nil {
			return err
		}
		if at.Store.String() != store || r.Number >= kept.Number {
			kept = r
			text, err := json.Marshal(r)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE self SET rules = $1, rules_store = $2`, string(text), at.Store.String()); err != nil {
				return err
			}
		}
		return advance(tx, at)
	})
	return kept, err
}
