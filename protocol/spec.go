package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is what an action does.
type Kind string

// The kinds.
const (
	KindPing    Kind = "host.ping"          // ends as soon as it starts: proves the way there and back
	KindRun     Kind = "host.run"           // a command on the host
	KindExec    Kind = "container.exec"     // a command in a container
	KindCreate  Kind = "container.create"   // from a template, stopped
	KindStart   Kind = "container.start"    // and keep running
	KindStop    Kind = "container.stop"     // and keep stopped
	KindDestroy Kind = "container.destroy"  // with its file system
	KindReset   Kind = "container.reset"    // try a broken container again
	KindRename  Kind = "container.rename"   // one that is stopped; what waits for it stays its own
	KindStopNow Kind = "container.stop-now" // past everything that waits, ending what runs

	KindHostPush      Kind = "host.push"      // files to the host
	KindHostPull      Kind = "host.pull"      // files of the host, on its stdout
	KindContainerPush Kind = "container.push" // files into a container, running or stopped
	KindContainerPull Kind = "container.pull" // files out of one
	// Interactive sessions: a command with a terminal, and who is attached to it.
	KindAttach          Kind = "host.attach"
	KindContainerAttach Kind = "container.attach"

	// KindPolicySet puts a policy into force. What lets it is signed within its
	// spec, so it needs no approval beside that.
	KindPolicySet Kind = "policy.set"
)

// Lane is what an action excludes while it runs. Lanes are a readers–writer
// lock in accept order: actions on containers share the host, one at a time
// for each container; exclusive ones take the host alone.
type Lane string

// The lanes.
const (
	LaneNone      Lane = "none"      // excludes nothing
	LaneHost      Lane = "host"      // host commands: no lane, but a bounded number at a time
	LaneContainer Lane = "container" // one at a time per container
	LaneExclusive Lane = "exclusive" // alone on the host
	// LaneSession is for interactive sessions: no lane, so that a terminal that
	// somebody left open stops nothing, but a bounded number at a time.
	LaneSession Lane = "session"
	// LanePreempt waits for nobody and ends what runs in its container's lane.
	// Its actions travel as controls, past the orders that wait.
	LanePreempt Lane = "preempt"
)

// KindInfo is what a kind promises.
type KindInfo struct {
	Kind Kind
	// Attempts is how often an action may begin: 1 means once, so that after
	// an interruption nobody knows how far it came and it is not tried again;
	// more means that doing it again does no harm.
	Attempts int
	// RunTimeout is the time limit if the spec names none; 0 is none.
	RunTimeout time.Duration
	// StartTTL is the start budget: an action that has not begun by then never
	// does.
	StartTTL    time.Duration
	Lane        Lane
	Cancellable bool
	// Command tells that a supervisor runs a command for it.
	Command bool
	// Files tells that it moves files: the command is the host's own.
	Files bool
	// Target tells that the spec names a container by id.
	Target bool
	// RootEquivalent tells that whoever may request the kind can become root
	// on the host by it, so that reserving another kind while granting this
	// one is a hole.
	RootEquivalent bool
}

// Limits of kinds: an exec may take 60 s, a step of a container's life 60 min,
// and an order waits at most a day for its host (the defaults that operators
// of the systems before Hostler know). For a session somebody waits at a keyboard.
const (
	execTimeout      = 60 * time.Second
	lifecycleTimeout = 60 * time.Minute
	startTTL         = 24 * time.Hour
	sessionTTL       = time.Minute
)

// kinds is the table. It is never written.
var kinds = map[Kind]KindInfo{
	KindPing:    {Attempts: 3, StartTTL: startTTL, Lane: LaneNone},
	KindRun:     {Attempts: 1, RunTimeout: execTimeout, StartTTL: startTTL, Lane: LaneHost, Cancellable: true, Command: true, RootEquivalent: true},
	KindExec:    {Attempts: 1, RunTimeout: execTimeout, StartTTL: startTTL, Lane: LaneContainer, Cancellable: true, Command: true, Target: true, RootEquivalent: true},
	KindCreate:  {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneContainer, Target: true, RootEquivalent: true},
	KindStart:   {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneContainer, Target: true},
	KindStop:    {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneContainer, Target: true},
	KindDestroy: {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneContainer, Target: true},
	KindReset:   {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneContainer, Target: true},
	KindRename:  {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneContainer, Target: true},
	KindStopNow: {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LanePreempt, Target: true},

	KindHostPush:        {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneHost, Cancellable: true, Command: true, Files: true, RootEquivalent: true},
	KindHostPull:        {Attempts: 1, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneHost, Cancellable: true, Command: true, Files: true, RootEquivalent: true},
	KindContainerPush:   {Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneContainer, Cancellable: true, Command: true, Files: true, Target: true, RootEquivalent: true},
	KindContainerPull:   {Attempts: 1, RunTimeout: lifecycleTimeout, StartTTL: startTTL, Lane: LaneHost, Cancellable: true, Command: true, Files: true, Target: true, RootEquivalent: true},
	KindAttach:          {Attempts: 1, StartTTL: sessionTTL, Lane: LaneSession, Cancellable: true, Command: true, RootEquivalent: true},
	KindContainerAttach: {Attempts: 1, StartTTL: sessionTTL, Lane: LaneSession, Cancellable: true, Command: true, Target: true, RootEquivalent: true},

	KindPolicySet: {Attempts: 3, StartTTL: startTTL, Lane: LaneNone, RootEquivalent: true},
}

