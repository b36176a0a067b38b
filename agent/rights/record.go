package rights

import (
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

// LocalRoot is the requester of what root asks for on the host itself. Root
// could do it without the agent, and may change the policy, so it needs no
// approval. All other users of the socket do.
const LocalRoot = "uid:0"

// Record is what must outlive everything, a leave of the fleet included:
// or making a host join again would rid it of its policy.
type Record struct {
	// Number, Text and Signed are the newest signed policy that was taken; zero
	// before the first.
	Number uint64   `json:"number"`
	Text   []byte   `json:"text,omitempty"`
	Signed [][]byte `json:"signed,omitempty"`
	// Taken is what the audit log is told of it.
	InForce InForce `json:"taken,omitzero"`
	// FloorMS is the newest date at which an approver or owner is known to have
	// signed what counted, in Unix milliseconds: no approval that ended before it is
	// good. A document of the owners sets it.
	FloorMS int64 `json:"floor_ms"`
	// SinceMS is the floor as it was when the present memory of actions, the
	// queue of the id Store, began: an approval signed until then may have been
	// used by an action that is forgotten.
	SinceMS int64            `json:"since_ms"`
	Store   protocol.StoreID `json:"store,omitzero"`
}

// InForce tells how a policy has come into force. It is kept with the policy,
// and recorded with the end of the action that brought it: once, whenever the
// agent is killed.
type InForce struct {
	Action   protocol.ActionID `json:"action"`
	Before   uint64            `json:"before"` // number of the policy that was in force, from Source
	Source   string            `json:"source"`
	Bypass   bool              `json:"bypass"`
	SignedBy []string          `json:"signed_by"`
}

// Policies is what an agent starts with, and how it keeps what it learns.
type Policies struct {
	// Local is the policy of root's own file, which is in force over any other;
	// nil if there is none. One that cannot be used is [policy.Closed], and
	// Broken says why.
	Local  *policy.Policy
	Broken error
	// Own are the files and directories of this host's agent, which are vital
	// wherever they are: see [policy.Policy.Guarding].
	Own []string
	// Kept is what was kept last, Keep makes another durable. Required with Link.
	Kept Record
	Keep func(Record) error
}
