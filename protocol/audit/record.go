package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// Limits of a log, in bytes and numbers.
const (
	// MaxRecord is the longest line of a record. What is longer loses its detail.
	MaxRecord = 8 << 10
	// MaxSealed is how many records one checkpoint seals at most: so many are
	// held in memory by the verifier.
	MaxSealed = 1000
	// MaxLine is the longest line of a file: the leaves of MaxSealed records.
	MaxLine = 64 << 10
	// maxText is the longest text within a record: names and reasons are shorter.
	maxText = 1 << 10
)

// ErrRecord tells that a line is not a record.
var ErrRecord = errors.New("not an audit record")

// Record says who did what.
type Record struct {
	N     uint64 `json:"n"`              // from 1, dense
	AtMS  int64  `json:"at_ms"`          // wall clock of the log's keeper, for people
	Actor string `json:"actor"`          // a token's name, "host:edge-07", "coordinator"
	From  string `json:"from,omitempty"` // network address of the actor, if it came over one
	Verb  string `json:"verb"`           // "host.approve", "action.request" …
	// Host is the host that it is about, and Object the id of what was acted on.
	Host   protocol.HostID `json:"host,omitempty"`
	Object string          `json:"object,omitempty"`
	// Digest is that of the bytes that were decided over: a spec, a report, a
	// ring, an offer.
	Digest protocol.Digest `json:"digest,omitzero"`
	// Detail is the rest, by names in lower case: texts, lists of texts, whole
	// numbers, yes and no.
	Detail map[string]any `json:"detail,omitempty"`
}

// Encode returns the record as it is stored: its line without the number, which
// is given later. Texts are shortened and cleaned where the protocol's JSON has
// no place for them, so that no transition fails for what a person typed.
func (r Record) Encode() ([]byte, error) {
	r.Actor, r.From, r.Verb, r.Object = clean(r.Actor), clean(r.From), clean(r.Verb), clean(r.Object)
	r.Detail = cleanAll(r.Detail)
	b, err := r.encode()
	if err == nil && len(b) > MaxRecord-len(`"n":9007199254740991,`) {
		r.Detail = map[string]any{"detail_bytes": len(b)}
		b, err = r.encode()
	}
	if err != nil {
		return nil, fmt.Errorf("encode audit record %s: %w", r.Verb, err)
	}
	return b, nil
}

func (r Record) encode() ([]byte, error) {
	return json.Marshal(struct {
		N int `json:"n,omitempty"` // always left out: it hides that of the record
		Record
	}{0, r})
}

// Line returns the line of a stored record with its number.
func Line(n uint64, stored []byte) []byte {
	line := append(make([]byte, 0, len(stored)+16), `{"n":`...)
	line = strconv.AppendUint(line, n, 10)
	line = append(line, ',')
	return append(line, bytes.TrimPrefix(stored, []byte("{"))...)
}

// ParseLine reads the line of a record. Members that it does not know are let
// through: a newer keeper may tell more. It fails with [ErrRecord].
func ParseLine(line []byte) (Record, error) {
	var r Record
	if len(line) > MaxRecord {
		return r, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrRecord, len(line), MaxRecord)
	}
	if err := protocol.DecodeJSON(line, &r, true); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	head := strconv.AppendUint([]byte(`{"n":`), r.N, 10)
	if r.N == 0 || !bytes.HasPrefix(line, append(head, ',')) || bytes.ContainsAny(line, "\r\n") {
		return r, fmt.Errorf("%w: it does not start with its number", ErrRecord)
	}
	return r, nil
}

// Leaf returns the digest of a record's line.
func Leaf(line []byte) protocol.Digest { return protocol.Sum(line) }

// Fold continues a chain of digests by one leaf.
func Fold(h, leaf protocol.Digest) protocol.Digest {
	return sha256.Sum256(append(h[:], leaf[:]...))
}

// cleanAll cleans every text of a detail.
func cleanAll(detail map[string]any) map[string]any {
	out := make(map[string]any, len(detail))
	for name, v := range detail {
		switch v := v.(type) {
		case string:
			out[name] = clean(v)
		case []string:
			all := make([]string, len(v)) // never nil, which would be null
			for i, s := range v {
				all[i] = clean(s)
			}
			out[name] = all
		default:
			out[name] = v
		}
	}
	return out
}

// maxSums is how much of a record the digests of files may take: a record that is
// too long loses all that it says.
const maxSums = 4 << 10

// Copied adds to the detail of an action what a pull has copied: the digests of its
// archive, of the list of all its files as sha256sum prints it, and of the first of
// them.
func Copied(detail map[string]any, output []protocol.Output) {
	for _, o := range output {
		a := o.Archive
		if a == nil {
			continue
		}
		detail["files"], detail["file_bytes"] = a.Files, a.Bytes
		detail["archive_sha256"], detail["list_sha256"] = a.SHA256.String(), a.List.String()
		var sums []string
		room := maxSums
		for _, f := range a.Sums {
			if room -= 80 + 6*len(f.Name); room < 0 { // at the most, as JSON has it
				break
			}
			sums = append(sums, f.SHA256.String()+"  "+f.Name)
		}
		if len(sums) > 0 {
			detail["sums"] = sums
		}
	}
}

// maxArgv is how much of a record a command line may take.
const maxArgv = 4 << 10

// Asked adds to the detail of a request the command line that it runs, as far as there
// is room. Variables and input are left out: they may be secret.
func Asked(detail map[string]any, argv []string) {
	if len(argv) == 0 {
		return
	}
	all := make([]string, 0, len(argv))
	room := maxArgv
	for i, word := range argv {
		if room -= 6*min(len(word), maxText) + 3; room < 0 { // at the most, as JSON has it
			all = append(all, fmt.Sprintf("… and %d more", len(argv)-i))
			break
		}
		all = append(all, word)
	}
	detail["argv"] = all
}

// clean makes a text fit for a record: valid, without NUL, and short.
func clean(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// leavesLine is the line with the digests of the records that a checkpoint
// seals.
type leavesLine struct {
	Leaves []byte `json:"leaves"`
	From   uint64 `json:"from"` // number of the first
}

// LeavesLine returns the line of the leaves of records, the last of which is n.
func LeavesLine(n uint64, leaves []byte) []byte {
	from := n + 1 - uint64(len(leaves)/len(protocol.Digest{}))
	return fmt.Appendf(nil, `{"leaves":"%s","from":%d}`, base64.StdEncoding.EncodeToString(leaves), from)
}
