//go:build integration

package integration

import (
	"errors"
	"fmt"
	"io"
	"maps"
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

// The transcript of README.md is run here, line by line, and what is printed
// must be what is run. It is written as a user sees it:
//
//   - Each line of a block "sh" is typed at the operator's terminal, and prints nothing.
//   - A line "$ COMMAND" is typed at the operator's terminal, "NAME# COMMAND" at
//     that of the machine NAME; lines beginning with "> " go on with it. Each
//     terminal is one bash, all of them in one directory.
//   - What follows is all that the command prints, and the next line is typed
//     when it has ended. "…" stands for anything within a line, a line of "…"
//     for any number of lines. If that is the last line and the terminal not the
//     operator's, the command may go on, as a server does, and the terminal's
//     next command waits for its end.
//   - The comment "<!-- values … -->" has lines "VALUE = REGEXP": VALUE is an
//     example in the transcript, "…" at its end included. Where it is printed
//     first, anything that matches stands for it; from then on, in output and in
//     commands, it is what was printed there.
//   - Two or more spaces are as good as any other number of them.
//
// Ports, bridge and network are replaced by free ones on the way in, and put
// back on the way out.

// step is one command of the transcript.
type step struct {
	line     int    // of README.md
	terminal string // "$" is the operator's
	command  string
	want     []string
	open     bool // the command may go on when want was printed
}

func TestReadme(t *testing.T) {
	t.Parallel()
	playPage(t, "../README.md")
}

// TestRecoveryPage plays the page about backups and recovery in the same way.
func TestRecoveryPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../doc/recovery.md")
}

// TestHowToPage plays the recipes.
func TestHowToPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../doc/howto.md")
}

// TestMQTTPage plays the recipes for readers of the broker, with the real mosquitto_sub.
func TestMQTTPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../doc/mqtt.md")
}

// TestAPIPage plays the page about the API.
func TestAPIPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../doc/api.md")
}

// playPage types what a page shows, and compares what is printed.
func playPage(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps, values := transcriptOf(t, string(b))
	s := newStage(t, values)
	for _, step := range steps {
		s.play(t, step)
	}
	for name, v := range s.values {
		if v.seen == "" {
			t.Errorf("%s never prints the value %q", file, name)
		}
	}
}

var (
	prompted = regexp.MustCompile(`^(?:(\$)|([a-z0-9-]+)#) (.*)$`)
	spaces   = regexp.MustCompile(` {2,}`)
)

// transcriptOf takes the console blocks and the values out of a README.
func transcriptOf(t testing.TB, text string) ([]step, map[string]*value) {
	t.Helper()
	var steps []step
	values := make(map[string]*value)
	inside := ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "```console" || line == "```sh" || line == "<!-- values":
			inside = line
		case line == "```" || line == "-->":
			inside = ""
		case inside == "<!-- values":
			name, expr, ok := strings.Cut(line, " = ")
			if !ok {
				t.Fatalf("README.md:%d: no VALUE = REGEXP", i+1)
			}
			values[name] = &value{expr: regexp.MustCompile("(?:" + expr + ")").String()}
		case inside == "```sh": // for the operator's terminal, and without a word
			steps = append(steps, step{line: i + 1, terminal: "$", command: line})
		case inside == "```console":
			steps = readStep(t, steps, i+1, line)
		}
	}
	if len(steps) == 0 {
		t.Fatal("README.md has no console block")
	}
	for i := range steps {
		if n := len(steps[i].want); n > 0 && steps[i].terminal != "$" && steps[i].want[n-1] == "…" {
			steps[i].open = true
		}
	}
	return steps, values
}

func readStep(t testing.TB, steps []step, number int, line string) []step {
	t.Helper()
	if m := prompted.FindStringSubmatch(line); m != nil {
		return append(steps, step{line: number, terminal: m[1] + m[2], command: m[3]})
	}
	if len(steps) == 0 {
		t.Fatalf("README.md:%d: output of no command", number)
	}
	last := &steps[len(steps)-1]
	if more, ok := strings.CutPrefix(line, "> "); ok && len(last.want) == 0 {
		last.command += "\n" + more
	} else {
		last.want = append(last.want, line)
	}
	return steps
}

// value is an example value of the transcript.
type value struct {
	expr string
	seen string // what was printed for it, once something was
}

