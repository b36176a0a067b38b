package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/hostler-io/hostler/protocol"
)

// Keys knows who may sign checkpoints, and who might.
type Keys interface {
	// Keyring finds all that ever were a coordinator of the fleet, and the
	// hosts whose logs are to be verified.
	protocol.Keyring
	// WasCoordinator reports whether the key is a coordinator's in the ring of
	// that number. Ring is the number of the one in force.
	WasCoordinator(ring uint64, key protocol.KeyID) bool
	Ring() uint64
}

// Config is what a log is verified with.
type Config struct {
	Fleet protocol.FleetID
	Keys  Keys
	// Known are checkpoints of this log that were verified elsewhere: those that
	// hosts bring back, and the one that was seen last time. Those of another
	// log are passed over.
	Known []protocol.Checkpoint
}

// Result is what was found out about a log.
type Result struct {
	Log         protocol.Party // whose it is; empty if no checkpoint could be read
	After       uint64         // the records up to this one were pruned, or left out
	Records     int            // that were read
	Checkpoints int            // that are genuine
	Newest      protocol.Checkpoint
	Key         protocol.KeyID // who signed Newest
	Known       int            // known checkpoints that the log leads to
	Faults      []Fault
}

// maxWindow is how many records are held in memory between two checkpoints that
// hold: a host's log has none but the last.
const maxWindow = 200_000

// entry is a record that waits for the checkpoint that seals it.
type entry struct {
	n    uint64
	leaf protocol.Digest
	line int
}

// stray is a record that is where none was sealed.
type stray struct {
	line    int
	leaf    protocol.Digest
	genuine bool // it is, by its number, one that is missing elsewhere
}

// Verifier reads a log line by line. It is for one log and one goroutine.
type Verifier struct {
	cfg    Config
	found  faults
	result Result
	line   int

	head   *protocol.Checkpoint // of the first line
	begun  bool                 // a record was read, or an anchor
	last   protocol.Position    // the checkpoint up to which everything is settled
	term   protocol.Term        // of that checkpoint
	adrift bool                 // nothing vouches for the digest at last

	window   []entry
	from     uint64 // number of the first of leaves
	leaves   []protocol.Digest
	void     map[uint64]bool // checkpoints that do not hold and were told of
	strayed  map[uint64]stray
	orphans  map[uint64]protocol.Digest // leaves of records that were missing
	known    map[uint64][]protocol.Checkpoint
	ends     map[protocol.StoreID]uint64 // newest record that each store sealed
	inForce  uint64                      // newest record under a checkpoint of a coordinator in force
	headKey  protocol.KeyID
	overfull bool
}

// NewVerifier returns a verifier that has read nothing.
func NewVerifier(cfg Config) *Verifier {
	v := &Verifier{
		cfg: cfg, void: make(map[uint64]bool), strayed: make(map[uint64]stray),
		orphans: make(map[uint64]protocol.Digest), known: make(map[uint64][]protocol.Checkpoint), ends: make(map[protocol.StoreID]uint64),
	}
	for _, k := range cfg.Known {
		v.known[k.N] = append(v.known[k.N], k)
	}
	return v
}

// Verify reads a whole log. An error is that of the reader: what is wrong with
// the log is in the result.
func Verify(r io.Reader, cfg Config) (Result, error) {
	v := NewVerifier(cfg)
	lines := bufio.NewReaderSize(r, MaxLine)
	for {
		line, err := lines.ReadSlice('\n')
		for long := err; errors.Is(long, bufio.ErrBufferFull); {
			line = append([]byte(nil), line...) // too long to be anything, told as it begins
			_, long = lines.ReadSlice('\n')
			err = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return Result{}, fmt.Errorf("reading the log: %w", err)
		}
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > 0 || err == nil {
			v.Line(line)
		}
		if err != nil {
			return v.End(), nil
		}
	}
}

// Line takes the next line, without its end.
func (v *Verifier) Line(line []byte) {
	v.line++
	switch {
	case bytes.HasPrefix(line, []byte(`{"n":`)):
		v.record(line)
	case bytes.HasPrefix(line, []byte(`{"leaves":`)):
		v.leavesLine(line)
	case bytes.HasPrefix(line, []byte(`{"v":`)):
		v.checkpoint(line)
	default:
		v.found.add(Broken, 0, 0, v.line, "it is no line of an audit log: %.60q", line)
	}
	if v.line == 1 && v.head == nil {
		v.found.add(Missing, 0, 0, v.line, "the newest checkpoint, which stands first, is missing")
	}
}

