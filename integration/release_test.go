//go:build integration

package integration

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/failpoint"
)

// TestReleasedPrograms looks for what only the programs of tests may hold:
// failpoints, clocks that can be moved, and whatever else stands behind the tag
// hostlertest.
func TestReleasedPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hostler", "hostler-agent", "hostler-coordinator", "hostler-run", "hostler-lxc"} {
		file := filepath.Join(programs(t), name)
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range info.Settings {
			if s.Key == "-tags" && strings.Contains(s.Value, "hostlertest") {
				t.Errorf("%s is built with tags %s", name, s.Value)
			}
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, never := range []string{clock.Variable, failpoint.Variable, failpoint.OrderTaken.Before(), failpoint.OrderTaken.After()} {
			if bytes.Contains(b, []byte(never)) {
				t.Errorf("%s holds %q", name, never)
			}
		}
	}
}
