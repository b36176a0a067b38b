package dispatch

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// ActionNoun prints actions.
func ActionNoun() show.Noun[api.Action] {
	return show.NounOf("id", "id host kind name state reason exit created_at requester+ command+ ended_at+ needs+ approvals++ detail++ target++ attempt++ session+ "+
		"ran++ error++ output++ waits++ batch++ sent_at++ receipted_at++ host_accepted_at++ host_started_at++ host_ended_at++ "+
		"expires_at++ spec++ conflict++ intent++ digest++", show.Cells[api.Action]{
		"id":        func(a api.Action) any { return show.ID(a.ID) },
		"state":     func(a api.Action) any { return show.Words{Machine: a.State, People: cmp.Or(a.Shown, a.State)} },
		"exit":      func(a api.Action) any { return ExitWord(a.Exit) },
		"command":   func(a api.Action) any { return ShellWords(a.Argv) },
		"needs":     func(a api.Action) any { return approvalsWord(a) },
		"approvals": func(a api.Action) any { return listed(conn.Each(a.Approvals, approvedWord)) },
		"ran": func(a api.Action) any {
			if a.Exit == nil {
				return ""
			}
			return a.Exit.Run
		},
		"error": func(a api.Action) any {
			if a.Exit == nil {
				return ""
			}
			return a.Exit.Error
		},
		"output": func(a api.Action) any { return listed(conn.Each(a.Output, outputWord)) },
		"waits":  func(a api.Action) any { return WaitsWord(a.Waits) },
		"conflict": func(a api.Action) any {
			if !a.Conflict {
				return ""
			}
			return "its host has a different action under this id, which is shown here; to request the original again: hostler action reissue " + a.ID
		},
	})
}

// WaitsWord is why an action waits, and whether its host said so.
func WaitsWord(w *api.Waits) string {
	switch {
	case w == nil:
		return ""
	case w.HostAt != nil:
		return w.Text + " (so its host said)"
	}
	return w.Text
}

// ExitWord says in a word or two how a command ended.
func ExitWord(e *api.Exit) string {
	switch {
	case e == nil:
		return ""
	case e.OOM:
		return fmt.Sprintf("%d (oom)", e.Code)
	case e.TimedOut:
		return fmt.Sprintf("%d (timeout)", e.Code)
	case e.Unrecorded:
		return fmt.Sprintf("%d (not recorded any more)", e.Code)
	case e.HungUp:
		return fmt.Sprintf("%d (hung up)", e.Code)
	}
	return fmt.Sprint(e.Code)
}

// listed writes texts that may hold commas.
func listed(all []string) string { return strings.Join(all, "; ") }

func outputWord(o api.Output) string {
	s := fmt.Sprintf("%s %d bytes", o.FD, o.Bytes)
	if o.Dropped > 0 {
		s += fmt.Sprintf(", %d left out from byte %d on", o.Dropped, o.DropAt)
	}
	if o.Ended != "" {
		s += ", ended early: " + o.Ended
	}
	return s
}

// approvalsWord tells in a few words what an action waits for, or who has
// approved it.
func approvalsWord(a api.Action) string {
	var parts []string
	for _, n := range a.Needs {
		word := fmt.Sprintf("%d of %d", n.Persons-n.Missing, n.Persons)
		if len(n.From) > 0 {
			word += " by " + strings.Join(n.From, ", ")
		}
		if n.Not != "" {
			word += ", not " + n.Not
		}
		parts = append(parts, word+" ("+n.Why+")")
	}
	return strings.Join(parts, "; ")
}

func approvedWord(g api.Approval) string {
	word := g.Person + " until " + g.ExpiresAt.UTC().Format(time.RFC3339)
	if !g.Counts {
		word += " (does not count now)"
	}
	return word
}

// sayWaits tells the requester of an action that people must approve it first.
func (a *Dispatcher) sayWaits(act api.Action) {
	if act.State != string(protocol.StatePendingApprove) {
		return
	}
	a.Say("hostler: action %s waits for approval: %s", act.ID, term.Printable(approvalsWord(act)))
	a.Say("hostler: to approve it, a person of the ring runs: hostler action approve %s", act.ID)
}

// SayExit tells what an exit code does not.
func (a *Dispatcher) SayExit(e *api.Exit) {
	switch {
	case e.Error != "":
		a.Say("hostler: the command could not begin: %s", term.Printable(e.Error))
	case e.TimedOut:
		a.Say("hostler: the command was ended after %s, its time limit", term.Printable(e.Run))
	case e.OOM:
		a.Say("hostler: the command was killed: out of memory")
	case e.Cancelled:
		a.Say("hostler: the command was cancelled")
	case e.Unrecorded:
		a.Say("hostler: the session was ended, because it could not be recorded any longer (sessions.unrecorded of its host)")
	case e.HungUp:
		a.Say("hostler: the session was hung up: its last terminal had left %s before, or no sign of one came for %s", terminal.HangUpAfter, terminal.SilentAfter)
	}
}

// ShellWords writes a command as it could be typed.
func ShellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-") != "" {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// SayCutShort tells of a command whose end was not seen: what it wrote last may
// have been lost.
func (a *Dispatcher) SayCutShort(act api.Action) {
	if protocol.Reason(act.Reason) == protocol.ReasonInterrupted && len(act.Output) > 0 {
		a.Say("hostler: %s was interrupted; the last bytes of its output may be missing", act.ID)
	}
}

// Ended turns the end of an action into the error that tells it.
func Ended(what string, act api.Action) error {
	if act.State == string(protocol.StateDone) {
		return nil
	}
	f := &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: cmp.Or(act.Detail, reasonText(act), act.Reason, act.State), Next: "hostler action show " + act.ID}
	if act.State == string(protocol.StateLost) {
		f.Why = "its outcome is unknown: " + f.Why
	}
	switch protocol.Reason(act.Reason) {
	case protocol.ReasonTimeout, protocol.ReasonExpired:
		f.Code = term.ExitTimeout
	case protocol.ReasonDisapproved, protocol.ReasonHalted, protocol.ReasonFenced, protocol.ReasonRemoved:
		f.Code = term.ExitRefused
	case protocol.Reason(protocol.ErrNotApproved):
		f.Code, f.Next = term.ExitRefused, "hostler policy show "+act.Host+"    # once this policy is known, the same request waits for its approvals"
	case protocol.Reason(protocol.ErrTooManySessions):
		f.Next = "hostler action ls " + act.Host + " --open    # end one: hostler action cancel ID"
	case protocol.ReasonTargetGone:
		f.Code = term.ExitNotFound
	}
	return f
}

// reasonText is the reason of an action's end in words, where its host or the
// coordinator has given none; empty if the word itself has to do.
func reasonText(act api.Action) string {
	switch protocol.Reason(act.Reason) {
	case protocol.ReasonExit:
		if act.Exit != nil {
			return fmt.Sprintf("it ended with exit code %d", act.Exit.Code)
		}
	case protocol.ReasonTargetGone:
		return "the container is gone"
	case protocol.ReasonTimeout:
		return "it took longer than its time limit"
	case protocol.ReasonExpired:
		return "its host did not start it in time"
	case protocol.ReasonInterrupted:
		return "it was interrupted: its host, or the supervisor of the command, ended meanwhile"
	case protocol.ReasonPreempted:
		return "ct stop --now ended it"
	case protocol.ReasonCancelled:
		return "it was cancelled"
	case protocol.ReasonHalted:
		return "another action of its batch failed before it was sent"
	case protocol.ReasonUnknown:
		return "its host does not know it"
	}
	return ""
}
