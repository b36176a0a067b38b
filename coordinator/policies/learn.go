package policies

import (
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// hostPolicies begins the names of the values that hold what is known of the
// policy in force on a host.
const hostPolicies = "policy/"

// learnt is what is known of the policy in force on a host: its digest, as the
// host told it, and its text once that is known.
type learnt struct {
	Digest protocol.Digest `json:"digest,omitzero"` // zero is no policy that was read from a text
	Text   []byte          `json:"text,omitempty"`
}

// loadLearnt reports whether anything is known of a host's policy.
func loadLearnt(tx core.Tx, host protocol.HostID) (l learnt, ok bool, err error) {
	ok, err = core.GetJSON(tx, hostPolicies+string(host), &l)
	return l, ok, err
}

// putLearnt keeps what is known, and tells watchers.
func (r *Room) putLearnt(tx core.Tx, host protocol.HostID, l learnt) error {
	if err := core.PutJSON(tx, hostPolicies+string(host), l); err != nil {
		return err
	}
	return r.base.Event(tx, "host.policy", host, string(host), map[string]any{"digest": l.Digest, "known": l.Digest.IsZero() || l.Text != nil})
}

// hostPolicy is the policy by which a host will judge, as far as it is known: what
// the host has told goes before the copy that the configuration names, which is
// for hosts that have not told. It is nil where neither is known.
func (r *Room) hostPolicy(tx core.Tx, host protocol.HostID) (*policy.Policy, error) {
	l, ok, err := loadLearnt(tx, host)
	switch {
	case err != nil:
		return nil, err
	case ok && l.Digest.IsZero():
		return policy.BuiltIn(), nil
	case ok && l.Text != nil:
		if p := r.known.read(l.Digest, l.Text); p != nil {
			return p, nil
		}
	}
	return r.configured.Load().Hosts, nil
}

// PutIntoForce learns the policy that an action has put into force. It is in the
// action's spec, so a client that waited for the end of the action may rely on it.
func (r *Room) PutIntoForce(tx core.Tx, a core.Action) error {
	spec, err := protocol.DecodeSpec(a.Spec)
	if err != nil {
		return nil // its host has another record under this id; heartbeats tell what is in force
	}
	text := protocol.ArgsOf[protocol.PolicyArgs](&spec).Policy
	return r.putLearnt(tx, a.Host, learnt{protocol.Sum(text), text})
}

// Hear takes what a heartbeat says of the policy in force, and asks for its
// text if that is not known. asked is the digest for which the host was asked
// already by this process. It reports whether the host is to be asked.
func (r *Room) Hear(tx core.Tx, host protocol.HostID, info *protocol.PolicyInfo, asked protocol.Digest) (ask bool, _ error) {
	if info == nil {
		return false, nil // of a version that tells nothing
	}
	l, ok, err := loadLearnt(tx, host)
	if err != nil {
		return false, err
	}
	if !ok || l.Digest != info.Digest {
		l = learnt{Digest: info.Digest, Text: r.known.text(info.Digest)}
		if err := r.putLearnt(tx, host, l); err != nil {
			return false, err
		}
	}
	if l.Digest.IsZero() || l.Text != nil || l.Digest == asked || r.base.Recovery() != "" {
		return false, nil
	}
	controls, err := tx.Streams.Get(host, protocol.StreamControl)
	// A host that takes no controls is not asked more and more.
	if err != nil || controls.Pos.N-controls.Freed.N >= stream.Window/2 {
		return false, err
	}
	return true, nil
}

// Told takes the text of a policy that was asked for. One that is not what
// the host's heartbeats speak of is of another moment: the next heartbeat tells.
func (r *Room) Told(tx core.Tx, host protocol.HostID, text []byte) error {
	l, ok, err := loadLearnt(tx, host)
	if err != nil || !ok || l.Digest != protocol.Sum(text) {
		return err
	}
	l.Text = text
	return r.putLearnt(tx, host, l)
}

// policies are those of hosts that were read, by digest: most hosts of a fleet
// have the same few. It is safe for concurrent use.
type texts struct {
	mu    sync.Mutex
	known map[protocol.Digest]*policy.Policy // nil where the text is not understood
}

// maxPolicies bounds what is kept of them in memory.
const maxPolicies = 64

// read returns a policy, nil if this version does not understand it.
func (k *texts) read(d protocol.Digest, text []byte) *policy.Policy {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.known[d]
	if !ok {
		if k.known == nil || len(k.known) >= maxPolicies {
			k.known = make(map[protocol.Digest]*policy.Policy)
		}
		p, _ = policy.Parse("the policy of a host", text)
		k.known[d] = p
	}
	return p
}

// text returns the text of a policy that was read, nil if there is none.
func (k *texts) text(d protocol.Digest) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.known[d]; p != nil {
		return p.Text()
	}
	return nil
}

// Forget drops what is known of the policy of a host: another machine has its name.
func Forget(tx core.Tx, host protocol.HostID) error {
	return tx.Values.Put(hostPolicies+string(host), nil)
}
