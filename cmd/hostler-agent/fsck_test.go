package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/fsck"
	"github.com/hostler-io/hostler/backup"
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
	target := filepath.Join(s.dir, "target")
	cut := filepath.Join(target, ".new-cut")
	if err := errors.Join(os.Mkdir(target, 0o700), os.WriteFile(cut, nil, 0o600), os.Chtimes(cut, time.Unix(7, 0), time.Unix(7, 0))); err != nil {
		t.Fatal(err)
	}
	without := "[podman]\nuse = \"off\"\n[backups]\ntargets = [\"nas=" + target + "\"]\n"
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
	if err := json.Unmarshal([]byte(ask(1, "-o", "json")), &r); err != nil || mine() != 2 {
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
	if _, err := os.Stat(cut); !os.IsNotExist(err) {
		t.Errorf("an unfinished backup at a target: %v", err)
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

// TestWithoutTargets: a look at the host that leaves the targets of backups out needs nothing of
// the buckets among them, either.
func TestWithoutTargets(t *testing.T) {
	c := config{Backups: backupsConfig{Targets: []string{"offsite=s3://s3.example/backups"}, S3Credentials: []string{"offsite=/etc/hostler/s3"}}}
	for _, c := range []config{c, c.withoutTargets()} {
		if _, err := backup.ParseTargets(c.Backups.Targets, c.Backups.access()); err != nil {
			t.Errorf("targets %q: %v", c.Backups.Targets, err)
		}
	}
}