// record takes a record. One that cannot be read is held against its leaf as
// well, as long as it has a number.
func (v *Verifier) record(line []byte) {
	r, err := ParseLine(line)
	if err != nil {
		digits, _, _ := bytes.Cut(line[len(`{"n":`):], []byte(","))
		if r.N, _ = strconv.ParseUint(string(digits), 10, 64); r.N == 0 || r.N > protocol.MaxInteger {
			v.found.add(Broken, 0, 0, v.line, "%v", err)
			return
		}
	}
	v.result.Records++
	if !v.begun {
		v.begin(r.N)
	}
	e := entry{r.N, Leaf(line), v.line}
	switch {
	case r.N <= v.last.N:
		v.astray(e)
	case len(v.window) >= maxWindow:
		if !v.overfull {
			v.found.add(Broken, r.N, r.N, v.line, "no checkpoint holds within %d records", maxWindow)
		}
		v.overfull = true
	default:
		if n := v.from + uint64(len(v.leaves)); len(v.leaves) > 0 && r.N < n {
			v.found.add(Displaced, r.N, r.N, v.line, "record %d stands behind the leaves that seal it", r.N)
		}
		v.window = append(v.window, e)
	}
}

// begin settles what the first record stands on.
func (v *Verifier) begin(n uint64) {
	v.begun = true
	if n == 1 {
		return
	}
	// Without the checkpoint up to which the log was pruned, or with its first
	// record missing: the leaves tell which, if they begin with 1.
	v.adrift = v.head == nil || v.head.After != 0
}

// astray notes a record that stands where none was sealed.
func (v *Verifier) astray(e entry) {
	leaf, missed := v.orphans[e.n]
	if s, ok := v.strayed[e.n]; !ok || !s.genuine {
		v.strayed[e.n] = stray{e.line, e.leaf, missed && leaf == e.leaf}
	}
}

func (v *Verifier) leavesLine(line []byte) {
	var l leavesLine
	size := len(protocol.Digest{})
	if err := protocol.DecodeJSON(line, &l, false); err != nil || len(l.Leaves) == 0 || len(l.Leaves)%size != 0 || l.From == 0 || len(l.Leaves) > maxWindow*size ||
		!bytes.Equal(LeavesLine(l.From+uint64(len(l.Leaves)/size)-1, l.Leaves), line) {
		v.found.add(Broken, 0, 0, v.line, "the leaves cannot be read")
		return
	}
	to := l.From + uint64(len(l.Leaves)/size) - 1
	next := v.from + uint64(len(v.leaves))
	if len(v.leaves) == 0 {
		next = max(v.last.N+1, l.From)
	}
	if l.From != next || len(v.leaves) >= maxWindow {
		v.found.add(Inserted, l.From, to, v.line, "the leaves of %s stand where they do not belong", records(l.From, to))
		return
	}
	if len(v.leaves) == 0 {
		v.from = l.From
	}
	for b := range slices.Chunk(l.Leaves, size) {
		v.leaves = append(v.leaves, protocol.Digest(b))
	}
}

// checkpoint takes an envelope.
func (v *Verifier) checkpoint(line []byte) {
	first := v.line == 1
	c, m, err := protocol.OpenCheckpoint(line, v.cfg.Fleet, v.cfg.Keys)
	if err == nil && c.Log == protocol.Coordinator && !v.cfg.Keys.WasCoordinator(c.Ring, m.Key) {
		err = fmt.Errorf("key %s was no coordinator's in ring %d, ring %d is held", m.Key, c.Ring, v.cfg.Keys.Ring())
	}
	if err == nil && v.result.Log != "" && c.Log != v.result.Log {
		err = fmt.Errorf("the checkpoint is of the log of %q, this log is of %q", c.Log, v.result.Log)
	}
	if err != nil {
		v.forged(line, err)
		return
	}
	v.result.Log = c.Log
	if first {
		v.head, v.headKey = &c, m.Key
		return
	}
	v.result.Checkpoints++
	switch {
	case v.line == 2 && !v.begun && v.head != nil:
		// What was before it was pruned, or left out of the export.
		v.begun, v.result.After = true, c.N
		v.settled(&c, m.Key)
	case c.N <= v.last.N:
		v.found.add(Inserted, c.N, c.N, v.line, "the checkpoint of record %d stands behind record %d", c.N, v.last.N)
	case c.Store != v.last.Store && !v.last.Store.IsZero() && c.Term.Compare(v.term) <= 0:
		v.found.add(Forged, c.N, c.N, v.line, "the checkpoint of record %d is of another database, and of no newer term", c.N)
		v.void[c.N] = true
	default:
		v.seal(&c)
		v.settled(&c, m.Key)
	}
}

