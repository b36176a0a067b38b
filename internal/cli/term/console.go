package term

import (
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/hostler-io/hostler/terminal"
)

// Console is the terminal that this program has.
type Console interface {
	// Raw makes the terminal pass on every key as it is, until restore is called,
	// which may be called twice.
	Raw() (restore func(), err error)
	// Size is that of its window.
	Size() (terminal.Size, error)
	// Resized delivers when the size has changed, until stop is called.
	Resized() (changed <-chan os.Signal, stop func())
}

// tty is the console of a file.
type tty struct{ file *os.File }

func (t tty) Raw() (func(), error) {
	before, err := term.MakeRaw(int(t.file.Fd()))
	if err != nil {
		return nil, err
	}
	var once sync.Once
	return func() { once.Do(func() { _ = term.Restore(int(t.file.Fd()), before) }) }, nil // the terminal may be gone
}

func (t tty) Size() (terminal.Size, error) {
	cols, rows, err := term.GetSize(int(t.file.Fd()))
	return terminal.Size{Rows: uint16(rows), Cols: uint16(cols)}, err
}
