//go:build hostlertest

package a

import "os"

func armed() string { return os.Getenv("A") }
