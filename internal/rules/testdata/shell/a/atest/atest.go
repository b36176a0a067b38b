package atest

import "os/exec"

func play() { exec.Command("sh", "-c", "kill -9 $$") }
