package rundir

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Limits of a Spec.
const (
	MinCap     = 256 << 10 // bytes; the smallest output cap
	DefaultCap = 64 << 20  // bytes per stream
	// DefaultGraceMS is the time between TERM and KILL, in milliseconds.
	DefaultGraceMS = 10_000
	maxID          = 128
	maxAttempt     = 1 << 30
	maxMS          = 1 << 50
	maxArgs        = 1 << 16
)

// Spec says what to run. It is written once, by the agent, before the
// supervisor starts, and is never changed.
type Spec struct {
	// Action names the action, Attempt counts its runs from 1.
	Action  string
	Attempt int
	// Argv is the program and its arguments, given to it unchanged: no shell
	// reads them. A name without a slash is looked for in PATH.
	Argv []string
	// Env is the environment as NAME=value, added to the supervisor's minimal
	// one (PATH, HOME, USER, LOGNAME), of which it may replace parts.
	Env []string
	// Dir is the working directory, absolute. Default "/".
	Dir string
	// User is a name or uid[:gid], looked up where the command runs. Empty
	// means the user that the supervisor runs as (in a container, its root).
	User string
	// TimeoutMS is the time limit in milliseconds on the boot clock, which
	// counts suspended time too. 0 means none.
	TimeoutMS int64
	// GraceMS is the time in milliseconds between TERM and KILL. 0 kills at
	// once; a negative value means DefaultGraceMS.
	GraceMS int64
	// CapBytes bounds what is kept of each output stream. 0 means DefaultCap.
	CapBytes int64
	// WaitMS is for how long, in milliseconds, the command waits in its writes
	// before bytes are dropped that were not taken: since the newest credit, or
	// since the start. 0 never waits. On file systems that cannot punch holes
	// nothing waits either: what is beyond the cap would have no place.
	WaitMS int64
	// Terminal gives the command a pseudoterminal instead of pipes. nil is none.
	Terminal *Terminal
	// Login runs the user's own shell as a login shell, in its home directory
	// if Dir names no other. Argv is empty then.
	Login bool
	// Daemon lets the main process end before the others that it has made: the
	// run is over when nothing of it is left. It needs a leaf.
	Daemon bool
	// Secrets is a file in memory that holds more variables, by the path at which
	// it can be opened as long as the starter of the supervisor lives; see
	// AppendSecrets. Empty is none.
	Secrets string
	// Target is for the supervisor's kind alone (which container, for
	// example); no other program reads it.
	Target map[string]string
}

// Terminal is the pseudoterminal of a command. All it prints goes to stdout; who
// types is attached by OpAttach.
type Terminal struct {
	// Rows and Cols are the size of the window at the start, in characters.
	Rows, Cols int
	// HangUpMS is how long the command goes on, in milliseconds on the boot
	// clock, while no terminal is attached. Then it gets SIGHUP, and after the grace
	// SIGKILL. 0 lets it go on.
	HangUpMS int64
	// RecordBytes is how long a recording of the terminal may become, in bytes; 0 is
	// none.
	RecordBytes int64
	// RecordOrEnd hangs the command up when its recording cannot go on, and does not
	// begin without one. False lets it go on.
	RecordOrEnd bool
}

func (t *Terminal) valid() bool {
	return t.Rows >= 0 && t.Rows < 1<<16 && t.Cols >= 0 && t.Cols < 1<<16 && t.HangUpMS >= 0 && t.HangUpMS <= maxMS &&
		t.RecordBytes >= 0 && t.RecordBytes <= maxMS
}

// Grace returns the milliseconds between TERM and KILL, default applied.
func (s *Spec) Grace() int64 {
	if s.GraceMS < 0 {
		return DefaultGraceMS
	}
	return s.GraceMS
}

// Cap returns the output cap in bytes, default applied.
func (s *Spec) Cap() int64 {
	if s.CapBytes == 0 {
		return DefaultCap
	}
	return s.CapBytes
}

