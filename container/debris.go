package container

import "context"

// Debris is something that a crash or a person has left of Hostler, and that no operation will
// ask for again.
type Debris struct {
	Kind   string `json:"kind"`   // what it is: half container, mount, cgroup, cable, …
	Object string `json:"object"` // its path or name
	Cause  string `json:"cause"`  // why it is taken for debris
	// Repair is what repairing does with it. Empty: nothing, because it does not bear
	// our marks, or because a person has to decide; Advice then says what to type.
	Repair string `json:"repair,omitempty"`
	Advice string `json:"advice,omitempty"`
	// Repaired: that was done. Failure is why it was not, if it was tried.
	Repaired bool   `json:"repaired"`
	Failure  string `json:"failure,omitempty"`
}

// Mend does what Repair says, and notes how that went.
func (d *Debris) Mend(do func() error) {
	if err := do(); err != nil {
		d.Failure = err.Error()
		return
	}
	d.Repaired = true
}

// Tidier is a Runtime that finds what operations of its own have left which were killed.
type Tidier interface {
	// Debris returns what is left, and with repair removes what bears our marks. It
	// touches no container that is whole, none of others, and nothing that an operation
	// works on. The error is why it could not look.
	Debris(ctx context.Context, repair bool) ([]Debris, error)
}
