//go:build heavy

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// step is one command that a person types.
type step struct{ machine, line string }

// steps reads the first ten minutes out of README.md.
func steps(t *testing.T) (all []step) {
	t.Helper()
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "<!-- first ten minutes -->\n```text\n")
	block, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatal("README.md has no first ten minutes")
	}
	for line := range strings.Lines(block) {
		machine, typed, ok := strings.Cut(strings.TrimSpace(line), "# ")
		if !ok {
			t.Fatalf("%q is no command on a machine", line)
		}
		all = append(all, step{machine, typed})
	}
	return all
}

// TestFirstTenMinutes types what README.md says, on two machines on which nothing but a
// Debian has ever been installed.
func TestFirstTenMinutes(t *testing.T) {
	const most = 8
	all := steps(t)
	if len(all) > most {
		t.Errorf("%d commands, want %d at most", len(all), most)
	}
	t.Cleanup(func() { // after the machines
		if out, err := exec.Command("ip", "link", "delete", "hostler-test0").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	machines := map[string]*machine{
		"hub":     boot(t, "bare", nil, "hub", "hostler-test0", "10.77.0.1/24"),
		"edge-01": boot(t, "bare", nil, "edge-01", "hostler-test0", "10.77.0.2/24"),
	}
	for _, m := range machines {
		found, err := filepath.Glob(filepath.Join(dist, "*_amd64.deb"))
		if err != nil || len(found) != 4 {
			t.Fatalf("%q, %v", found, err)
		}
		output(t, "cp", append(found, filepath.Join(m.dir, m.name, "root", "root"))...)
	}
	words := map[string]*regexp.Regexp{
		"TOKEN": regexp.MustCompile(`hst_[0-9A-Z]+`), "CODE": regexp.MustCompile(`hj1_[0-9a-z]+`), "WORDS": regexp.MustCompile(`(?m)^words: ([a-z]+ [a-z]+ [a-z]+ [a-z]+)$`),
	}
	seen, began, joined, last := "", time.Now(), make(chan error, 1), ""
	for i, s := range all {
		line := s.line
		for name, is := range words {
			if !strings.Contains(line, name) {
				continue
			}
			found := is.FindStringSubmatch(seen)
			if found == nil {
				t.Fatalf("nothing printed has a %s for %q:\n%s", name, line, seen)
			}
			line = strings.ReplaceAll(line, name, found[len(found)-1])
		}
		t.Logf("%d. %5.1f s  %s# %s", i+1, time.Since(began).Seconds(), s.machine, line)
		m := machines[s.machine]
		if !strings.Contains(line, " join ") {
			last = m.do("cd /root && " + line)
			seen += last + "\n"
			continue
		}
		// It waits for the approval, as a person at the other screen does for the words.
		cmd := m.command(t.Context(), line)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			seen += lines.Text() + "\n"
			if words["WORDS"].MatchString(lines.Text()) {
				break
			}
		}
		go func() {
			for lines.Scan() { // it must not wait for its reader
			}
			joined <- cmd.Wait()
		}()
	}
	if !strings.HasSuffix("\n"+last, "\nedge-01") { // after what is said about a host that has just come
		t.Errorf("the command on the second machine printed %q", last)
	}
	if err := <-joined; err != nil {
		t.Errorf("join: %v", err)
	}
	t.Logf("%d commands, %.0f s from nothing to the output of a command on a second host", len(all), time.Since(began).Seconds())
}
