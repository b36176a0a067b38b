//go:build !unix

package main

import "os"

// resized never delivers: the size is that of the beginning.
func (t tty) resized() (<-chan os.Signal, func()) { return nil, func() {} }
