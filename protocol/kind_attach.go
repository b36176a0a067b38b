package protocol

import (
	"fmt"
	"strings"
)

// KindAttach is an interactive session: a command with a terminal on the host, and
// the people who are attached to it.
const KindAttach Kind = "host.attach"

func kindAttach() KindInfo {
	return KindInfo{
		Kind: KindAttach, Doc: "Open an interactive session on the host.",
		Target: TargetHost, Lane: LaneSession, Attempts: 1, StartTTL: sessionTTL,
		RootEquivalent: true, Cancellable: true, Command: true, form: formOf(new(SessionArgs)),
	}
}

// SessionArgs are the arguments of an interactive session. Without Argv it is for
// the login shell of User.
type SessionArgs struct {
	_ struct{} `required:"tty"`
	Process
	TimeLimit
	Secrets
	TTY *TTY `json:"tty,omitempty" example:"{\"rows\":24,\"cols\":80,\"term\":\"xterm-256color\"}" doc:"The terminal."`
}

func (s *SessionArgs) check() error {
	if s.TTY != nil {
		if err := s.TTY.validate(); err != nil {
			return err
		}
	}
	return checkAll(&s.Process, &s.TimeLimit, &s.Secrets)
}

// TTY is the terminal of an interactive session, as it is at the start. Later
// sizes come with what is typed.
type TTY struct {
	Rows int    `json:"rows" example:"24" doc:"The height of the window in characters."`
	Cols int    `json:"cols" example:"80" doc:"The width of the window in characters."`
	Term string `json:"term,omitzero" example:"\"xterm-256color\"" doc:"The value of TERM. Empty is dumb."`
	// Record keeps a recording of what the terminal prints. A host may record without
	// being asked.
	Record bool `json:"record,omitzero" doc:"Keep a recording of what the terminal prints."`
	// Shared opens a session that begins on its host itself to others: without it,
	// root and the user who began it alone take part.
	Shared bool     `json:"shared,omitzero" doc:"For a session that is started on its host itself: others may take part if the policy lets them start such a session."`
	_      struct{} `required:"rows,cols"`
}

// Shared reports whether the spec opens a session that begins on its host to others.
func (s *Spec) Shared() bool {
	tty := ArgsOf[SessionArgs](s).TTY
	return tty != nil && tty.Shared
}

// maxWindow is the largest size of a window, in characters.
const maxWindow = 1<<16 - 1

func (t *TTY) validate() error {
	if t.Rows < 1 || t.Rows > maxWindow || t.Cols < 1 || t.Cols > maxWindow {
		return fmt.Errorf("tty: a window of %d by %d characters is not between 1 by 1 and %d by %d", t.Rows, t.Cols, maxWindow, maxWindow)
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"
	if len(t.Term) > maxWord || strings.Trim(t.Term, allowed) != "" {
		return fmt.Errorf("tty: %.70q is no type of a terminal", t.Term)
	}
	return nil
}
