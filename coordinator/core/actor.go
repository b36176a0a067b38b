package core

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// Actor is who asks: a person or tool with a token.
type Actor struct {
	Name   string
	Person string // of the ring, whom the token is bound to; empty if it is to none
	Role   TokenRole
	From   string // network address that the request came from, if it came over one
}

// May refuses what the actor's role does not cover. The roles are ordered:
// each may do what the ones before it may.
func (a Actor) May(need TokenRole, what string) error {
	if Rank(a.Role) < Rank(need) {
		return fmt.Errorf("%w: role %s is required to %s; %q has role %s", ErrRole, need, what, a.Name, a.Role)
	}
	return nil
}

// Rank orders the roles: each may do what the ones of lower rank may. What is no role
// has rank 0.
func Rank(r TokenRole) int {
	switch r {
	case RoleViewer:
		return 1
	case RoleOperator:
		return 2
	case RoleApprover:
		return 3
	case RoleAdmin:
		return 4
	}
	return 0
}

// Self is the actor of decisions that no person asked for.
func Self() Actor { return Actor{Name: string(protocol.Coordinator)} }

// LogName is how the actor stands in the audit log: a token may be called anything.
func (a Actor) LogName() string {
	if a.Role != "" {
		return "token:" + a.Name
	}
	return a.Name
}
