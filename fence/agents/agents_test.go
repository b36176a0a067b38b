package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/internal/builttest"
)

// script installs a program in a directory of its own.
func script(t *testing.T, text string) Runner {
	t.Helper()
	dir := t.TempDir()
	if err := builttest.Write(filepath.Join(dir, "fence_test"), "#!/bin/sh\n"+text); err != nil {
		t.Fatal(err)
	}
	return Runner{Dir: dir}
}

func call(verb string) Call {
	return Call{Agent: "fence_test", Verb: verb, Host: "edge-01", Limit: 5 * time.Second, Hide: []string{"s3cret"}, Params: map[string]string{"password": "s3cret"}}
}

// TestOutcomes holds the meaning of exit codes and of everything that a program may do
// instead of ending.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, verb string
		want       fence.Outcome
		says       string
	}{
		"success":             {"echo Success: Powered OFF", "off", fence.OutcomeOK, "Success: Powered OFF"},
		"status on":           {"exit 0", "status", fence.OutcomeOK, ""},
		"status off":          {"exit 2", "status", fence.OutcomeOff, ""},
		"off with exit 2":     {"exit 2", "off", fence.OutcomeFailed, ""},
		"on with exit 2":      {"exit 2", "on", fence.OutcomeFailed, ""},
		"monitor off":         {"exit 2", "monitor", fence.OutcomeOK, ""},
		"failure":             {"echo why >&2; exit 1", "off", fence.OutcomeFailed, "why"},
		"any other code":      {"exit 127", "off", fence.OutcomeFailed, ""},
		"a signal":            {"kill -9 $$", "off", fence.OutcomeFailed, "fence_test was ended by a signal"},
		"a secret":            {"echo login with s3cret failed; exit 1", "off", fence.OutcomeFailed, "login with … failed"},
		"for the terminal":    {"printf 'a\\033[2Jb\\n'; exit 1", "off", fence.OutcomeFailed, "a [2Jb"},
		"a question to shell": {"cat >/dev/null", "reboot", fence.OutcomeFailed, `devices are not asked for "reboot"`},
	} {
		got := script(t, c.text).Run(t.Context(), call(c.verb))
		if got.Outcome != c.want || got.Text != c.says {
			t.Errorf("%s: %s %q, want %s %q", name, got.Outcome, got.Text, c.want, c.says)
		}
	}
	missing := call("off")
	missing.Agent = "fence_none"
	if got := script(t, "").Run(t.Context(), missing); got.Outcome != fence.OutcomeMissing || !strings.Contains(got.Text, "install the package fence-agents") {
		t.Errorf("missing: %+v", got)
	}
}

// TestStdin: the action is the last line, and nothing is on the command line.
func TestStdin(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "in")
	r := script(t, `printf '%s\n' "$#" >`+out+`; cat >>`+out+`; env >>`+out)
	c := call("off")
	c.PlugKey, c.Plug, c.Limit = "port", "7", 30*time.Second
	if got := r.Run(t.Context(), c); got.Outcome != fence.OutcomeOK {
		t.Fatalf("%+v", got)
	}
	b, _ := os.ReadFile(out)
	if want := "0\npassword=s3cret\npower_timeout=25\nnodename=edge-01\nport=7\naction=off\n"; !strings.HasPrefix(string(b), want) {
		t.Errorf("got %s, want %s", b, want)
	}
	if strings.Contains(string(b), "HOME=") {
		t.Errorf("it has our environment: %s", b)
	}
	for _, bad := range []string{"x\naction=on", "x\r", "x\x00"} {
		c.Params = map[string]string{"ip": "1", "x": bad}
		if got := r.Run(t.Context(), c); got.Outcome != fence.OutcomeFailed || !strings.Contains(got.Text, "line end") {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// TestProgramsThatDoNotEnd: at the limit the program and its children are killed, whatever
// they ignore and hold.
func TestProgramsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"ignores the end of others": "trap '' TERM INT HUP; sleep 60; sleep 60",
		"prints without end":        "yes",
		"leaves a child":            "sleep 60 & wait",
	} {
		file := filepath.Join(t.TempDir(), "pid")
		c := call("off")
		c.Limit = 300 * time.Millisecond
		got := script(t, "echo $$ >"+file+"\n"+text).Run(t.Context(), c)
		if got.Outcome != fence.OutcomeTimeout || got.Took > 5*time.Second {
			t.Errorf("%s: %+v", name, got)
		}
		b, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatalf("%s: it has not begun: %v", name, err)
		}
		if left := group(t, pid); len(left) > 0 {
			t.Errorf("%s: processes of it are left: %v", name, left)
		}
	}
	// One that has ended is believed, although a child of it holds the pipe.
	got := script(t, "sleep 60 & exit 0").Run(t.Context(), call("off"))
	if got.Outcome != fence.OutcomeOK || got.Took > 4*time.Second {
		t.Errorf("a child that holds the pipe: %+v", got)
	}
}

// group lists the processes of a process group that have not ended.
func group(t *testing.T, pgid int) (left []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f) // it may have ended
		_, rest, _ := strings.Cut(string(b), ") ")
		if w := strings.Fields(rest); len(w) > 2 && w[0] != "Z" && w[2] == strconv.Itoa(pgid) {
			left = append(left, f)
		}
	}
	return left
}

