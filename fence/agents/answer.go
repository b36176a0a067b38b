package agents

import (
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/fence"
)

// Answer is a result in one line, as a host tells it that asks a device for the
// coordinator: the outcome, and behind a colon what the device has said.
func (r Result) Answer() string { return string(r.Outcome) + ": " + r.Text }

// ParseAnswer reads an [Result.Answer]. It reports false for anything else.
func ParseAnswer(line string) (r Result, ok bool) {
	outcome, text, _ := strings.Cut(line, ": ")
	r = Result{Outcome: fence.Outcome(outcome), Text: text}
	switch r.Outcome {
	case fence.OutcomeOK, fence.OutcomeOff, fence.OutcomeFailed, fence.OutcomeTimeout, fence.OutcomeMissing:
		return r, true
	}
	return Result{}, false
}

// Description is what a host tells of a device of its own.
type Description struct {
	Agent      string // the program
	Plug       string // the parameter that names a host to it; empty if there is none
	On, Status bool   // whether it can be asked for that
}

// String is the description in one line.
func (d Description) String() string {
	text := "agent=" + d.Agent
	if d.Plug != "" {
		text += " plug=" + d.Plug
	}
	if d.On {
		text += " on"
	}
	if d.Status {
		text += " status"
	}
	return text
}

// ParseDescription reads a [Description.String]. Words that it does not know are passed over.
func ParseDescription(text string) (d Description, err error) {
	for _, word := range strings.Fields(text) {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "agent":
			d.Agent = value
		case "plug":
			d.Plug = value
		case "on":
			d.On = true
		case "status":
			d.Status = true
		}
	}
	if err := fence.CheckAgent(d.Agent); err != nil {
		return Description{}, fmt.Errorf("the description of the device cannot be read: %w", err)
	}
	if d.Plug != "" && d.Plug != "plug" && d.Plug != "port" {
		return Description{}, fmt.Errorf("the description of the device names the parameter %.63q for plugs; want plug or port", d.Plug)
	}
	return d, nil
}