// forged notes a checkpoint that does not hold. What it seals is held against
// the next one that does.
func (v *Verifier) forged(line []byte, why error) {
	var c protocol.Checkpoint
	if env, err := protocol.Split(line); err == nil {
		_ = protocol.DecodeJSON(env.Body, &c, true) // a number to name it by, if there is one
	}
	if c.N > 0 {
		v.void[c.N] = true
	}
	v.found.add(Forged, c.N, c.N, v.line, "the checkpoint of record %d does not hold: %v", c.N, why)
}

// settled makes a checkpoint the one that everything goes on from.
func (v *Verifier) settled(c *protocol.Checkpoint, key protocol.KeyID) {
	var others []protocol.Checkpoint
	for _, k := range v.known[c.N] {
		switch {
		case k.Log != c.Log || k.Store != c.Store:
			others = append(others, k)
		case k.H == c.H:
			v.result.Known++
		default:
			v.found.add(RolledBack, c.N, c.N, v.line, "another record %d is known, by a checkpoint of term %s: the log went back and wrote another history", c.N, k.Term)
		}
	}
	v.known[c.N] = others
	v.ends[c.Store] = c.N
	v.last, v.term, v.adrift = c.Position(), c.Term, false
	v.window, v.leaves, v.overfull = v.window[:0], v.leaves[:0], false
	v.result.Newest, v.result.Key = *c, key
	if c.Log != protocol.Coordinator || v.cfg.Keys.WasCoordinator(v.cfg.Keys.Ring(), key) {
		v.inForce = c.N
	}
}

// seal holds what was read since the last checkpoint that holds against one.
func (v *Verifier) seal(c *protocol.Checkpoint) {
	if c.After != v.last.N && !v.void[c.After] && !v.adrift {
		v.found.add(Missing, c.After, c.After, v.line, "the checkpoint of record %d is missing", c.After)
	}
	signed := v.leavesLead(c)
	var known []entry // by number, each once
	seen := make(map[uint64]bool, len(v.window))
	for _, e := range v.window {
		switch {
		case e.n > c.N, seen[e.n]:
			v.astray(e)
		default:
			seen[e.n] = true
			known = append(known, e)
		}
	}
	sorted := slices.SortedFunc(slices.Values(known), func(a, b entry) int { return cmp.Compare(a.n, b.n) })
	for i, e := range known {
		if sorted[i].n != e.n {
			v.found.add(Displaced, e.n, e.n, e.line, "record %d stands in another place", e.n)
		}
	}
	switch {
	case v.adrift:
		v.unvouched(c, sorted)
	case signed:
		v.compare(sorted)
	default:
		v.guess(c, sorted)
	}
}

// leavesLead reports whether the leaves are complete and lead to the digest that
// the checkpoint signs: then they are as good as signed.
func (v *Verifier) leavesLead(c *protocol.Checkpoint) bool {
	if v.adrift && len(v.leaves) > 0 && v.from == 1 {
		v.adrift = false // the first record is missing, and nothing before it
	}
	if v.from != v.last.N+1 || uint64(len(v.leaves)) != c.N-v.last.N || v.adrift {
		return false
	}
	h := v.last.H
	for _, leaf := range v.leaves {
		h = Fold(h, leaf)
	}
	return h == c.H
}

// compare names each record that is not as its leaf, which is as good as signed,
// says.
func (v *Verifier) compare(sorted []entry) {
	i := 0
	for k, leaf := range v.leaves {
		n := v.from + uint64(k)
		if i == len(sorted) || sorted[i].n != n {
			v.missed(n, n)
			v.expect(n, leaf)
			continue
		}
		if sorted[i].leaf != leaf {
			v.found.add(Changed, n, n, sorted[i].line, "record %d is not the one that was sealed", n)
		}
		i++
	}
}

// guess names what it can without leaves.
func (v *Verifier) guess(c *protocol.Checkpoint, sorted []entry) {
	h, next := v.last.H, v.last.N+1
	for _, e := range sorted {
		if e.n > next {
			v.missed(next, e.n-1)
		}
		h, next = Fold(h, e.leaf), e.n+1
	}
	if next <= c.N {
		v.missed(next, c.N)
	}
	first := v.last.N + 1
	switch whole := uint64(len(sorted)) == c.N-v.last.N; {
	case whole && h != c.H:
		v.found.add(Changed, first, c.N, 0, "%s are not those that were sealed; the leaves that would tell which are changed too", records(first, c.N))
	case whole:
		v.found.add(Missing, first, c.N, v.line, "the leaves of %s are missing or changed; the records are as they were sealed", records(first, c.N))
	}
}

