package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/runner/rundir"
)

// maxSize is what the program may weigh: one lives beside every command.
const maxSize = 2_000_000

func TestIsSmallAndStatic(t *testing.T) {
	program := builttest.Program(t, "hostler-run")
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxSize {
		t.Errorf("%d bytes, want at most %d", info.Size(), maxSize)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libs, err := f.ImportedLibraries(); err == nil && len(libs) > 0 {
		t.Errorf("linked to %v", libs)
	}
}

// Each of these would cost a large part of the program's size, or its independence.
func TestImportsLittle(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, never := range []string{"fmt", "net", "encoding/json", "os/exec", "os/user", "log", "runtime/cgo"} {
		if slices.Contains(deps, never) {
			t.Errorf("imports %s", never)
		}
	}
	for _, dep := range deps {
		if strings.Contains(dep, ".") && !strings.HasPrefix(dep, "golang.org/x/sys/") && !strings.HasPrefix(dep, "github.com/hostler-io/hostler/") {
			t.Errorf("imports %s", dep)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {""}, {"relative/dir"}, {"/a", "/b"}} {
		if code := run(args); code != 2 {
			t.Errorf("%q: exit code %d, want 2", args, code)
		}
	}
	if code := run([]string{filepath.Join(t.TempDir(), "absent")}); code != 1 {
		t.Errorf("absent directory: exit code %d, want 1", code)
	}
}

// TestInheritsNothing: a descriptor that the supervisor was started with does not
// reach its command.
func TestInheritsNothing(t *testing.T) {
	program := builttest.Program(t, "hostler-run")
	for _, later := range []bool{false, true} {
		dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
		if err := os.Mkdir(string(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		spec := rundir.Spec{Action: "files", Attempt: 1, Argv: []string{"/bin/ls", "/proc/self/fd"}, GraceMS: -1}
		if err := dir.CreateSpec(&spec); err != nil {
			t.Fatal(err)
		}
		host, err := os.Open("/") // any directory of the host
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		cmd := exec.Command(program, string(dir))
		if later {
			cmd = exec.Command(program, rundir.Later)
			cmd.Stdin = strings.NewReader(string(dir))
		}
		cmd.ExtraFiles = []*os.File{host, host, host}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := os.ReadFile(dir.Path("stdout"))
		if err != nil || string(out) != "0\n1\n2\n3\n" { // 3 is the directory that ls reads
			t.Errorf("later %v: the command has %q, %v", later, out, err)
		}
	}
}
