package agents

import (
	"testing"

	"github.com/hostler-io/hostler/fence"
)

// TestAnswer: what a host tells is read as it was meant, and nothing else is an answer.
func TestAnswer(t *testing.T) {
	t.Parallel()
	for _, r := range []Result{{Outcome: fence.OutcomeOff, Text: "Status: OFF"}, {Outcome: fence.OutcomeOK}, {Outcome: fence.OutcomeMissing, Text: "install: it"}} {
		if got, ok := ParseAnswer(r.Answer()); !ok || got != r {
			t.Errorf("%q became %+v, %t", r.Answer(), got, ok)
		}
	}
	for _, text := range []string{"", "off", "offline: yes", "its host was fenced; how far it came is not known", "OFF: Status: OFF"} {
		if got, ok := ParseAnswer(text); ok && text != "off" {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	for _, d := range []Description{{Agent: "fence_apc", Plug: "port", On: true, Status: true}, {Agent: "fence_x"}} {
		if got, err := ParseDescription(d.String()); err != nil || got != d {
			t.Errorf("%q became %+v, %v", d, got, err)
		}
	}
	for _, text := range []string{"", "on status", "agent=/bin/sh", "agent=fence_x plug=action"} {
		if got, err := ParseDescription(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// FuzzAnswer: whatever a host tells, what is taken of it is told in the same way again.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{"off: Status: OFF", "ok: agent=fence_apc plug=port on status", "failed: \x00", "agent=fence_x plug=plug plug=port"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := ParseAnswer(text); ok {
			if again, ok := ParseAnswer(r.Answer()); !ok || again != r {
				t.Errorf("%q: %+v became %+v", text, r, again)
			}
		}
		if d, err := ParseDescription(text); err == nil {
			if again, err := ParseDescription(d.String()); err != nil || again != d {
				t.Errorf("%q: %+v became %+v, %v", text, d, again, err)
			}
		}
	})
}
