package rundir

import "strconv"

// Holder is the content of the lock file: who holds the lock. It is written
// right after the lock was taken, without fsync: it has no meaning after a boot.
type Holder struct {
	PID        int
	StartTicks int64  // start time of PID in clock ticks since boot, from /proc/PID/stat
	Leaf       string // the leaf that the holder is about to make; "" when it makes none
}

// Start is start.json: from its existence on a command may have run.
type Start struct {
	Boot       string // boot in which it ran (see Boot)
	PID        int    // of the supervisor
	StartTicks int64  // start time of PID in clock ticks since boot, from /proc/PID/stat
	// Leaf is the absolute path of the cgroup2 directory that holds every
	// process of the command, and never the supervisor. "" means that the
	// machine has none: then nothing can be killed or verified as a whole.
	Leaf string
	// StartedMS is the boot clock in milliseconds, a moment before the fork.
	StartedMS int64
	// Keep says what is kept of each output stream.
	Keep Keep
}

// Keep is the rule by which an output stream is kept within its cap. The first
// Head bytes stay, the newest Tail bytes stay, what lies between is dropped in
// units of Step: a hole is punched into the file, in which every byte stands at
// its true offset. So the size of the file is the length of the stream, and
// Dropped(size) is known to a reader at any moment without being told.
type Keep struct {
	Head, Tail, Step int64 // bytes; Step is a multiple of 64 KiB, and so is Head if there is a Tail
}

const keepUnit = 64 << 10

// NewKeep returns the rule for a cap of limit bytes (at least MinCap): half for
// the head, the other half for the tail. A stream of exactly the cap is whole,
// and no longer one is kept with more. With punch false, for file systems that
// cannot punch holes, the head has it all and the tail nothing.
func NewKeep(limit int64, punch bool) Keep {
	step := int64(keepUnit)
	for step < 1<<20 && step < limit/32 {
		step *= 2
	}
	if !punch {
		return Keep{Head: limit, Step: step}
	}
	head := limit / 2 / step * step
	return Keep{Head: head, Tail: limit - head - step + 1, Step: step} // the last of a step drops it
}

// Dropped returns the range [from, to) that is dropped of a stream of size
// bytes; it is empty (from = to) when nothing is.
func (k Keep) Dropped(size int64) (from, to int64) {
	if k.Tail == 0 {
		return min(k.Head, size), size
	}
	return k.Head, max(k.Head, (size-k.Tail)/k.Step*k.Step)
}

// Room returns how long a stream may become before a byte at or behind taken is
// dropped.
func (k Keep) Room(taken int64) int64 {
	if k.Tail == 0 {
		return max(k.Head, taken)
	}
	return max(k.Head, taken)/k.Step*k.Step + k.Step + k.Tail - 1
}

func (k Keep) valid() bool {
	return k.Head > 0 && k.Tail >= 0 && k.Step > 0 && k.Step%keepUnit == 0 && (k.Head%k.Step == 0 || k.Tail == 0) &&
		k.Head <= maxMS && k.Tail <= maxMS && k.Step <= 1<<20
}

// Stream is what became of one output stream. Bytes = what the command wrote;
// the DroppedBytes bytes at DroppedAt hold what the cap dropped before it was
// taken (see Request), the last LostBytes bytes were lost because they could not
// be written to the disk. What the file still holds is told by Keep.
type Stream struct {
	Bytes        int64
	DroppedAt    int64
	DroppedBytes int64
	LostBytes    int64
}

func (s Stream) valid() bool {
	return s.Bytes >= 0 && s.DroppedAt >= 0 && s.DroppedBytes >= 0 && s.LostBytes >= 0 &&
		s.LostBytes <= s.Bytes && s.DroppedAt <= s.Bytes-s.LostBytes &&
		s.DroppedBytes <= s.Bytes-s.LostBytes-s.DroppedAt
}

// Reasons of Exit.Reason: why the command was not, or not properly, run.
const (
	ReasonNotFound      = "not_found"      // no such program: code 127
	ReasonNotExecutable = "not_executable" // the kernel refuses to execute it: code 126
	ReasonUnknownUser   = "unknown_user"   // User cannot be resolved: code 125
	ReasonDirectory     = "bad_directory"  // Dir cannot be entered: code 125
	ReasonSpec          = "bad_spec"       // spec.json cannot be understood: code 125
	ReasonTarget        = "bad_target"     // the container is not there, not running: code 125
	ReasonSetup         = "setup_failed"   // the supervisor could not prepare the run: code 125
	ReasonNotStarted    = "not_started"    // no supervisor took the run up; written by the agent: code 125
)

