//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Pages beside those of readme_test.go show commands without what they print. They are
// typed on one fleet, page after page. Comments that no reader sees say what is typed:
//
//   - "<!-- played -->": each line of the next block. It must end well, or with the code
//     that its comment tells ("# … exit code 10"), or one of the codes. What would go on for ever is ended after
//     a moment. Questions are answered with yes. `<!-- played without "TEXT" … -->` leaves out
//     lines with such a text, which take what no fleet of a test has. A line after
//     "edge-07# " is typed on that host, and ID is the id that a line before has printed.
//   - "<!-- file NAME -->": the next block is the file NAME.
//   - "<!-- run COMMAND -->": what the page presupposes, or clears away. What no program does
//     is done by the test.
var playedPages = map[string]int{ // and how many commands each has at the least
	"networks": 20, "metrics": 19, "unique": 24, "backups": 15, "containers": 90, "policy": 1, "fencing": 10,
	"delivery": 5, "hosts": 7, "upgrade": 3, "offline": 13, "trust": 6, "howto": 4,
}

// order is that in which the pages are played: trust gives edge-01 a policy, and makes the key with
// which fencing has a person sign.
var order = []string{"networks", "unique", "backups", "metrics", "policy", "delivery", "hosts", "upgrade", "offline", "containers", "howto", "trust", "fencing"}

// pageStep is one line that is typed, or a file.
type pageStep struct {
	line       int
	command    string
	file, text string
}

var (
	played    = regexp.MustCompile(`^<!-- (played|file|run) ?(.*?) ?-->$`)
	exitCode  = regexp.MustCompile(`exit code ([0-9]+)`)
	without   = regexp.MustCompile(`"([^"]+)"`)
	idOf      = regexp.MustCompile(`\bID\b`)
	printedID = regexp.MustCompile(`(?m)^[0-9a-f]{8}-[0-9a-f-]{27}$`)
	goesOn    = regexp.MustCompile(`--watch|--follow|^hostler events`)
)

// stepsOf takes out of a page what is typed.
func stepsOf(t *testing.T, page string) (steps []pageStep) {
	t.Helper()
	inside, next, file := false, "", ""
	out := func(line string) bool {
		return slices.ContainsFunc(without.FindAllStringSubmatch(file, -1), func(m []string) bool { return strings.Contains(line, m[1]) })
	}
	for i, line := range strings.Split(read(t, page), "\n") {
		if m := played.FindStringSubmatch(line); m != nil && !inside {
			next, file = m[1], m[2]
			if next == "run" {
				steps, next = append(steps, pageStep{line: i + 1, command: m[2]}), ""
			}
			continue
		}
		switch {
		case strings.HasPrefix(line, "```"):
			if inside = !inside; inside && next == "file" {
				steps = append(steps, pageStep{line: i + 1, file: file})
			}
			if !inside {
				next = ""
			}
		case !inside || line == "":
		case next == "file":
			steps[len(steps)-1].text += line + "\n"
		case next == "played" && !out(line):
			steps = append(steps, pageStep{line: i + 1, command: line})
		}
	}
	return steps
}

// TestPages plays the pages of doc on one fleet.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newPageWorld(t)
	here, byHand := w.here(t), w.byHand(t)
	typed, id := 0, ""
	for _, page := range order {
		count := 0
		for _, s := range stepsOf(t, "../doc/"+page+".md") {
			if s.file != "" {
				write(t, w.path(here.Replace(s.file)), here.Replace(s.text))
				continue
			}
			count++
			if does := byHand[s.command]; does != nil {
				does()
				continue
			}
			if found := printedID.FindString(w.typed(t, page, s, idOf.ReplaceAllString(here.Replace(s.command), id))); found != "" {
				id = found
			}
		}
		if least := playedPages[page]; count < least {
			t.Errorf("%s.md: %d commands were typed, want %d at the least", page, count, least)
		}
		typed += count
	}
	t.Logf("%d commands of %d pages", typed, len(order))
}

// typed types a command of a page, and returns what it prints.
func (w *world) typed(t *testing.T, page string, s pageStep, command string) (out string) {
	t.Helper()
	out, said := w.typedOnce(t, page, s, command)
	if strings.Contains(said, "rerun with --yes") {
		line, comment, _ := strings.Cut(command, " #")
		out, said = w.typedOnce(t, page, s, line+" --yes #"+comment)
	}
	if said != "" {
		t.Error(said)
	}
	return out
}

// typedOnce does it, and returns what is printed and what is wrong with its end.
func (w *world) typedOnce(t *testing.T, page string, s pageStep, command string) (printed, wrong string) {
	t.Helper()
	out, err := os.Create(filepath.Join(w.logs, fmt.Sprintf("page-%s-%d.log", page, s.line)))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("bash", "-c", "exec "+command)
	if strings.ContainsAny(command, "|&;$") {
		cmd = exec.Command("bash", "-c", command)
	}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = w.env(), w.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the command, which is ended below
	limit := patience
	if goesOn.MatchString(command) {
		limit = 2 * time.Second
	}
	select {
	case err = <-ended:
	case <-time.After(limit):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // it may have ended just now
		if <-ended; limit < patience {
			return "", ""
		}
		err = fmt.Errorf("it does not end")
	}
	want := []string{"0"}
	if _, comment, ok := strings.Cut(command, " #"); ok && exitCode.MatchString(comment) {
		want = nil
		for _, m := range exitCode.FindAllStringSubmatch(comment, -1) {
			want = append(want, m[1])
		}
	}
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); !slices.Contains(want, got) || err != nil && got == "0" {
		wrong = fmt.Sprintf("%s.md:%d: %s: exit code %s, want one of %s: %v\n%s", page, s.line, command, got, want, err, read(t, out.Name()))
	}
	return read(t, out.Name()), wrong
}
