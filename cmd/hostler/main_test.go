package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hostler":             main,
		"hostler-coordinator": func() { os.Exit(coordinatorInit(os.Args[1:])) },
	})
}

// TestScripts types command lines against a real coordinator with scripted
// hosts; see newSite for what is there.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			testscript.Run(t, testscript.Params{
				Files: []string{file}, RequireExplicitExec: true, RequireUniqueNames: true,
				Setup: s.setup,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"code":    code,
					"site":    s.command,
					"binary":  binary,
					"gpghome": gpgHome,
				},
			})
		})
	}
}

// setup logs an admin in, as the context lab.
func (s *site) setup(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "config")
	env.Setenv("XDG_CONFIG_HOME", home)
	// With the race detector, each command would wait a second at its end.
	env.Setenv("GORACE", "atexit_sleep_ms=20")
	env.Setenv("HOSTLER_SOCKET", filepath.Join(env.WorkDir, "no-agent.sock"))
	env.Setenv("URL", s.url)
	env.Setenv("SCRATCH", env.WorkDir)
	for role, token := range s.tokens {
		env.Setenv(strings.ToUpper(string(role))+"_TOKEN", token)
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "ca.crt"), []byte(conn.EncodeCA(s.authority.Certificate())), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "token"), []byte(s.tokens[core.RoleAdmin]+"\n"), 0o600); err != nil {
		return err
	}
	other, err := certs.NewAuthority("other")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "other.crt"), []byte(conn.EncodeCA(other.Certificate())), 0o600); err != nil {
		return err
	}
	config := fmt.Sprintf("current = 'lab'\n[contexts.lab]\naddress = '%s'\ntoken = '%s'\nfleet = 'lab'\nca = '''\n%s'''\n", s.url, s.tokens[core.RoleAdmin], conn.EncodeCA(s.authority.Certificate()))
	return conn.ReplaceFile(filepath.Join(home, "hostler", "config.toml"), []byte(config), 0o600)
}

// code N COMMAND… runs a command and checks its exit code, which exec does not.
// Its output is left in the files out and err.
func code(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND [ARG…]")
	}
	err := ts.Exec("sh", append([]string{"-c", `"$@" </dev/null >"$SCRATCH/out" 2>"$SCRATCH/err"; echo $? >"$SCRATCH/code"`, "sh"}, args[1:]...)...)
	ts.Check(err)
	if got := strings.TrimSpace(ts.ReadFile(filepath.Join(ts.Getenv("SCRATCH"), "code"))); got != args[0] {
		ts.Fatalf("exit code %s, want %s\n%s%s", got, args[0],
			ts.ReadFile(filepath.Join(ts.Getenv("SCRATCH"), "out")), ts.ReadFile(filepath.Join(ts.Getenv("SCRATCH"), "err")))
	}
}

// gpgHome gives the script a key ring of gpg of its own. Its path is short, as
// that of a socket must be.
func gpgHome(ts *testscript.TestScript, _ bool, _ []string) {
	home, err := os.MkdirTemp("/tmp", "g")
	ts.Check(err)
	ts.Setenv("GNUPGHOME", home)
	ts.Defer(func() {
		end := exec.Command("gpgconf", "--kill", "all") // gpg leaves its agent running
		end.Env = append(os.Environ(), "GNUPGHOME="+home)
		ts.Check(errors.Join(end.Run(), os.RemoveAll(home)))
	})
}

// binary checks that the file out holds exactly what the site says that is
// not text.
func binary(ts *testscript.TestScript, _ bool, _ []string) {
	if got := ts.ReadFile(filepath.Join(ts.Getenv("SCRATCH"), "out")); !bytes.Equal([]byte(got), blob()) {
		ts.Fatalf("%d bytes came, which are not the %d that were written", len(got), len(blob()))
	}
}

// coordinatorInit is the part of hostler-coordinator that the operator's
// program runs: the two steps of init.
func coordinatorInit(args []string) int {
	dir := os.Getenv("HOSTLER_STATE_DIR")
	if len(args) != 3 || args[0] != "init" || dir == "" {
		fmt.Fprintln(os.Stderr, "usage: hostler-coordinator init --fleet CODE|--ring FILE")
		return 2
	}
	err := func() error {
		if args[1] == "--fleet" {
			return initFleet(dir, args[2])
		}
		return initRing(dir, args[2])
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostler-coordinator:", err)
		return 1
	}
	return 0
}

func initFleet(dir, text string) error {
	code, err := enrol.ParseFleetCode(text)
	if err != nil {
		return err
	}
	identity, err := certs.CreateIdentity(filepath.Join(dir, "key"), "coordinator")
	if err != nil {
		return err
	}
	authority, err := certs.CreateAuthority(filepath.Join(dir, "ca"), string(code.Name))
	if err != nil {
		return err
	}
	request, err := enrol.CoordinatorRequest{Fleet: code.Fleet, Key: identity.Public(), TLSCA: authority.Certificate()}.Encode()
	if err != nil {
		return err
	}
	fmt.Printf("request: %s\ntoken: hst_SECRET\n", request)
	return os.WriteFile(filepath.Join(dir, "code"), []byte(text), 0o600)
}

func initRing(dir, path string) error {
	text, err := os.ReadFile(filepath.Join(dir, "code"))
	if err != nil {
		return err
	}
	code, err := enrol.ParseFleetCode(string(text))
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	parts, err := certs.DecodeFile(raw)
	if err != nil {
		return err
	}
	chain, err := certs.OpenChain(code.Pin, parts...)
	if err != nil {
		return err
	}
	identity, err := certs.LoadIdentity(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	if _, ok := chain.Coordinator(identity.Key()); !ok {
		return fmt.Errorf("ring %d does not name this coordinator", chain.Ring().Number)
	}
	return nil
}
