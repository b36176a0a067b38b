package agent

import "github.com/hostler-io/hostler/protocol"

// ruling is which rules of alerts of the coordinator are durable. It belongs to the loop.
type ruling struct {
	tell func(texts []string) // see Config.Rules
	info protocol.RulesInfo   // as heartbeats tell it
}

// take hands on rules that are durable.
func (r *ruling) take(rules protocol.AlertRules) {
	r.info = protocol.RulesInfo{}
	if rules.Number > 0 {
		r.info = protocol.RulesInfo{Number: rules.Number, Digest: rules.Digest()}
	}
	if r.tell != nil {
		r.tell(rules.Rules)
	}
}
