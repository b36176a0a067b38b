package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestCheck: a host is looked at with and without its agent, and a damaged memory is a
// check that fails.
func TestCheck(t *testing.T) {
	s := newSite(t)
	s.configure(t, "[podman]\nuse = \"off\"\n")
	agent := s.start(t)
	look := func(want int, args ...string) string {
		t.Helper()
		cmd := s.command(t.Context(), append([]string{"check"}, args...)...)
		var out, talk bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &talk
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != want {
			t.Fatalf("check %q: %v, want exit code %d\n%s%s", args, err, want, out.String(), talk.String())
		}
		return out.String()
	}
	results := func(text string) map[string]api.Finding {
		t.Helper()
		var all []api.Finding
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("%s: %s", err, text)
		}
		m := make(map[string]api.Finding)
		for _, f := range all {
			m[f.Check] = f
		}
		return m
	}
	for name, text := range map[string]string{"by itself": look(0, "-o", "json"), "by the agent": look(0, "--socket", filepath.Join(s.dir, "agent.sock"))} {
		found := results(text)
		for _, check := range []string{"disk of state", "disk of containers", "disk of volumes", "commands", "clock", "memory", "debris"} {
			if f, ok := found[check]; !ok || f.Result == api.FindingFailed || strings.HasPrefix(check, "disk of ") != (f.Room != nil) {
				t.Errorf("%s, %s: %+v", name, check, f)
			}
		}
		if _, ok := found["podman"]; ok {
			t.Errorf("%s: podman is looked for, and is not to be used", name)
		}
	}
	if text := look(0); !strings.Contains(text, " checks, ") || !strings.Contains(text, "memory\n") {
		t.Errorf("it says\n%s", text)
	}
	look(2, "-o", "xml")

	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait() // by our signal
	memory := filepath.Join(s.dir, "state", "queue.db")
	b, err := os.ReadFile(memory)
	if err != nil {
		t.Fatal(err)
	}
	b = slices.Clone(b)
	copy(b[len(b)/2:], "this was written by somebody else")
	if err := os.WriteFile(memory, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := results(look(1, "-o", "json"))["memory"]; f.Result != api.FindingFailed || f.Cause == "" || f.Mend == "" {
		t.Errorf("of a damaged memory: %+v", f)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "state", ".fsck-*")); err != nil || len(left) > 0 {
		t.Errorf("it left %q, %v", left, err)
	}
}
