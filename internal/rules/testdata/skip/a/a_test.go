package a

import (
	"encoding/json"
	"testing"
)

type scanner struct{}

func (scanner) Skip() {}

func TestIt(t *testing.T) {
	t.Skip("no") // want
	func(tb testing.TB) {
		tb.SkipNow() // want
	}(t)
	t.Run("sub", func(u *testing.T) { u.Skipf("no") }) // want
	scanner{}.Skip()
	json.Valid(nil)
}
