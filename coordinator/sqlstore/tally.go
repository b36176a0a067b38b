package sqlstore

import (
	"encoding/json"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

// tallied are the numbers that triggers keep, see schema/0005_tally.sql.
const tallied = `SELECT word, n FROM tally WHERE what = $1`

// told counts the containers of an inventory for the triggers. The same numbers are
// always the same text: the order of a map's keys in JSON is theirs.
func told(i core.Inventory) string {
	n := make(map[string]int)
	for _, c := range i.Containers {
		n[c.State]++
	}
	b, _ := json.Marshal(n) // texts and numbers: it never fails
	return string(b)
}

type number struct {
	word string
	n    int
}

func tally[K ~string](db *sqldb.Tx, what string) (map[K]int, error) {
	all, err := list(db, func(c *number) []any { return []any{&c.word, &c.n} }, tallied, what)
	out := make(map[K]int, len(all))
	for _, c := range all {
		out[K(c.word)] = c.n
	}
	return out, wrap(err, "counting", what)
}

func (t actions) Count() (map[protocol.State]int, error) {
	return tally[protocol.State](t.db, "action")
}

func (t hosts) Containers() (map[string]int, error) { return tally[string](t.db, "container") }

func (t hosts) Names(state core.HostState) ([]protocol.HostID, error) {
	all, err := list(t.db, single[protocol.HostID], namesOfHosts, state)
	return all, wrap(err, "names of hosts that are", state)
}
