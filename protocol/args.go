package protocol

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hostler-io/hostler/protocol/data"
)

// Args are the arguments of an action: a struct for one kind or several.
//
// Its fields, and those of the structs that it embeds, are members of the spec.
// Their tags declare them:
//
//	json      the name, which has one type in all kinds
//	doc       the meaning, for people
//	enum      the words that are allowed, with commas between
//	min, max  the bounds of a number
//	example   a value that might be given, as JSON
//
// A field _ with the tag "required" names the members that must be there. Decoding,
// checks, help and JSON Schema are made of that; check adds what tags cannot say.
type Args interface {
	check() error
}

// ArgsOf returns a copy of the arguments of a spec; zero if they are of another type.
func ArgsOf[T any](s *Spec) (args T) {
	if a, ok := any(s.Args).(*T); ok {
		args = *a
	}
	return args
}

// part returns the part of the arguments that several kinds have in common, which is
// embedded in them; nil if the kind does not have it.
func part[T any](s *Spec) *T {
	if s.Args == nil {
		return nil
	}
	v := reflect.ValueOf(s.Args).Elem().FieldByName(reflect.TypeFor[T]().Name())
	if !v.IsValid() {
		return nil
	}
	return v.Addr().Interface().(*T)
}

// get returns a part; zero if the kind does not have it.
func get[T any](s *Spec) (v T) {
	if p := part[T](s); p != nil {
		v = *p
	}
	return v
}

// set replaces a part. It reports false if the kind does not have it.
func set[T any](s *Spec, v T) bool {
	p := part[T](s)
	if p != nil {
		*p = v
	}
	return p != nil
}

// NoArgs are the arguments of a kind that has none.
type NoArgs struct{}

func (*NoArgs) check() error { return nil }

// Process is a command line and its environment.
type Process struct {
	Argv []string `json:"argv,omitempty" example:"[\"uname\",\"-a\"]" doc:"The program and its arguments. No shell reads them."`
	User string   `json:"user,omitzero" example:"\"www-data\"" doc:"The user's name, or UID[:GID]. Empty is root."`
	Cwd  string   `json:"cwd,omitzero" example:"\"/srv\"" doc:"The absolute working directory. Empty is /."`
	Env  []string `json:"env,omitempty" example:"[\"LANG=C.UTF-8\"]" doc:"Variables, each NAME=VALUE."`
}

func (p *Process) check() error {
	switch {
	case len(p.Argv) > 0 && p.Argv[0] == "":
		return fmt.Errorf("argv: the command is missing")
	case p.Cwd != "" && !strings.HasPrefix(p.Cwd, "/"):
		return fmt.Errorf("cwd: %.100q is not absolute", p.Cwd)
	}
	return checkPairs("env", p.Env)
}

// Process returns the command line of the spec; zero if it has none.
func (s *Spec) Process() Process { return get[Process](s) }

// SetProcess gives a spec another command line. It reports false if its kind has
// none.
func (s *Spec) SetProcess(p Process) bool { return set(s, p) }

// TimeLimit bounds how long an action runs.
type TimeLimit struct {
	TimeoutMS int64 `json:"timeout_ms,omitzero" example:"60000" doc:"The time limit in milliseconds. 0 is the default of the kind, and none for a daemon; -1 is none. Requests name at least 1000."`
}

// NoTimeout as TimeoutMS lets a command run without limit.
const NoTimeout = -1

// MinTimeout and MaxTimeout bound the time limit of a command: what is shorter
// was meant to be something else, what is longer needs none. The former came
// later than the first actions, so it holds for requests alone.
const (
	MinTimeout = time.Second
	MaxTimeout = 100 * time.Hour
)

func (l *TimeLimit) check() error {
	if l.TimeoutMS != NoTimeout && (l.TimeoutMS < 0 || l.TimeoutMS > MaxTimeout.Milliseconds()) {
		return l.bad()
	}
	return nil
}

