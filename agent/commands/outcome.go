package commands

import (
	"fmt"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// maxUnbegun is how often a command is begun anew that never began because the
// agent was killed in between.
const maxUnbegun = 10

func ends(s queue.Step) *actions.Outcome { return &actions.Outcome{Step: s} }

// noStart is the end of a command that could not begin.
func noStart(format string, args ...any) *actions.Outcome {
	return ends(queue.Step{Event: protocol.EventNoStart, Detail: fmt.Sprintf(format, args...)})
}

// recovered decides about an attempt that an earlier process began and that does
// not live any more.
//
//	verdict       once                      idempotent
//	exited        its end                   its end
//	rebooted      FAILED(interrupted)       the next attempt
//	died          FAILED(interrupted)       the next attempt, if nothing is left
//	never began   the next attempt          the next attempt
//
// The next attempt of what never began is no second time. Two of one action never
// live at a time: what does no harm twice may do so beside itself.
func recovered(s *protocol.Spec, attempt int, f Found) *actions.Outcome {
	info, _ := protocol.KindOf(s.Kind)
	switch f.Verdict {
	case runner.Exited:
		return ends(conclude(f.End))
	case runner.NeverBegan:
		if attempt < maxUnbegun {
			return &actions.Outcome{Again: true, Gone: true}
		}
		return noStart("it never began in %d attempts", attempt)
	}
	if attempt < info.Attempts && f.Emptied {
		return &actions.Outcome{Again: true, Gone: true}
	}
	detail := "the host was restarted under it"
	if f.Verdict != runner.Rebooted {
		detail = "its supervisor was killed, and what was left of it too"
		if !f.Emptied {
			detail = "its supervisor was killed; whether processes of it are left cannot be known here"
		}
	}
	detail += "; the last bytes of its output may be missing"
	return &actions.Outcome{Step: queue.Step{Event: protocol.EventInterrupt, Detail: detail, Output: f.End.Output}, Gone: f.Emptied}
}

// conclude translates the end of a command into the end of its action. A
// cancelled one is CANCELLED only if nothing of it was left.
func conclude(end End) queue.Step {
	x := end.Exit
	s := queue.Step{Exit: &x, Output: end.Output}
	switch {
	case x.Cancelled && end.Emptied:
		s.Event = protocol.EventCancelled
	case end.NeverBegan:
		s.Event, s.Detail = protocol.EventNoStart, x.Error
	case x.TimedOut:
		s.Event = protocol.EventTimeout
	case x.Signal != 0:
		s.Event = protocol.EventSignal
	case x.Code != 0:
		s.Event = protocol.EventExit
	default:
		s.Event = protocol.EventSucceed
	}
	return s
}