// What the transcript lets pass, and what it does not.
func TestReadmePatterns(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a b", "a b", true},
		{"a b", "a c", false},
		{"a.b", "axb", false},
		{"a …", "a b c", true},
		{"a …", "b c", false},
		{"a  b", "a      b", true},
		{"a b", "a  b", false},
		{"…\nb", "x\ny\nb", true},
		{"…\nb", "b", true},
		{"…\nb", "b\nc", false},
		{"a\n…", "a", true},
		{"", "a", false},
		{"a", "", false},
		{"code: c1…", "code: cdef", true},
		{"code: c1…", "code: xyz", false},
		{"code: c1… c1…", "code: cde cde", true},
		{"old: c2…", "old: c9", true},
		{"old: c2…", "old: c8", false},
	} {
		s := &stage{values: map[string]*value{"c1…": {expr: "c[a-z]+"}, "c2…": {expr: "c[0-9]", seen: "c9"}}}
		lines := func(text string) []string {
			if text == "" {
				return nil
			}
			return strings.Split(text, "\n")
		}
		pattern, _ := s.pattern(lines(c.want))
		if ok := pattern.MatchString(joined(lines(c.got))); ok != c.ok {
			t.Errorf("%q against %q: %v, want %v", c.got, c.want, ok, c.ok)
		}
	}
}

// stage is where the transcript is run.
type stage struct {
	w         *world
	values    map[string]*value
	in, out   *strings.Replacer
	terminals map[string]*terminal
}

// terminal is a bash and the command that it runs.
type terminal struct {
	p     *process
	stdin io.WriteCloser
	begin int    // of the output of the command
	mark  string // what is printed behind it
	count int
}

func newStage(t *testing.T, values map[string]*value) *stage {
	t.Helper()
	w := &world{t: t, bin: programs(t), fleet: "demo", logs: t.ArtifactDir()}
	dir, err := os.MkdirTemp("/tmp", "hi-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // containers' own users pass through it
	}
	if err != nil {
		t.Fatal(err)
	}
	w.dir = dir
	t.Cleanup(w.close)
	mkdir(t, w.path("gnupg"))
	t.Cleanup(func() {
		kill := exec.Command("gpgconf", "--kill", "all")
		kill.Env = w.env()
		if b, err := kill.CombinedOutput(); err != nil {
			t.Errorf("ending gpg's agents: %v: %s", err, b)
		}
	})
	bridge := "hr" + w.dir[len(w.dir)-6:]
	w.hosts = append(w.hosts, &host{w: w, name: "edge-01", dir: w.dir, bridge: bridge})
	here := map[string]string{
		"127.0.0.1:8443": freeAddress(t), "127.0.0.1:8883": freeAddress(t),
		"hostler0": bridge, "10.133.0.": strings.TrimSuffix(freeSubnet(t).Addr().String(), "0"),
		"/root/tour": w.dir, "/srv/tour": w.path("lxc"),
	}
	_, port, _ := strings.Cut(here["127.0.0.1:8883"], ":")
	here["-p 8883"] = "-p " + port
	var in, out []string
	for _, k := range slices.Backward(slices.Sorted(maps.Keys(here))) {
		in, out = append(in, k, here[k]), append(out, here[k], k)
	}
	return &stage{w: w, values: values, in: strings.NewReplacer(in...), out: strings.NewReplacer(out...), terminals: make(map[string]*terminal)}
}

// terminal is the one of that name.
func (s *stage) terminal(t *testing.T, name string) *terminal {
	t.Helper()
	if have := s.terminals[name]; have != nil {
		return have
	}
	r, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	file := "terminal-" + strings.ReplaceAll(name, "$", "operator")
	term := &terminal{stdin: stdin}
	term.p = s.w.shell(t, file, r)
	s.terminals[name] = term
	return term
}

// shell starts a bash that reads commands from r and writes both outputs to
// one place.
func (w *world) shell(t *testing.T, name string, r *os.File) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(w.logs, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, done: make(chan struct{}), out: &transcript{copy: log}}
	p.talk = p.out
	p.cmd = exec.Command("bash", "--noprofile", "--norc")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = r, p.out, p.out
	p.cmd.Env, p.cmd.Dir = w.env(), w.dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 2 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	go func() { // ends with the process, which close ends
		p.err = p.cmd.Wait()
		log.Close()
		close(p.done)
		p.out.fire()
	}()
	t.Cleanup(func() { // before the world looks for what is left
		if err := syscall.Kill(-p.pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("ending the terminal %s: %v", name, err)
		}
	})
	w.processes = append(w.processes, p)
	return p
}

