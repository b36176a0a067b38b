//go:build !unix

package term

import "os"

// Resized never delivers: the size is that of the beginning.
func (t tty) Resized() (<-chan os.Signal, func()) { return nil, func() {} }
