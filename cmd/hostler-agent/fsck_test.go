package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/agent/fsck"
)

// TestFsck: while the agent runs, it is looked at and not repaired; once it is stopped
// what nobody knows goes, and what it knows stays. The exit code tells what is left.
func TestFsck(t *testing.T) {
	s := newSite(t)
	agent := s.start(t)
	done := s.propose(t, "true")
	if err := s.Get(t.Context(), "/v1/actions/"+done.ID, map[string][]string{"wait": {"30s"}}, nil); err != nil {
		t.Fatal(err)
	}
	orphan := filepath.Join(s.dir, "state", "runs", "01890a5d-ac96-774b-bcce-b302099a8001")
	if err := os.MkdirAll(filepath.Join(orphan, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	ask := func(code int, args ...string) string {
		t.Helper()
		cmd := s.command(t.Context(), append([]string{"fsck"}, args...)...)
		var out, talk bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &talk
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != code {
			t.Fatalf("fsck %q: %v, want exit code %d\n%s%s", args, err, code, out.String(), talk.String())
		}
		return out.String() + talk.String()
	}
	without := "[podman]\nuse = \"off\"\n"
	s.configure(t, without)
	var r fsck.Report
	mine := func() (n int) { // of this test: the control groups of others may be litter, too
		for _, d := range r.Findings {
			if strings.HasPrefix(d.Object, s.dir) {
				n++
			}
		}
		return n
	}
	if err := json.Unmarshal([]byte(ask(1, "-o", "json")), &r); err != nil || mine() != 1 {
		t.Errorf("as JSON: %+v, %v", r, err)
	}
	if said := ask(1); !strings.Contains(said, "run directory \""+orphan+"\"\n  why:    the agent knows no action of this id\n  repair: end what is left") {
		t.Errorf("it says\n%s", said)
	}
	if said := ask(4, "--repair"); !strings.Contains(said, "systemctl stop hostler-agent") {
		t.Errorf("under a running agent it says\n%s", said)
	}
	ask(2, "-o", "xml")

	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait() // by our signal
	cmd := s.command(t.Context(), "fsck", "--repair")
	out, _ := cmd.CombinedOutput() // what others have left decides the exit code
	if !strings.Contains(string(out), "\n  done:   end what is left of its command") {
		t.Errorf("it says\n%s", out)
	}
	if _, err := os.Stat(orphan); !os.IsNotExist(err) {
		t.Errorf("the orphan: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "state", "runs", done.ID)); err != nil {
		t.Errorf("a run that the agent knows: %v", err)
	}
	r = fsck.Report{}
	cmd = s.command(t.Context(), "fsck", "-o", "json")
	b, _ := cmd.Output() // likewise
	if err := json.Unmarshal(b, &r); err != nil || mine() != 0 {
		t.Errorf("after the repair: %+v, %v", r, err)
	}
	s.start(t)
}