// Kinds lists every kind, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kinds)) }

// KindOf returns what a kind promises; false if there is no such kind.
func KindOf(k Kind) (KindInfo, bool) {
	i, ok := kinds[k]
	i.Kind = k
	return i, ok
}

// Spec is what an action does: everything that changes the effect, but not the
// host. It is written once, where the action is created, and travels as bytes
// from then on: approvals and receipts name the digest of those bytes.
type Spec struct {
	Kind Kind `json:"kind"`
	// Target is the container; a container that is renamed keeps its waiting
	// actions, a new one of the same name never gets them.
	Target CTID `json:"target,omitzero"`
	// Name is that of the container: the new one's of a create, else for people
	// only, who decide by it. Hosts refuse one that the target neither has nor had, nor
	// will have by what was accepted before.
	Name ContainerName `json:"name,omitzero"`

	// Commands.
	Argv      []string `json:"argv,omitempty"`
	User      string   `json:"user,omitzero"`       // name or uid[:gid]; empty is root
	Cwd       string   `json:"cwd,omitzero"`        // absolute; empty is /
	Env       []string `json:"env,omitempty"`       // K=V
	TimeoutMS int64    `json:"timeout_ms,omitzero"` // 0 is the kind's own, for a daemon none; NoTimeout is none
	Exclusive bool     `json:"exclusive,omitzero"`  // alone on the host
	// StdinSHA256 and StdinBytes name the payload that the command reads: it is
	// on the host, whole and of this digest, before the command begins. Without
	// one the command reads nothing.
	StdinSHA256 Digest `json:"stdin_sha256,omitzero"`
	StdinBytes  int64  `json:"stdin_bytes,omitzero"`
	// Files says which files a kind moves that moves files.
	Files *FileArgs `json:"files,omitempty"`
	// Output is what becomes of output that nobody takes in time; empty is
	// [OutputKeep].
	Output OutputMode `json:"output,omitzero"`
	// Daemon lets the main process end before the others that it has made, and
	// others begin once it has begun: the action runs until nothing of it is
	// left.
	Daemon bool `json:"daemon,omitzero"`
	// SecretEnv holds more variables, which only the host can read; see
	// [OpenSecret].
	SecretEnv *Sealed `json:"secret_env,omitempty"`

	// TTY is the terminal of a session, of which it is the mark. Without Argv it is
	// for the login shell of User.
	TTY *TTY `json:"tty,omitempty"`

	// Creation.
	Template string   `json:"template,omitzero"`
	Class    string   `json:"class,omitzero"`   // pinned (default) or cloned
	Offline  string   `json:"offline,omitzero"` // keep (default)
	Labels   []string `json:"labels,omitempty"` // K=V
	Start    bool     `json:"start,omitzero"`   // start it too

	// NewName is what a rename calls the container.
	NewName ContainerName `json:"new_name,omitzero"`

	// GraceMS is how long a stop waits before it kills; 0 is 10 s, of a stop-now
	// none.
	GraceMS int64 `json:"grace_ms,omitzero"`

	// Policy is the text of a policy, and Signed what lets it into force: see
	// [PolicyDocument].
	Policy []byte   `json:"policy,omitempty"`
	Signed [][]byte `json:"signed,omitempty"`
}

// OutputMode is what becomes of output beyond the cap of its stream.
type OutputMode string

// The modes.
const (
	// OutputKeep drops the middle: the command never waits for anybody.
	OutputKeep OutputMode = "keep"
	// OutputStream drops nothing while somebody follows: the command waits in
	// its writes. When nobody has followed for [OutputPatience] it is kept.
	OutputStream OutputMode = "stream"
)

// OutputPatience is how long a command in mode [OutputStream] waits for somebody
// to follow it.
const OutputPatience = 30 * time.Second

// NoTimeout as TimeoutMS lets a command run without limit.
const NoTimeout = -1

