package queue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol/contract"
)

// beginAbsence takes up the absence of the process before, in the step that counts the
// start of this one.
func beginAbsence(tx txn, now Now) (a contract.Absence, err error) {
	var text string
	if err := tx.QueryRow(`SELECT absence FROM self`).Scan(&text); err != nil {
		return a, err
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, fmt.Errorf("for how long the host was cut off: %w", err)
	}
	a = a.Begun(now.Boot, now.BootMS)
	return a, keepAbsence(tx, a)
}

func keepAbsence(tx txn, a contract.Absence) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE self SET absence = $1`, string(text))
	return err
}

// KeepAbsence makes it durable for how long the host was cut off. On a disk that is full
// it uses the space that was set aside: containers are stopped by it.
func KeepAbsence(ctx context.Context, q *Queue, a contract.Absence) error {
	return q.pressed(func() error {
		return q.commit(ctx, failpoint.AbsenceKept, "keeping for how long the host was cut off", func(tx txn) error { return keepAbsence(tx, a) })
	})
}
