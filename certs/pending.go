package certs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hostler-io/hostler/protocol"
)

// Pending is the ring that would follow the one in force, on its way from owner
// to owner.
type Pending struct {
	Ring    Ring
	Signed  []string // persons who have signed, sorted
	Missing []string // owners of the ring in force who have not, sorted
	Needed  int      // how many persons must sign
}

// Complete reports whether the ring may be taken into force by [Chain.Advance].
func (p Pending) Complete() bool { return len(p.Signed) >= p.Needed }

// Pending reads a ring that is meant to follow the one in force, however few have
// signed it yet. Every signature that is there holds.
func (c *Chain) Pending(raw []byte) (Pending, error) {
	documents, err := splitRings(raw)
	if err != nil {
		return Pending{}, err
	}
	top := c.top()
	if d := documents[0]; len(documents) != 1 || d.number != top.ring.Number+1 {
		return Pending{}, fmt.Errorf("ring %d after ring %d: %w", d.number, top.ring.Number, ErrGap)
	}
	persons, err := documents[0].signers(top)
	if err != nil {
		return Pending{}, err
	}
	next, err := documents[0].after(top)
	if err != nil {
		return Pending{}, err
	}
	missing := top.ring.ownersNamed()
	maps.DeleteFunc(missing, func(person string, _ bool) bool { return persons[person] })
	return Pending{
		Ring: next.ring, Signed: slices.Sorted(maps.Keys(persons)), Missing: slices.Sorted(maps.Keys(missing)), Needed: top.ring.Threshold,
	}, nil
}

// AddSignature adds a signature to those of a ring, over the very bytes that the
// others have signed.
func AddSignature(raw []byte, s protocol.Signer) ([]byte, error) {
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	env, err := protocol.Split(line)
	if err != nil {
		return nil, fmt.Errorf("adding a signature: %w", err)
	}
	sealed, err := protocol.Seal(s, env.Body, nil)
	if err != nil {
		return nil, fmt.Errorf("adding a signature: %w", err)
	}
	return JoinSignatures(raw, sealed)
}

// EncodeFile returns rings as they are kept in a file: each followed by an empty
// line, so that a chain may be longer than what travels at once.
func EncodeFile(rings [][]byte) []byte { return append(bytes.Join(rings, fileSeparator), '\n') }

var fileSeparator = []byte("\n\n")

// maxFileRings bounds how many parts of a file are looked at: a ring a day for
// a quarter of a century.
const maxFileRings = 10_000

// DecodeFile cuts the rings of a file apart, or what was captured from the
// broker or the API, which is one part. They are not verified.
func DecodeFile(b []byte) ([][]byte, error) {
	parts := bytes.Split(bytes.TrimRight(b, "\n"), fileSeparator)
	if len(parts) > maxFileRings {
		return nil, fmt.Errorf("%w: a file of more than %d rings", ErrRing, maxFileRings)
	}
	if len(parts[0]) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrRing, errors.New("the file holds no ring"))
	}
	return parts, nil
}

// AdvanceAll is [Chain.Advance] by parts, as of a file.
func (c *Chain) AdvanceAll(parts [][]byte) (*Chain, error) {
	var err error
	for _, b := range parts {
		if c, err = c.Advance(b); err != nil {
			return nil, err
		}
	}
	return c, nil
}
