package atest

import "os"

func bin() string { return os.Getenv("BIN") }