// Limits of a spec.
const (
	// MaxSpec is the longest spec, in bytes: with its approvals and two layers
	// of base64 it still fits into one order.
	MaxSpec = 12 << 10
	// MinTimeout and MaxTimeout bound the time limit of a command: what is shorter
	// was meant to be something else, what is longer needs none. The former came
	// later than the first actions, so it holds for requests alone.
	MinTimeout = time.Second
	MaxTimeout = 100 * time.Hour
	// MaxPayload is the largest payload, in bytes: 1 TiB. What a coordinator
	// stores and a host has room for is far less.
	MaxPayload = 1 << 40
	// MaxGrace is the longest grace of a stop.
	MaxGrace = time.Hour
)

// Timeout returns the time limit that applies; 0 means none.
func (s *Spec) Timeout() time.Duration {
	switch info, _ := KindOf(s.Kind); {
	case s.TimeoutMS == NoTimeout:
		return 0
	case s.TimeoutMS > 0:
		return time.Duration(s.TimeoutMS) * time.Millisecond
	case s.Daemon:
		return 0
	default:
		return info.RunTimeout
	}
}

// HasPayload reports whether the spec names a payload.
func (s *Spec) HasPayload() bool { return !s.StdinSHA256.IsZero() || s.StdinBytes != 0 }

// DecodeSpec reads spec bytes. It returns [ErrUnknownKind] for a kind that this
// side does not know and [ErrSpec] for everything else that is wrong, each with
// a sentence that says what.
func DecodeSpec(b []byte) (Spec, error) {
	var s Spec
	if len(b) > MaxSpec {
		return s, refuse(ErrSpec, "it has %d bytes, at most %d are allowed; push larger input as a file", len(b), MaxSpec)
	}
	// The kind comes first: a newer kind may well have members that this side
	// does not know, and "unknown kind" is the truer answer.
	var k struct {
		Kind Kind `json:"kind"`
	}
	if err := DecodeJSON(b, &k, true); err != nil {
		return s, refuse(ErrSpec, "%s", err)
	}
	info, ok := KindOf(k.Kind)
	if !ok {
		return s, refuse(ErrUnknownKind, "%.60q", k.Kind)
	}
	if err := decodeChecked(b, &s, false); err != nil {
		return s, refuse(ErrSpec, "%s", err)
	}
	if err := s.validate(info); err != nil {
		return s, refuse(ErrSpec, "%s: %s", k.Kind, err)
	}
	return s, nil
}

// DecodeRequest reads the spec bytes of what is asked for now. It is stricter
// than [DecodeSpec], which also reads what was asked for before a rule was there:
// that was accepted, and has to come to its end.
func DecodeRequest(b []byte) (Spec, error) {
	s, err := DecodeSpec(b)
	if err == nil && s.TimeoutMS > 0 && s.TimeoutMS < MinTimeout.Milliseconds() {
		err = refuse(ErrSpec, "%s: %s", s.Kind, s.badTimeout())
	}
	return s, err
}

func (s *Spec) badTimeout() error {
	return fmt.Errorf("timeout_ms: %d is neither between %d and %d nor -1 for none", s.TimeoutMS, MinTimeout.Milliseconds(), MaxTimeout.Milliseconds())
}

func (s *Spec) validate(info KindInfo) error {
	switch {
	case info.Target && s.Target.IsZero():
		return fmt.Errorf("target: the id of the container is missing")
	case !info.Target && !s.Target.IsZero():
		return fmt.Errorf("target: this kind has none")
	case s.Kind == KindCreate && s.Name == "":
		return fmt.Errorf("name: the new container needs one")
	case s.Kind == KindCreate && s.Template == "":
		return fmt.Errorf("template: the new container needs one")
	case s.Kind != KindCreate && (s.Template != "" || s.Class != "" || s.Offline != "" || s.Labels != nil || s.Start):
		return fmt.Errorf("template, class, offline, labels and start belong to %s alone", KindCreate)
	case s.GraceMS < 0 || s.GraceMS > MaxGrace.Milliseconds():
		return fmt.Errorf("grace_ms: %d is not between 0 and %d", s.GraceMS, MaxGrace.Milliseconds())
	case s.GraceMS != 0 && s.Kind != KindStop && s.Kind != KindDestroy && s.Kind != KindStopNow:
		return fmt.Errorf("grace_ms: this kind has none")
	case (s.Kind == KindRename) != (s.NewName != ""):
		return fmt.Errorf("new_name: a rename needs one, and nothing else has one")
	case s.Kind == KindPolicySet:
		if err := s.validatePolicy(); err != nil {
			return err
		}
	case s.Policy != nil || s.Signed != nil:
		return fmt.Errorf("policy and signed belong to %s alone", KindPolicySet)
	}
	if s.Kind == KindCreate {
		return s.validateCreate()
	}
	if err := s.validateSession(); err != nil {
		return err
	}
	return s.validateCommand(info)
}

