package permit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/permit"
)

// TestPermit: a start is allowed from when a permit is given until it is taken away or
// ends, and in the boot in which it was given.
func TestPermit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "start")
	refused := func(why string) {
		t.Helper()
		if e, err := permit.Epoch(path); !errors.Is(err, permit.ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Errorf("it is allowed under epoch %q, %v; want it refused: %s", e, err, why)
		}
	}
	give := func(until int64) {
		t.Helper()
		if err := permit.Give(path, "3.2.7", until); err != nil {
			t.Fatal(err)
		}
	}
	refused("only the agent starts it")
	give(clock.BootMS() + 3_600_000)
	if e, err := permit.Epoch(path); e != "3.2.7" || err != nil {
		t.Errorf("the permit is of epoch %q, %v", e, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for content, why := range map[string]string{
		strings.Replace(string(b), `"boot":"`, `"boot":"x`, 1):           "earlier boot",
		strings.Replace(string(b), `"epoch":"3.2.7"`, `"epoch":""`, 1):   "names no epoch",
		strings.Repeat("x", 5000):                                        "read the permit",
		strings.Replace(string(b), `"until_ms":`, `"until_ms":true,`, 1): "read the permit",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(why)
	}
	give(clock.BootMS())
	refused("has ended")
	for range 2 {
		if err := permit.Remove(path); err != nil {
			t.Error(err)
		}
		refused("only the agent starts it")
	}
}
