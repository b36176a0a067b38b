package dev

import "os"

func keep(b []byte) error { return os.WriteFile("config", b, 0o600) }
