package dispatch

import (
	"testing"
)

func TestShellWords(t *testing.T) {
	if got := ShellWords([]string{"sh", "-c", "echo 'a b'; $(x)", ""}); got != `sh -c 'echo '\''a b'\''; $(x)' ''` {
		t.Error(got)
	}
}
