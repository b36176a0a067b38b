//go:build integration

package integration

import (
	"fmt"
	"os/exec"
	"testing"
)

// TestPinentry signs with a key of gpg's that has a passphrase, which gpg asks for
// by a program of its own on the person's terminal: it is given, mistaken and given,
// mistaken for good, and not given. The terminal is afterwards what it was.
func TestPinentry(t *testing.T) {
	t.Parallel()
	const program = "/usr/bin/pinentry-curses"
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%v: apt-get install pinentry-curses", err)
	}
	const passphrase, mistaken = "open sesame", "open barley"
	j := newJudgedWith(t, passphrase)
	write(t, j.path("gnupg/gpg-agent.conf"), "pinentry-program "+program+"\ndefault-cache-ttl 0\nmax-cache-ttl 0\n")
	restart := exec.Command("gpgconf", "--kill", "all") // it knows the passphrase still
	restart.Env = j.env()
	if out, err := restart.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const asks, twice, thrice = "Passphrase:", "try 2 of 3", "try 3 of 3"
	for i, c := range []struct {
		name  string
		types []string // what the screen shows, and what is typed then
		code  int
		says  string
		needs int // persons, afterwards
	}{
		{"cancelled", []string{asks, "\t\t\r"}, 1, "was cancelled", 2},
		{"mistaken for good", []string{asks, mistaken + "\r", twice, mistaken + "\r", thrice, mistaken + "\r"}, 1, "is not that of key", 2},
		{"mistaken and cancelled", []string{asks, mistaken + "\r", twice, "\t\t\r"}, 1, "was cancelled", 2},
		{"mistaken and given", []string{asks, mistaken + "\r", twice, passphrase + "\r"}, 0, "You sign as bob", 1},
		{"given", []string{asks, passphrase + "\r"}, 0, "You sign as bob", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := j.mark(t, fmt.Sprint("marked-", i))
			j.state(t, id, "PENDING_APPROVE")
			// A shell around it, for the terminal goes with its last user.
			p := j.sitAt(t, "sh", "-c", `before=$(stty -g); hostler action approve `+id+` --yes --key bob; code=$?; [ "$before" = "$(stty -g)" ] && echo the sa''me || echo an''other; exit $code`)
			for k := 0; k < len(c.types); k += 2 {
				p.sees(c.types[k])
				p.types(c.types[k+1])
			}
			p.sees("the same")
			p.exits(c.code)
			p.sees(c.says)
			if a := j.action(t, id); a.State != "PENDING_APPROVE" || a.Needs[0].Missing != c.needs {
				t.Errorf("it is %s with %+v", a.State, a.Needs)
			}
		})
	}
}
