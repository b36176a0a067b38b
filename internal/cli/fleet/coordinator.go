package fleet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// coordinatorProgram is the program that makes and runs coordinators.
const coordinatorProgram = "hostler-coordinator"

// packagedState is where the service of the package has its state.
const packagedState = "/var/lib/hostler/coordinator"

// initCoordinator makes a coordinator on this machine: its keys, the ring that
// names it, and the ring into its hands.
func (a *commands) initCoordinator(ctx context.Context, f conn.FleetFiles, chain *certs.Chain, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return term.Cannot("make the coordinator", err)
	}
	printed, err := a.runCoordinator(ctx, dir, "init", "--fleet", chain.Code().Encode())
	if err != nil {
		return err
	}
	request, token := fieldOf(printed, "request"), fieldOf(printed, "token")
	if request == "" || token == "" {
		return &term.Failure{Code: term.ExitFailed, What: "cannot make the coordinator", Why: coordinatorProgram + " did not print a request and a token"}
	}
	raw, err := signNext(f, chain, []string{request}, addCoordinator)
	if err == nil {
		chain, err = chain.Advance(raw)
	}
	if err == nil {
		err = f.Save(chain)
	}
	if err != nil {
		return term.Cannot("add the coordinator", err)
	}
	path := filepath.Join(f.Dir, "ring-for-coordinator")
	if err := conn.ReplaceFile(path, certs.EncodeFile(chain.Rings()), 0o600); err != nil {
		return term.Cannot("write the ring", err)
	}
	if _, err := a.runCoordinator(ctx, dir, "init", "--ring", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return term.Cannot("remove the copy of the ring", err)
	}
	fmt.Fprintf(a.Out, "token: %s\n", token)
	if dir == packagedState {
		a.Say("The service %s serves it now, if it runs: systemctl status %[1]s", coordinatorProgram)
	} else {
		a.Say("Next: HOSTLER_STATE_DIR=%s %s run", dir, coordinatorProgram)
	}
	a.Say("Then: hostler login https://HOST:8443, and give it the token")
	return nil
}

// runCoordinator runs the coordinator's program, the one beside this program
// if there is one, and returns what it printed.
func (a *commands) runCoordinator(ctx context.Context, dir string, args ...string) (string, error) {
	name := coordinatorProgram
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), name); isFile(beside) {
			name = beside
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(a.Environ(), "HOSTLER_STATE_DIR="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, a.Err
	if err := cmd.Run(); err != nil {
		return "", &term.Failure{Code: term.ExitFailed, What: "cannot make the coordinator", Why: fmt.Sprintf("%s %s: %s", name, args[0], err), Next: name + " init --fleet CODE"}
	}
	return out.String(), nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// fieldOf returns what a program printed on its line "name: value".
func fieldOf(printed, name string) string {
	for line := range strings.Lines(printed) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