// Exit codes of runs that have no exit status of a command, as shells have them.
const (
	CodeNeverBegan    = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// Exit is exit.json: how the run ended.
type Exit struct {
	// WaitStatus is the raw status of wait4 of the main process. 0 with a
	// Reason: there was no process.
	WaitStatus uint32
	// Code is the exit code: the command's, 128 + Signal, or one of Code….
	Code int
	// Signal ended the main process; 0 when it exited by itself.
	Signal int
	// OOM: the kernel's out-of-memory killer struck the command. Where the
	// leaf has no counter of its own, only the main process's death is told.
	OOM bool
	// TimedOut: the time limit ended the command.
	TimedOut bool
	// Cancelled: a cancel request ended the command.
	Cancelled bool
	// HungUp: the command's terminal was hung up, because no terminal was attached.
	HungUp bool
	// Unrecorded: the command's terminal was hung up, because it could not be
	// recorded any more.
	Unrecorded bool
	// RecordingEnded is why the recording of its terminal has ended before it, for
	// people. Empty: it is whole, or there is none.
	RecordingEnded string
	// NeverBegan: no process of the command was ever made.
	NeverBegan bool
	// Emptied: the leaf was seen without any process, so nothing is left of
	// the command. False without a leaf, where it cannot be known.
	Emptied bool
	// Reason and Detail say why the command could not be run; Reason is one
	// of the constants, Detail is for people. Both "" when it ran.
	Reason string
	Detail string
	Stdout Stream
	Stderr Stream
	// StartedMS and EndedMS are the boot clock in milliseconds, before the
	// fork and when the main process had ended.
	StartedMS int64
	EndedMS   int64
}

// MaxDetail is the most bytes of Exit.Detail.
const MaxDetail = 4096

func (h *Holder) fields() fields {
	return fields{{"pid", &h.PID}, {"start_ticks", &h.StartTicks}, {"leaf", &h.Leaf}}
}

// AppendHolder appends the encoded h to b.
func AppendHolder(b []byte, h *Holder) []byte { return seal(b, h.fields()) }

// ParseHolder decodes the content of the lock file.
func ParseHolder(b []byte) (*Holder, error) {
	var h Holder
	if _, err := unseal(b, MaxRecord, h.fields()); err != nil {
		return nil, err
	}
	if h.PID < 1 || h.StartTicks < 0 || !validLeaf(h.Leaf) {
		return nil, ErrFormat
	}
	return &h, nil
}

func (s *Start) fields() fields {
	return fields{
		{"boot", &s.Boot},
		{"pid", &s.PID},
		{"start_ticks", &s.StartTicks},
		{"leaf", &s.Leaf},
		{"started_ms", &s.StartedMS},
		{"keep", fields{{"head", &s.Keep.Head}, {"tail", &s.Keep.Tail}, {"step", &s.Keep.Step}}},
	}
}

// AppendStart appends the encoded s to b.
func AppendStart(b []byte, s *Start) []byte { return seal(b, s.fields()) }

// ParseStart decodes the content of start.json.
func ParseStart(b []byte) (*Start, error) {
	var s Start
	if _, err := unseal(b, MaxRecord, s.fields()); err != nil {
		return nil, err
	}
	if s.Boot == "" || s.PID < 1 || s.StartTicks < 0 || !validLeaf(s.Leaf) || !s.Keep.valid() {
		return nil, ErrFormat
	}
	return &s, nil
}

func (x *Exit) fields() fields {
	return fields{
		{"wait_status", &x.WaitStatus},
		{"code", &x.Code},
		{"signal", &x.Signal},
		{"oom", &x.OOM},
		{"timed_out", &x.TimedOut},
		{"cancelled", &x.Cancelled},
		{"never_began", &x.NeverBegan},
		{"emptied", &x.Emptied},
		{"reason", &x.Reason},
		{"detail", &x.Detail},
		{"stdout", x.Stdout.fields()},
		{"stderr", x.Stderr.fields()},
		{"started_ms", &x.StartedMS},
		{"ended_ms", &x.EndedMS},

		{"hung_up", added{&x.HungUp}},
		{"unrecorded", added{&x.Unrecorded}},
		{"recording_ended", added{&x.RecordingEnded}},
	}
}

func (s *Stream) fields() fields {
	return fields{{"bytes", &s.Bytes}, {"dropped_at", &s.DroppedAt}, {"dropped", &s.DroppedBytes}, {"lost", &s.LostBytes}}
}

// AppendExit appends the encoded x to b.
func AppendExit(b []byte, x *Exit) []byte { return seal(b, x.fields()) }

// ParseExit decodes the content of exit.json.
func ParseExit(b []byte) (*Exit, error) {
	var x Exit
	if _, err := unseal(b, MaxRecord, x.fields()); err != nil {
		return nil, err
	}
	if x.Code < 0 || x.Code > 255 || x.Signal < 0 || x.Signal > 127 || len(x.Detail) > MaxDetail || len(x.RecordingEnded) > MaxDetail ||
		!x.Stdout.valid() || !x.Stderr.valid() {
		return nil, ErrFormat
	}
	return &x, nil
}

func validLeaf(p string) bool {
	if p == "" {
		return true
	}
	const dir = "hostler."
	i := len(p) - 1
	for i >= 0 && p[i] != '/' {
		i--
	}
	// The reader of a leaf kills everything in it: only a directory that a
	// supervisor has named may ever stand here.
	return p[0] == '/' && len(p) < 4096 && len(p)-i-1 > len(dir) && p[i+1:i+1+len(dir)] == dir
}

// LeafName returns the name of the leaf of one attempt, below whatever
// directory of the cgroup2 tree its supervisor chose.
func LeafName(action string, attempt int) string {
	return "hostler." + action + "." + strconv.Itoa(attempt)
}

// Operations and results of ctl.sock.
const (
	OpCancel = "cancel"
	// OpNone asks for nothing and is refused: who answers it lives.
	OpNone = "none"
	// OpAttach asks for the command's terminal. After ResultAttached the
	// connection carries packets to the supervisor, one each, and
	// acknowledgements back, as package terminal describes them.
	OpAttach = "attach"
	OpCredit = "credit" // see Request.Taken

	ResultTaken       = "taken"       // the credit is in force
	ResultAttached    = "attached"    // the connection is the terminal's now
	ResultEnded       = "ended"       // nothing is left of the command, exit.json is written
	ResultUnsupported = "unsupported" // no leaf, so nothing can be promised, or no terminal; nothing was done
	ResultRefused     = "refused"     // the request was not understood
)

// Request is one packet to ctl.sock, Reply the one that answers it.
type Request struct {
	Op string
	// Taken are, of OpCredit, the offsets before which the bytes of stdout and
	// stderr are safe elsewhere, so that they may be dropped. A credit also
	// tells that there is a follower. The highest that was given counts. NotTaken:
	// that stream has no follower, which leaves it as it is. It is not written:
	// a supervisor of before it was known refuses what is below zero, and reads
	// what is missing as a stream with a follower.
	Taken [2]int64
}

// NotTaken stands for a stream without a follower.
const NotTaken = -1

// Reply answers a Request. To OpCancel it comes only when the run is over.
type Reply struct{ Result string }

// MaxPacket is the most bytes of a packet of ctl.sock.
const MaxPacket = 4096

// AppendRequest appends the encoded r to b.
func AppendRequest(b []byte, r Request) []byte {
	f := fields{{"op", &r.Op}}
	if r.Op == OpCredit {
		for i, name := range [...]string{"stdout", "stderr"} {
			if r.Taken[i] != NotTaken {
				f = append(f, field{name, &r.Taken[i]})
			}
		}
	}
	return append(encode(b, f), '\n')
}

// ParseRequest decodes a Request.
func ParseRequest(b []byte) (r Request, err error) {
	if len(b) > MaxPacket {
		return r, ErrTooLarge
	}
	taken := [2]int64{NotTaken, NotTaken}
	_, err = parse(b, fields{{"op", &r.Op}, {"stdout", added{&taken[0]}}, {"stderr", added{&taken[1]}}})
	switch {
	case err != nil:
	case min(taken[0], taken[1]) < NotTaken, r.Op != OpCredit && max(taken[0], taken[1]) > NotTaken:
		err = ErrFormat
	case r.Op == OpCredit:
		r.Taken = taken
	}
	return r, err
}

// AppendReply appends the encoded r to b.
func AppendReply(b []byte, r Reply) []byte {
	return append(encode(b, fields{{"result", &r.Result}}), '\n')
}

// ParseReply decodes a Reply.
func ParseReply(b []byte) (r Reply, err error) {
	if len(b) > MaxPacket {
		return r, ErrTooLarge
	}
	_, err = parse(b, fields{{"result", &r.Result}})
	return r, err
}