func (s *Spec) validatePolicy() error {
	switch {
	case len(s.Policy) < 1 || len(s.Policy) > MaxPolicy:
		return fmt.Errorf("policy: %d bytes, want 1 to %d; a longer one goes to the host as a file", len(s.Policy), MaxPolicy)
	case len(s.Signed) < 1 || len(s.Signed) > MaxPolicySigners:
		return fmt.Errorf("signed: %d signatures, want 1 to %d", len(s.Signed), MaxPolicySigners)
	}
	return nil
}

func (s *Spec) validateCreate() error {
	switch {
	case s.Class == "unique":
		return fmt.Errorf("class: unique is not supported yet: a unique container needs leases")
	case s.Class != "" && s.Class != "pinned" && s.Class != "cloned":
		return fmt.Errorf("class: %.40q is neither pinned nor cloned", s.Class)
	case s.Offline != "" && s.Offline != "keep":
		return fmt.Errorf("offline: %.40q is not supported, only keep is", s.Offline)
	}
	if _, err := ParseContainerName(s.Template); err != nil {
		return fmt.Errorf("template: %w", err)
	}
	for _, l := range s.Labels {
		if err := checkPair(l); err != nil {
			return fmt.Errorf("labels: %w", err)
		}
	}
	return nil
}

func (s *Spec) validateSession() error {
	switch interactive := s.Kind.Interactive(); {
	case interactive != (s.TTY != nil):
		return fmt.Errorf("tty: a session needs one, and nothing else has one")
	case !interactive:
		return nil
	case s.Exclusive || s.Daemon || s.Output != "" || s.HasPayload():
		return fmt.Errorf("exclusive, daemon, output and stdin: a session has none of them")
	}
	return s.TTY.validate()
}

func (s *Spec) validateCommand(info KindInfo) error {
	switch {
	case info.Files:
		return s.validateFiles()
	case s.Files != nil:
		return fmt.Errorf("files: this kind moves none")
	case !info.Command:
		if s.Argv != nil || s.User != "" || s.Cwd != "" || s.Env != nil || s.TimeoutMS != 0 || s.Exclusive || s.Output != "" || s.Daemon || s.SecretEnv != nil || s.HasPayload() {
			return fmt.Errorf("argv, user, cwd, env, secret_env, stdin, timeout_ms, exclusive, daemon and output belong to commands alone")
		}
		return nil
	}
	switch {
	case len(s.Argv) == 0 && s.TTY == nil, len(s.Argv) > 0 && s.Argv[0] == "":
		return fmt.Errorf("argv: the command is missing")
	case s.Cwd != "" && !strings.HasPrefix(s.Cwd, "/"):
		return fmt.Errorf("cwd: %.100q is not absolute", s.Cwd)
	case s.Output != "" && s.Output != OutputKeep && s.Output != OutputStream:
		return fmt.Errorf("output: %.40q is neither %s nor %s", s.Output, OutputKeep, OutputStream)
	}
	if s.SecretEnv != nil {
		if err := s.SecretEnv.check(); err != nil {
			return err
		}
	}
	for _, e := range s.Env {
		if err := checkPair(e); err != nil {
			return fmt.Errorf("env: %w", err)
		}
	}
	for _, a := range append([]string{s.User, s.Cwd}, s.Argv...) {
		if err := checkText(a); err != nil {
			return err
		}
	}
	return s.checkStart()
}

// checkStart holds what any command may have to its limits: time and payload.
func (s *Spec) checkStart() error {
	switch {
	case s.HasPayload() && (s.StdinSHA256.IsZero() || s.StdinBytes < 1 || s.StdinBytes > MaxPayload):
		return fmt.Errorf("stdin: a payload has a digest and 1 to %d bytes, not %d", int64(MaxPayload), s.StdinBytes)
	case s.TimeoutMS != NoTimeout && (s.TimeoutMS < 0 || s.TimeoutMS > MaxTimeout.Milliseconds()):
		return s.badTimeout()
	}
	return nil
}

// checkPair accepts K=V with a K that is not empty.
func checkPair(s string) error {
	if strings.IndexByte(s, '=') < 1 {
		return fmt.Errorf("%.60q is not of the form NAME=VALUE", s)
	}
	return checkText(s)
}

// checkText accepts what may become an argument of a process.
func checkText(s string) error {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%.60q is not UTF-8 without NUL", s)
	}
	return nil
}
