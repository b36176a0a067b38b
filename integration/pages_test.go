//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/podmantest"
)

// Pages beside those of readme_test.go show commands without what they print. They are
// typed on one fleet, page after page. Comments that no reader sees say what is typed:
//
//   - "<!-- played -->": each line of the next block. It must end well, or with the code
//     that its comment tells ("# … exit code 10"). What would go on for ever is ended after
//     a moment. Questions are answered with yes.
//   - "<!-- file NAME -->": the next block is the file NAME.
//   - "<!-- run COMMAND -->": what the page presupposes, or clears away.
var playedPages = map[string]int{ // and how many commands each has at the least
	"networks": 7, "metrics": 8, "unique": 3, "backups": 5, "containers": 18, "policy": 1, "fencing": 1,
}

// order is that in which the pages are played.
var order = []string{"networks", "metrics", "unique", "backups", "policy", "fencing", "containers"}

// pageStep is one line that is typed, or a file.
type pageStep struct {
	line       int
	command    string
	file, text string
}

var (
	played   = regexp.MustCompile(`^<!-- (played|file|run) ?(.*?) ?-->$`)
	exitCode = regexp.MustCompile(`# .*exit code ([0-9]+)`)
	goesOn   = regexp.MustCompile(`--watch|--follow|^hostler events`)
)

// stepsOf takes out of a page what is typed.
func stepsOf(t *testing.T, page string) (steps []pageStep) {
	t.Helper()
	inside, next, file := false, "", ""
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
		case next == "played":
			steps = append(steps, pageStep{line: i + 1, command: line})
		}
	}
	return steps
}

// TestPages plays the pages of doc on one fleet: edge-07 has LXC and podman, edge-01 holds
// unique containers.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addPodmanHost(t, "edge-07")
	h := w.newHost(t, "edge-01", true)
	write(t, h.config(), read(t, h.config())+"[unique]\nguard = true\n")
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	port := func() string {
		_, port, _ := strings.Cut(freeAddress(t), ":")
		return port
	}
	here := strings.NewReplacer(
		"registry.example/web:3", podmantest.Image, "registry.example/tools:3", podmantest.Image, "/bin/job --all", "/bin/sleep 1000000", "/bin/web, --all", "/bin/sleep, '1000000'",
		"8080", port(), "53:53", port()+":53", "edge-08", "edge-01",
	)
	typed := 0
	for _, page := range order {
		count := 0
		for _, s := range stepsOf(t, "../doc/"+page+".md") {
			if s.file != "" {
				write(t, w.path(s.file), here.Replace(s.text))
				continue
			}
			count++
			w.typed(t, page, s, here.Replace(s.command))
		}
		if least := playedPages[page]; count < least {
			t.Errorf("%s.md: %d commands were typed, want %d at the least", page, count, least)
		}
		typed += count
	}
	t.Logf("%d commands of %d pages", typed, len(order))
}

// typed types a command of a page.
func (w *world) typed(t *testing.T, page string, s pageStep, command string) {
	t.Helper()
	said := w.typedOnce(t, page, s, command)
	if strings.Contains(said, "rerun with --yes") {
		line, comment, _ := strings.Cut(command, " #")
		said = w.typedOnce(t, page, s, line+" --yes #"+comment)
	}
	if said != "" {
		t.Error(said)
	}
}

// typedOnce does it and returns what is wrong with its end.
func (w *world) typedOnce(t *testing.T, page string, s pageStep, command string) string {
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
			return ""
		}
		err = fmt.Errorf("it does not end")
	}
	want := "0"
	if m := exitCode.FindStringSubmatch(command); m != nil {
		want = m[1]
	}
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != want || err != nil && want == "0" {
		return fmt.Sprintf("%s.md:%d: %s: exit code %s, want %s: %v\n%s", page, s.line, command, got, want, err, read(t, out.Name()))
	}
	return ""
}