// unvouched is for records before which something is missing, and nothing tells
// what.
func (v *Verifier) unvouched(c *protocol.Checkpoint, sorted []entry) {
	if len(sorted) > 0 && sorted[0].n > 1 {
		v.found.add(Missing, 1, sorted[0].n-1, 0, "%s: no checkpoint vouches for what was before", missing(1, sorted[0].n-1))
	}
	v.found.add(Changed, 1, c.N, v.line, "what there is up to record %d cannot be verified", c.N)
}

// expect remembers the leaf of a record that is missing, which may stand
// elsewhere: behind its place, or before it.
func (v *Verifier) expect(n uint64, leaf protocol.Digest) {
	if len(v.orphans) < maxWindow {
		v.orphans[n] = leaf
	}
	if s, ok := v.strayed[n]; ok && s.leaf == leaf {
		s.genuine = true
		v.strayed[n] = s
	}
}

// missed notes records that are not there, joined with those before them.
func (v *Verifier) missed(from, to uint64) {
	if k := len(v.found.list) - 1; k >= 0 {
		if f := &v.found.list[k]; f.Kind == Missing && f.Line == 0 && f.To+1 == from && f.From > 0 {
			f.To, f.Detail = to, missing(f.From, to)
			return
		}
	}
	v.found.add(Missing, from, to, 0, "%s", missing(from, to))
}

// End tells what was found when there are no more lines.
func (v *Verifier) End() Result {
	if v.line == 0 {
		v.found.add(Broken, 0, 0, 0, "there is no log")
	}
	if v.head != nil {
		v.endAtHead()
	}
	if len(v.window) > 0 {
		number := func(a, b entry) int { return cmp.Compare(a.n, b.n) }
		first, last := slices.MinFunc(v.window, number).n, slices.MaxFunc(v.window, number).n
		v.found.add(Unsealed, first, last, v.window[0].line, "%s are sealed by no checkpoint", records(first, last))
	}
	for _, n := range slices.Sorted(func(yield func(uint64) bool) {
		for n := range v.known {
			if !yield(n) {
				return
			}
		}
	}) {
		v.unknown(v.known[n])
	}
	if v.last.N > v.inForce {
		v.found.add(RemovedKey, v.inForce+1, v.last.N, 0, "%s are vouched for by key %s alone, which is no coordinator's any more", records(v.inForce+1, v.last.N), v.result.Key)
	}
	v.result.Faults = v.found.settle(v.strayed)
	return v.result
}

// endAtHead holds the end of the log against its first line.
func (v *Verifier) endAtHead() {
	head := v.head
	switch {
	case head.N > v.last.N:
		// The last checkpoint is gone. The first line is another one of it, so
		// that what is left can still be verified.
		v.found.add(Cut, v.last.N+1, head.N, 0, "the log ends at record %d, its newest checkpoint is that of record %d", v.last.N, head.N)
		v.seal(head)
		v.settled(head, v.headKey)
	case head.N < v.last.N:
		v.found.add(Changed, head.N, head.N, 1, "the first line is the checkpoint of record %d, the log goes to record %d", head.N, v.last.N)
	case head.H != v.last.H || head.Store != v.last.Store:
		v.found.add(RolledBack, head.N, head.N, 1, "the first line is the checkpoint of another record %d", head.N)
	}
}

// unknown judges known checkpoints that the log has none of.
func (v *Verifier) unknown(all []protocol.Checkpoint) {
	for _, k := range all {
		end, here := v.ends[k.Store]
		switch {
		case k.Log == v.result.Log && k.Store != v.last.Store && here && k.N > end:
			v.found.add(Lost, end+1, k.N, 0, "the coordinator before a recovery sealed %s, and its seal is not here: what it recorded there after the backup is lost", records(end+1, k.N))
		case k.Log != v.result.Log || k.Store != v.last.Store && k.N <= v.last.N:
		case k.N > v.last.N:
			v.found.add(Cut, v.last.N+1, k.N, 0, "a checkpoint of record %d is known, the log ends at record %d: it was cut, or its keeper went back", k.N, v.last.N)
		case k.N > v.result.After:
			v.found.add(RolledBack, k.N, k.N, 0, "a checkpoint of record %d is known that the log does not lead to: it went back and wrote another history", k.N)
		}
	}
}
