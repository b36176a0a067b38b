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

// step is one command that a person types, or a file that a person writes.
type step struct {
	machine, line string
	says          []string // each is in what the command prints
	file, text    string   // written on the hub, in place of a command
}

// steps reads what a page has typed: each block that follows a mark, and each file that
// is to be written. In a block, "NAME# COMMAND" is typed on a machine, and the lines
// after it are in what it prints.
func steps(t *testing.T, page, mark string) (all []step) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for {
		_, rest, ok := strings.Cut(text, "\n<!-- ")
		if !ok {
			break
		}
		name, rest, _ := strings.Cut(rest, " -->\n```")
		_, rest, _ = strings.Cut(rest, "\n") // the language
		block, rest, closed := strings.Cut(rest, "```\n")
		if text = rest; !closed {
			t.Fatalf("%s: the block of %q does not end", page, name)
		}
		if file, ok := strings.CutPrefix(name, "file "); ok {
			all = append(all, step{file: file, text: block})
			continue
		}
		if name != mark {
			continue
		}
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			if machine, typed, ok := strings.Cut(line, "# "); ok && !strings.Contains(machine, " ") {
				all = append(all, step{machine: machine, line: typed})
				continue
			}
			if len(all) == 0 || all[len(all)-1].line == "" {
				t.Fatalf("%s: %q follows no command", page, line)
			}
			all[len(all)-1].says = append(all[len(all)-1].says, line)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no block of %q", page, mark)
	}
	return all
}

// typist types the steps of a page on machines.
type typist struct {
	*testing.T
	machines map[string]*machine
	seen     string // all that was printed
	joined   chan error
}

// words are what a page leaves to the reader's own screen.
var words = map[string]*regexp.Regexp{
	"TOKEN": regexp.MustCompile(`hst_[0-9A-Z]+`), "CODE": regexp.MustCompile(`hj1_[0-9a-z]+`), "WORDS": regexp.MustCompile(`(?m)^words: ([a-z]+ [a-z]+ [a-z]+ [a-z]+)$`),
}

// do types one step and returns what it prints.
func (p *typist) do(s step) string {
	p.Helper()
	if s.file != "" {
		m := p.machines["hub"]
		if err := os.WriteFile(filepath.Join(m.dir, m.name, "root", "root", s.file), []byte(s.text), 0o644); err != nil {
			p.Fatal(err)
		}
		return ""
	}
	line := s.line
	for name, is := range words {
		if !strings.Contains(line, name) {
			continue
		}
		found := is.FindStringSubmatch(p.seen)
		if found == nil {
			p.Fatalf("nothing printed has a %s for %q:\n%s", name, line, p.seen)
		}
		line = strings.ReplaceAll(line, name, found[len(found)-1])
	}
	p.Logf("%s# %s", s.machine, line)
	m := p.machines[s.machine]
	if !strings.Contains(line, " join ") {
		out := m.do("cd /root && " + line)
		p.seen += out + "\n"
		for _, text := range s.says {
			if !strings.Contains(out, text) {
				p.Errorf("%s# %s printed\n%s\nand not %q", s.machine, line, out, text)
			}
		}
		return out
	}
	// It waits for the approval, as a person at the other screen does for the words.
	cmd := m.command(p.Context(), line)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.seen += lines.Text() + "\n"
		if words["WORDS"].MatchString(lines.Text()) {
			break
		}
	}
	p.joined = make(chan error, 1)
	go func() {
		for lines.Scan() { // it must not wait for its reader
		}
		p.joined <- cmd.Wait()
	}()
	return ""
}

// give copies the packages into a machine, for root.
func giveRoot(t *testing.T, m *machine) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, "*_amd64.deb"))
	if err != nil || len(found) != 4 {
		t.Fatalf("%q, %v", found, err)
	}
	output(t, "cp", append(found, filepath.Join(m.dir, m.name, "root", "root"))...)
}

// remove takes a link away when the machines are gone.
func remove(t *testing.T, link string) {
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "delete", link).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// TestFirstTenMinutes types what README.md says, on two machines on which nothing but a
// Debian has ever been installed.
func TestFirstTenMinutes(t *testing.T) {
	const most = 8
	all := steps(t, "../README.md", "first ten minutes")
	if len(all) > most {
		t.Errorf("%d commands, want %d at most", len(all), most)
	}
	remove(t, "hostler-test0")
	p := &typist{T: t, machines: map[string]*machine{
		"hub":     boot(t, "bare", nil, "hub", "hostler-test0", "10.77.0.1/24"),
		"edge-01": boot(t, "bare", nil, "edge-01", "hostler-test0", "10.77.0.2/24"),
	}}
	for _, m := range p.machines {
		giveRoot(t, m)
	}
	began, last := time.Now(), ""
	for _, s := range all {
		last = p.do(s)
	}
	if !strings.HasSuffix("\n"+last, "\nedge-01") { // after what is said about a host that has just come
		t.Errorf("the command on the second machine printed %q", last)
	}
	if err := <-p.joined; err != nil {
		t.Errorf("join: %v", err)
	}
	p.machines["edge-01"].do("systemctl is-enabled hostler-agent && systemctl is-active hostler-agent") // of the join
	t.Logf("%d commands, %.0f s from nothing to the output of a command on a second host", len(all), time.Since(began).Seconds())
}

// TestTutorial types what doc/tutorial.md says. The host is behind NAT: it reaches the
// hub through this machine, under an address of this machine, and cannot be reached.
func TestTutorial(t *testing.T) {
	all := steps(t, "../doc/tutorial.md", "typed")
	remove(t, "hostler-test0")
	remove(t, "hostler-test1")
	p := &typist{T: t, machines: map[string]*machine{
		"hub":     boot(t, "bare", nil, "hub", "hostler-test0", "10.77.0.1/24"),
		"edge-01": boot(t, "full", fullPackages, "edge-01", "hostler-test1", "10.78.0.2/24"),
	}}
	for _, m := range p.machines {
		giveRoot(t, m)
	}
	const forward = "/proc/sys/net/ipv4/ip_forward"
	before, err := os.ReadFile(forward)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(forward, before, 0o644); err != nil {
			t.Error(err)
		}
		if out, err := exec.Command("nft", "delete", "table", "ip", "hostler-test").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if err := os.WriteFile(forward, []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	output(t, "ip", "address", "add", "10.77.0.254/24", "dev", "hostler-test0")
	output(t, "ip", "address", "add", "10.78.0.254/24", "dev", "hostler-test1")
	output(t, "nft", "table ip hostler-test { chain nat { type nat hook postrouting priority 100; ip saddr 10.78.0.0/24 oifname hostler-test0 masquerade; }; chain in { type filter hook forward priority 0; iifname hostler-test0 ct state new drop; }; }")
	p.machines["edge-01"].do("ip route add default via 10.78.0.254")
	for _, s := range all {
		p.do(s)
	}
	if err := <-p.joined; err != nil {
		t.Errorf("join: %v", err)
	}
	if out, err := p.machines["hub"].try("ping -c 1 -W 1 10.78.0.2"); err == nil {
		t.Errorf("the host is not behind NAT: %s", out)
	}
}