// Validate refuses what cannot be written to a run directory or given to exec.
func (s *Spec) Validate() error {
	switch {
	case !ValidAction(s.Action):
		return errors.New("action is not a plain name")
	case s.Attempt < 1 || s.Attempt > maxAttempt:
		return errors.New("attempt is not a positive number")
	case s.Login && len(s.Argv) > 0:
		return errors.New("argv is given and a login shell is asked for")
	case !s.Login && (len(s.Argv) == 0 || s.Argv[0] == ""):
		return errors.New("argv names no program")
	case s.Terminal != nil && !s.Terminal.valid():
		return errors.New("terminal is out of range")
	case len(s.Argv) > maxArgs || len(s.Env) > maxArgs:
		return errors.New("too many arguments or variables")
	case s.Dir != "" && !strings.HasPrefix(s.Dir, "/"):
		return errors.New("dir is not absolute")
	case s.TimeoutMS < 0 || s.TimeoutMS > maxMS:
		return errors.New("timeout is out of range")
	case s.GraceMS > maxMS:
		return errors.New("grace is out of range")
	case s.WaitMS < 0 || s.WaitMS > maxMS:
		return errors.New("wait is out of range")
	case s.CapBytes != 0 && (s.CapBytes < MinCap || s.CapBytes > maxMS):
		return errors.New("cap is out of range")
	}
	for _, v := range s.Env {
		if i := strings.IndexByte(v, '='); i < 1 {
			return errors.New("env holds an entry that is not NAME=value")
		}
	}
	return s.validateText()
}

// validateText refuses strings that JSON or exec would change: invalid UTF-8
// and NUL bytes.
func (s *Spec) validateText() error {
	plain := func(v string) bool { return utf8.ValidString(v) && strings.IndexByte(v, 0) < 0 }
	ok := plain(s.Dir) && plain(s.User) && plain(s.Secrets)
	for _, v := range s.Argv {
		ok = ok && plain(v)
	}
	for _, v := range s.Env {
		ok = ok && plain(v)
	}
	for k, v := range s.Target {
		ok = ok && plain(k) && plain(v)
	}
	if !ok {
		return errors.New("spec holds invalid UTF-8 or a NUL byte")
	}
	return nil
}

// ValidAction reports whether id can name an action's directory and its leaf:
// 1 to 128 letters, digits, '-', '_' and '.', not beginning with a dot.
func ValidAction(id string) bool {
	if id == "" || len(id) > maxID || id[0] == '.' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

func (s *Spec) fields() fields {
	f := fields{
		{"action", &s.Action},
		{"attempt", &s.Attempt},
		{"argv", &s.Argv},
		{"env", &s.Env},
		{"dir", &s.Dir},
		{"user", &s.User},
		{"timeout_ms", &s.TimeoutMS},
		{"grace_ms", &s.GraceMS},
		{"cap_bytes", &s.CapBytes},
		{"target", &s.Target},

		{"wait_ms", added{&s.WaitMS}},
		{"daemon", added{&s.Daemon}},
		{"secrets", added{&s.Secrets}},
		{"login", added{&s.Login}},
	}
	if t := s.Terminal; t != nil {
		f = append(f, field{"terminal", added{fields{{"rows", &t.Rows}, {"cols", &t.Cols}, {"hang_up_ms", &t.HangUpMS}}}},
			field{"record_bytes", added{&t.RecordBytes}}, field{"record_or_end", added{&t.RecordOrEnd}})
	}
	return f
}

// AppendSpec appends the encoded s to b.
func AppendSpec(b []byte, s *Spec) []byte { return seal(b, s.fields()) }

// ParseSpec decodes and validates the contents of spec.json.
func ParseSpec(b []byte) (*Spec, error) {
	s := Spec{Terminal: new(Terminal)}
	seen, err := unseal(b, MaxSpec, s.fields())
	if err != nil {
		return nil, err
	}
	if !seen["terminal"] {
		if *s.Terminal != (Terminal{}) {
			return nil, ErrFormat
		}
		s.Terminal = nil
	}
	if err := s.Validate(); err != nil {
		return nil, formatError(err.Error())
	}
	return &s, nil
}
