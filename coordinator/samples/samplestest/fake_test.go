package samplestest

import "testing"

func TestFake(t *testing.T) {
	Conform(t, func(*testing.T) Subject {
		f := new(Fake)
		return Subject{Sink: f, Away: f.Away, Broken: f.Broken, Hang: f.Hang, Held: f.Held, End: f.End}
	})
}
