package lxc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
)

func read(pieces ...string) (events []string) {
	r := &eventReader{emit: func(name string, state container.State) {
		events = append(events, fmt.Sprintf("%s=%s", name, state))
	}}
	for _, p := range pieces {
		if n, err := r.Write([]byte(p)); n != len(p) || err != nil {
			panic(fmt.Sprint(n, err))
		}
	}
	return events
}

func TestEventReader(t *testing.T) {
	const all = "'web' changed state to [STARTING]\n'web' changed state to [RUNNING]\n'web' exited with status [0]\n" +
		"'web' changed state to [STOPPING]\n'web' changed state to [ABORTING]\n'web' changed state to [STOPPED]\n" +
		"'db' changed state to [FREEZING]\n'db' changed state to [FROZEN]\n'db' changed state to [THAWED]\n"
	want := []string{"web=starting", "web=running", "web=stopping", "web=stopping", "web=stopped", "db=frozen", "db=running"}
	if got := read(all); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := read(strings.Split(all, "")...); !slices.Equal(got, want) {
		t.Errorf("byte by byte: got %q, want %q", got, want)
	}
}

func TestEventReaderIgnores(t *testing.T) {
	for _, line := range []string{
		"", "\n", "noise\n", "'web' changed state to [ASLEEP]\n", "web changed state to [RUNNING]\n",
		"'' changed state to [RUNNING]\n", "'web' changed state to [RUNNING]", "'web' changed state to [RUNNING]x\n",
		"'" + strings.Repeat("x", 600) + "' changed state to [RUNNING]\n",
	} {
		if got := read(line); len(got) != 0 {
			t.Errorf("%.60q gave %q", line, got)
		}
	}
	// A line that is too long takes nothing else with it.
	if got := read(strings.Repeat("x", 600), "y\n'web' changed state to [RUNNING]\n"); !slices.Equal(got, []string{"web=running"}) {
		t.Errorf("after a long line: %q", got)
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("'web' changed state to [RUNNING]\n"), 5)
	f.Add([]byte("'a' changed state to [STOPPED]\n'b' exited with status [1]\n\n'"), 1)
	f.Add([]byte(strings.Repeat("z", 700)+"\n'c' changed state to [FROZEN]\n"), 511)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		whole := read(string(data))
		// However the pipe cuts the stream, the events are the same.
		if at = min(max(at, 0), len(data)); !slices.Equal(whole, read(string(data[:at]), string(data[at:]))) {
			t.Errorf("cut at %d, the events differ", at)
		}
		r := &eventReader{emit: func(name string, _ container.State) {
			if name == "" || len(name) > maxEventLine {
				t.Errorf("name of %d bytes", len(name))
			}
		}}
		r.Write(data)
		if len(r.line) > maxEventLine {
			t.Errorf("%d bytes are kept", len(r.line))
		}
	})
}
