package a

import "os"

func tell() string { return os.Getenv("A") }
