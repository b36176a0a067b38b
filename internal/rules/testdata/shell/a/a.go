package a

import "os/exec"

func run(user string) {
	exec.Command("sh", "-c", "echo "+user)         // want
	exec.Command("/bin/bash", "-c", "echo "+user)  // want
	_ = []string{"timeout", "1", "sh", "-c", user} // want
	exec.Command("grep", "-c", user)
	exec.Command("sh", "script")
}