// printed is what the command has printed so far, and whether it has ended.
func (s *stage) printed(term *terminal) (lines []string, ended bool) {
	text, _, ended := strings.Cut(term.p.out.String()[term.begin:], term.mark)
	if ended {
		text = strings.TrimSuffix(text, "\n")
	} else {
		text = text[:max(strings.LastIndexByte(text, '\n'), 0)]
	}
	if text == "" {
		return nil, ended
	}
	return strings.Split(s.out.Replace(text), "\n"), ended
}

// ready waits until the command of a terminal has ended.
func (s *stage) ready(t *testing.T, term *terminal, next step) {
	t.Helper()
	if term.count == 0 {
		return
	}
	until(t, &term.p.out.change, fmt.Sprintf("README.md:%d: the command before it on this terminal ends", next.line), func() bool {
		_, ended := s.printed(term)
		return ended
	})
}

// play types a command and compares what it prints.
func (s *stage) play(t *testing.T, step step) {
	t.Helper()
	term := s.terminal(t, step.terminal)
	s.ready(t, term, step)
	term.count++
	term.begin, term.mark = len(term.p.out.String()), fmt.Sprintf("<end of %d>", term.count)
	command := s.in.Replace(step.command)
	for name, v := range s.values {
		if strings.Contains(command, name) && v.seen == "" {
			t.Fatalf("README.md:%d: nothing was printed yet that could be %q", step.line, name)
		}
		command = strings.ReplaceAll(command, name, v.seen)
	}
	if _, err := fmt.Fprintf(term.stdin, "{ %s\n} </dev/null; printf '%%s' '%s'\n", command, term.mark); err != nil {
		t.Fatal(err)
	}
	pattern, names := s.pattern(step.want)
	var got []string
	var found []string
	until(t, &term.p.out.change, fmt.Sprintf("README.md:%d: %s", step.line, step.command), func() bool {
		lines, ended := s.printed(term)
		got = lines
		found = pattern.FindStringSubmatch(joined(lines))
		return ended || term.p.ended() || step.open && found != nil
	})
	if found == nil {
		s.differs(t, step, got)
	}
	for i, name := range names {
		s.values[name].seen = found[i+1]
	}
}

// joined is lines, each with its end, as patterns see them.
func joined(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(spaces.ReplaceAllString(l, "  "), " ") + "\n")
	}
	return b.String()
}

// pattern is what output has to match. Its groups are the first appearances of
// the values that it returns.
func (s *stage) pattern(want []string) (*regexp.Regexp, []string) {
	var names []string
	known := []string{"…"}
	for _, name := range slices.Backward(slices.SortedFunc(maps.Keys(s.values), func(a, b string) int { return len(a) - len(b) })) {
		known = append(known, regexp.QuoteMeta(name))
	}
	// Longer values first, and the ellipsis last: it may end a value.
	special := regexp.MustCompile(strings.Join(append(known[1:], known[0]), "|"))
	var b strings.Builder
	b.WriteString(`\A`)
	for _, line := range want {
		if line == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		line = strings.TrimSuffix(joined([]string{line}), "\n")
		last := 0
		for _, at := range special.FindAllStringIndex(line, -1) {
			b.WriteString(regexp.QuoteMeta(line[last:at[0]]))
			last = at[1]
			switch name := line[at[0]:at[1]]; {
			case name == "…":
				b.WriteString(`.*`)
			case s.values[name].seen != "":
				b.WriteString(regexp.QuoteMeta(s.values[name].seen))
			case slices.Contains(names, name):
				b.WriteString(s.values[name].expr)
			default:
				names = append(names, name)
				b.WriteString("(" + s.values[name].expr + ")")
			}
		}
		b.WriteString(regexp.QuoteMeta(line[last:]) + `\n`)
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String()), names
}

// differs fails with what README.md should say. Values are put back, so that
// most lines can be copied.
func (s *stage) differs(t *testing.T, step step, got []string) {
	t.Helper()
	for name, v := range s.values {
		for i := range got {
			if v.seen != "" {
				got[i] = strings.ReplaceAll(got[i], v.seen, name)
			}
		}
	}
	t.Fatalf("README.md:%d: %s\nprints something else. README.md has:\n\t%s\nThe program prints:\n\t%s\n"+
		"If the program is right, correct README.md: … stands for anything, and the comment \"values\" there names what differs each time.",
		step.line, step.command, strings.Join(step.want, "\n\t"), strings.Join(got, "\n\t"))
}
