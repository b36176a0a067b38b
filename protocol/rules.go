package protocol

import (
	"fmt"
	"strings"
)

// AlertRules are the rules of alerts that the coordinator has for a host, all of them.
// The host has them beside its own.
type AlertRules struct {
	// Number counts changes of the rules of the fleet. Of one store of the coordinator, a
	// lower one never takes the place of a higher one.
	Number uint64 `json:"number"`
	// Rules are texts, each as package alerts reads it: "* ram=80%/60s".
	Rules []string `json:"rules,omitempty"`
}

// Bounds of the rules for one host.
const (
	MaxAlertRules     = 256
	MaxAlertRulesSize = 12 << 10 // bytes of all texts together: they travel in one message
)

// Digest tells one set of rules from another, whatever its number.
func (r *AlertRules) Digest() Digest { return Sum([]byte(strings.Join(r.Rules, "\n"))) }

// RulesInfo is which rules of the coordinator a host has. Hosts of before there were
// any have none.
type RulesInfo struct {
	Number uint64 `json:"number,omitzero"`
	Digest Digest `json:"digest,omitzero"` // zero before any came
}

func (r *AlertRules) check() error {
	size := 0
	for _, text := range r.Rules {
		size += len(text)
	}
	if r.Number == 0 || len(r.Rules) > MaxAlertRules || size > MaxAlertRulesSize {
		return fmt.Errorf("%d rules of alerts, number %d, %d bytes: want at most %d of %d bytes, and a number", len(r.Rules), r.Number, size, MaxAlertRules, MaxAlertRulesSize)
	}
	return nil
}
