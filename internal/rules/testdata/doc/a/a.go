package a

type Bare struct { // want
}

// Told is told.
type Told[T any] struct{ Field int }

type hidden struct{}

func (Bare) Do() {} // want

func (*Told[T]) Do() {} // want

// Undo is told.
func (*Told[T]) Undo() {}

func (Bare) String() string { return "" }

func (hidden) Do() {}

func Func() {} // want

// Limits of a.
const (
	Min = 1
	Max = 2
)

const (
	Low = 0 + // want
		1
	High = 2 // the highest
	// Mid is told.
	Mid = 3
)

// Not about any one of them.
type (
	One struct { // want
	}
	// Two is told.
	Two struct{}
)