func TestOnlyProgramsOfRoot(t *testing.T) {
	t.Parallel()
	r := script(t, "exit 0")
	if err := os.Chmod(filepath.Join(r.Dir, "fence_test"), 0o722); err != nil {
		t.Fatal(err)
	}
	if got := r.Run(t.Context(), call("off")); got.Outcome != fence.OutcomeFailed || !strings.Contains(got.Text, "can be changed by others") {
		t.Errorf("%+v", got)
	}
	c := call("off")
	c.Agent = "../../bin/sh"
	if got := r.Run(t.Context(), c); got.Outcome != fence.OutcomeFailed || !strings.Contains(got.Text, "no program of fence-agents") {
		t.Errorf("%+v", got)
	}
}

// dummy asks Debian's fence_dummy, whose device is a file.
func dummy(t *testing.T, verb, file string, more ...string) Result {
	t.Helper()
	params := map[string]string{"status_file": file}
	for i := 0; i < len(more); i += 2 {
		params[more[i]] = more[i+1]
	}
	return Runner{Dir: Dir}.Run(t.Context(), Call{Agent: "fence_dummy", Verb: verb, Host: "edge-01", Params: params, Limit: 20 * time.Second})
}

// TestFenceDummy is the real program of Debian, as it was seen.
func TestFenceDummy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "status")
	for i, c := range []struct {
		verb string
		want fence.Outcome
	}{
		{"on", fence.OutcomeOK}, {"status", fence.OutcomeOK}, {"monitor", fence.OutcomeOK}, {"off", fence.OutcomeOK}, {"status", fence.OutcomeOff}, {"off", fence.OutcomeOK}, {"monitor", fence.OutcomeOK},
	} {
		if got := dummy(t, c.verb, file); got.Outcome != c.want {
			t.Errorf("%d: %s: %+v, want %s", i, c.verb, got, c.want)
		}
	}
	if err := os.WriteFile(file, []byte("on"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := dummy(t, "off", file, "type", "fail", "power_timeout", "1"); got.Outcome != fence.OutcomeFailed {
		t.Errorf("a device that fails: %+v", got)
	}
	// A file that lies: its off succeeds, and its status says off, of a host that nothing
	// has switched. Only a status while the host is heard finds that.
	nowhere := filepath.Join(t.TempDir(), "no", "such")
	if off, status := dummy(t, "off", nowhere), dummy(t, "status", nowhere); off.Outcome != fence.OutcomeOK || status.Outcome != fence.OutcomeOff {
		t.Errorf("off %+v, status %+v", off, status)
	} else if unusable, _ := fence.MustSayOn("edge-01", status.Outcome, status.Text); unusable == "" {
		t.Error("the device that lies is usable")
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{
		"fence_dummy":   " on true off true status true required []",
		"fence_ipmilan": "plug on true off true status true required []",
		"fence_virsh":   "plug on true off true status true",
	} {
		m, err := Runner{Dir: Dir}.Describe(t.Context(), agent)
		if got := fmt.Sprintf("%s on %t off %t status %t required %v", m.Plug, m.On, m.Off, m.Status, m.Required); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, %v, want %s", agent, got, err, want)
		}
	}
	if _, err := script(t, "echo no").Describe(t.Context(), "fence_test"); err == nil || !strings.Contains(err.Error(), "no XML") {
		t.Errorf("garbage: %v", err)
	}
}

// TestDescribedOnce: a program is asked what it can do once, and again when it is another one.
func TestDescribedOnce(t *testing.T) {
	t.Parallel()
	asked := filepath.Join(t.TempDir(), "asked")
	const says = `echo x >>%s; echo '<resource-agent name="x"><parameters><parameter name=%q/></parameters><actions><action name="off"/></actions></resource-agent>'`
	r := script(t, fmt.Sprintf(says, asked, "port"))
	r.Known = new(Descriptions)
	describes := func(plug string, times int) {
		t.Helper()
		m, err := r.Describe(t.Context(), "fence_test")
		b, _ := os.ReadFile(asked)
		if err != nil || m.Plug != plug || strings.Count(string(b), "x") != times {
			t.Errorf("plug %q, %v, asked %d times; want %q, %d times", m.Plug, err, strings.Count(string(b), "x"), plug, times)
		}
	}
	describes("port", 1)
	describes("port", 1)
	path := filepath.Join(r.Dir, "fence_test")
	if err := builttest.Write(path, "#!/bin/sh\n"+fmt.Sprintf(says, asked, "plug")+" \n"); err != nil {
		t.Fatal(err)
	}
	describes("plug", 2)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	describes("plug", 3)
	if err := os.Chmod(path, 0o722); err != nil {
		t.Fatal(err)
	}
	if got := r.Run(t.Context(), call("off")); got.Outcome != fence.OutcomeFailed {
		t.Errorf("one that others can change is run: %+v", got)
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`<?xml version="1.0" ?><resource-agent name="x"><parameters><parameter name="plug" required="1"/></parameters><actions><action name="off"/><action name="status"/></actions></resource-agent>`))
	f.Add([]byte(`<resource-agent><actions><action name="on" automatic="1"/></actions></resource-agent>`))
	f.Add([]byte(`<!DOCTYPE x [<!ENTITY a "&a;&a;">]><resource-agent>&a;</resource-agent>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err == nil && !m.Off {
			t.Errorf("a program that cannot switch off is taken: %q", b)
		}
	})
}
