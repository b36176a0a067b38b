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