func (l *TimeLimit) bad() error {
	return fmt.Errorf("timeout_ms: %d is neither between %d and %d nor -1 for none", l.TimeoutMS, MinTimeout.Milliseconds(), MaxTimeout.Milliseconds())
}

// SetTimeLimit gives a spec another time limit. It reports false if its kind has
// none of its own.
func (s *Spec) SetTimeLimit(ms int64) bool { return set(s, TimeLimit{ms}) }

// Input names the payload that a command reads: it is on the host, whole and of
// this digest, before the command begins. Without one the command reads nothing.
type Input struct {
	StdinSHA256 Digest `json:"stdin_sha256,omitzero" example:"\"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\"" doc:"The SHA-256 of the payload that the command reads."`
	StdinBytes  int64  `json:"stdin_bytes,omitzero" example:"5" doc:"The length of that payload in bytes."`
}

// MaxPayload is the largest payload, in bytes: 1 TiB. What a coordinator
// stores and a host has room for is far less.
const MaxPayload = 1 << 40

func (p *Input) none() bool { return p.StdinSHA256.IsZero() && p.StdinBytes == 0 }

func (p *Input) check() error {
	if !p.none() && (p.StdinSHA256.IsZero() || p.StdinBytes < 1 || p.StdinBytes > MaxPayload) {
		return fmt.Errorf("stdin: a payload has a digest and 1 to %d bytes, not %d", int64(MaxPayload), p.StdinBytes)
	}
	return nil
}

// Input returns the payload that the spec names; zero if it names none.
func (s *Spec) Input() Input { return get[Input](s) }

// SetInput names the payload of a spec. It reports false if its kind reads none.
func (s *Spec) SetInput(d Digest, size int64) bool { return set(s, Input{d, size}) }

// HasPayload reports whether the spec names a payload.
func (s *Spec) HasPayload() bool { p := s.Input(); return !p.none() }

// Sealed is a secret value that only the host of the action can read.
type Sealed = data.Sealed

// Secrets are variables that only the host can read.
type Secrets struct {
	SecretEnv *Sealed `json:"secret_env,omitempty" doc:"More variables, sealed to the host."`
}

func (s *Secrets) check() error {
	if s.SecretEnv == nil {
		return nil
	}
	return s.SecretEnv.Check()
}

// Secret returns the sealed variables of the spec; nil if it has none. See
// package secret.
func (s *Spec) Secret() *Sealed { return get[Secrets](s).SecretEnv }

// SetSecret gives a spec sealed variables. It reports false if its kind has none.
func (s *Spec) SetSecret(sealed *Sealed) bool { return set(s, Secrets{sealed}) }

// OutputOption chooses the mode of the output.
type OutputOption struct {
	Output OutputMode `json:"output,omitzero" enum:"keep,stream" doc:"What becomes of output that is not read in time: keep (the default) drops the middle, stream makes the command wait for a reader that follows it."`
}

// OutputMode is what becomes of output beyond the cap of its stream.
type OutputMode string

// The modes.
const (
	// OutputKeep drops the middle: the command never waits for a reader.
	OutputKeep OutputMode = "keep"
	// OutputStream drops nothing while a client follows: the command waits in
	// its writes. When no client has followed for [OutputPatience] it is kept.
	OutputStream OutputMode = "stream"
)

// OutputPatience is how long a command in mode [OutputStream] waits for a follower
// to follow it.
const OutputPatience = 30 * time.Second

// OutputMode returns the mode of the spec; empty is [OutputKeep].
func (s *Spec) OutputMode() OutputMode { return get[OutputOption](s).Output }

// checkAll checks several parts of arguments.
func checkAll(parts ...Args) error {
	for _, p := range parts {
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

// checkPairs accepts a list of NAME=VALUE with names that are not empty.
func checkPairs(what string, list []string) error {
	for _, p := range list {
		if strings.IndexByte(p, '=') < 1 {
			return fmt.Errorf("%s: %.60q is not of the form NAME=VALUE", what, p)
		}
	}
	return nil
}
