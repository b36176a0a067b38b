package core

import "github.com/hostler-io/hostler/protocol"

// OrderItem returns what an order says of an action.
func OrderItem(a *Action) protocol.OrderItem {
	it := protocol.OrderItem{Action: a.ID, Spec: a.Spec, Requester: a.Requester, CreatedMS: a.CreatedMS}
	for _, g := range a.Approvals {
		it.Approvals = append(it.Approvals, g.Signed)
	}
	return it
}
