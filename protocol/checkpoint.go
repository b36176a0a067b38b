package protocol

import "fmt"

// Checkpoint is the document by which the keeper of an audit log vouches for
// it: the records up to N are those whose chain of digests ends in H. A person who
// holds one can tell that the log was cut, changed or rolled back since.
//
// A coordinator signs one for every second of activity. It travels in receipts
// and comes back in hellos, so that each host bears witness. A host signs one
// for its own log when it is asked for it.
type Checkpoint struct {
	Type  Type    `json:"hostler"`
	Fleet FleetID `json:"fleet"`
	Log   Party   `json:"log"`   // whose log: the coordinator's, or a host's
	Store StoreID `json:"store"` // the database that the log is in
	After uint64  `json:"after"` // number of the checkpoint before: the records from there on are new in this one
	N     uint64  `json:"n"`     // number of the newest record
	H     Digest  `json:"h"`     // end of the chain of digests
	Ring  uint64  `json:"ring"`  // in force at the signer
	Term  Term    `json:"term,omitzero"`
	AtMS  int64   `json:"at_ms"` // wall clock of the signer, for people
}

// MaxCheckpoint is the longest envelope of a checkpoint, in bytes: it travels
// within others, which have little room.
const MaxCheckpoint = 2 << 10

func (c *Checkpoint) check() error {
	host, isHost := c.Log.Host()
	switch {
	case c.Log != Coordinator && !isHost:
		return fmt.Errorf("unknown log %.80q", c.Log)
	case c.Store.IsZero():
		return fmt.Errorf("the store is missing")
	case c.N == 0 || c.N <= c.After:
		return fmt.Errorf("record %d does not come after record %d", c.N, c.After)
	case c.H.IsZero():
		return fmt.Errorf("the digest is missing")
	case c.Ring == 0:
		return fmt.Errorf("it names no ring")
	case isHost != (c.Term == Term{}), !isHost && (c.Term.Ring == 0 || c.Term.Counter == 0):
		return fmt.Errorf("a term belongs to a coordinator's log, and to no other")
	case c.Term.Ring > c.Ring:
		return fmt.Errorf("its term is of ring %d, and it names ring %d", c.Term.Ring, c.Ring)
	case isHost && host == "":
		return fmt.Errorf("the host is missing")
	}
	return nil
}

// Position is the place in the log that the checkpoint vouches for.
func (c *Checkpoint) Position() Position {
	return Position{Store: c.Store, Stream: StreamAudit, N: c.N, H: c.H}
}

// OpenCheckpoint verifies and reads a checkpoint by [Open]. Its signer keeps the
// log that it names: a host vouches for its own alone, which is [ErrFrom]
// otherwise.
func OpenCheckpoint(raw []byte, fleet FleetID, keys Keyring) (Checkpoint, Message, error) {
	m, err := Open(raw, Expect{Fleet: fleet, Keys: keys, Type: TypeCheckpoint})
	if err != nil {
		return Checkpoint{}, Message{}, err
	}
	var c Checkpoint
	if err := m.Decode(&c); err != nil {
		return Checkpoint{}, Message{}, err
	}
	own := c.Log == Coordinator && m.Principal.Can(RoleCoordinator) ||
		m.Principal.Can(RoleHost) && c.Log == HostParty(m.Principal.Host)
	if !own {
		return Checkpoint{}, Message{}, refuse(ErrFrom, "it names the log of %.80q, its signer is of role %q", c.Log, m.Principal.Roles)
	}
	return c, m, nil
}
