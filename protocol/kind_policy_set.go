package protocol

import "fmt"

// KindPolicySet puts a policy into force. Its signatures stand within its spec, so
// it needs no approval beside that.
const KindPolicySet Kind = "policy.set"

func kindPolicySet() KindInfo {
	return KindInfo{
		Kind: KindPolicySet, Doc: "Put a signed policy into force on the host.",
		Target: TargetHost, Lane: LaneNone, Attempts: 3, StartTTL: startTTL, RootEquivalent: true, form: formOf(new(PolicyArgs)),
	}
}

// PolicyArgs are the arguments of a policy.set; see [PolicyDocument].
type PolicyArgs struct {
	Policy []byte   `json:"policy,omitempty" example:"\"dmVyc2lvbiA9IDEK\"" doc:"The text of the policy."`
	Signed [][]byte `json:"signed,omitempty" example:"[\"LS0tLS1CRUdJTg==\"]" doc:"The envelopes that sign it, one for each signer."`
	_      struct{} `required:"policy,signed"`
}

func (p *PolicyArgs) check() error {
	switch {
	case len(p.Policy) < 1 || len(p.Policy) > MaxPolicy:
		return fmt.Errorf("policy: %d bytes, want 1 to %d; a longer one goes to the host as a file", len(p.Policy), MaxPolicy)
	case len(p.Signed) < 1 || len(p.Signed) > MaxPolicySigners:
		return fmt.Errorf("signed: %d signatures, want 1 to %d", len(p.Signed), MaxPolicySigners)
	}
	return nil
}
