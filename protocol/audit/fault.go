package audit

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind is what is wrong with a log.
type Kind string

// The kinds of faults.
const (
	// Missing: records were removed, or a line that vouches for records.
	Missing Kind = "missing"
	// Changed: a record is not the one that was sealed.
	Changed Kind = "changed"
	// Displaced: a record is genuine and stands in another's place.
	Displaced Kind = "displaced"
	// Inserted: a line is one too many: nobody sealed it, or it was there before.
	Inserted Kind = "inserted"
	// Cut: the log ends before a checkpoint that was signed.
	Cut Kind = "cut"
	// Lost: records were sealed before a recovery, and its backup did not hold them.
	Lost Kind = "lost"
	// RolledBack: a checkpoint is known that this log does not lead to: its
	// keeper went back and wrote another history.
	RolledBack Kind = "rolled_back"
	// Forged: a checkpoint without the signature of an authorised key.
	Forged Kind = "forged"
	// RemovedKey: only a coordinator that the owners have removed vouches for
	// the end of the log.
	RemovedKey Kind = "removed_key"
	// Unsealed: records behind the last checkpoint.
	Unsealed Kind = "unsealed"
	// Broken: a line that cannot be read.
	Broken Kind = "broken"
)

// Fault is one thing that is wrong.
type Fault struct {
	Kind Kind
	// From and To are the numbers of the first and the last record that it is
	// about; 0 if it is about none.
	From, To uint64
	Line     int    // of the file, from 1; 0 if it is about no line
	Detail   string // a sentence for people
}

// String is the fault as people read it.
func (f Fault) String() string {
	s := string(f.Kind) + ": " + f.Detail
	if f.Line > 0 {
		s += fmt.Sprintf(" (line %d)", f.Line)
	}
	return s
}

// maxFaults bounds what is told of one log. After so many the reader has read enough.
const maxFaults = 1000

// faults are what was found so far.
type faults struct {
	list []Fault
	more int
}

func (f *faults) add(k Kind, from, to uint64, line int, format string, args ...any) {
	if len(f.list) >= maxFaults {
		f.more++
		return
	}
	f.list = append(f.list, Fault{k, from, to, line, fmt.Sprintf(format, args...)})
}

// records names records from one number to another.
func records(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("record %d", from)
	}
	return fmt.Sprintf("records %d to %d", from, to)
}

// settle puts the faults together: a record that is missing in one place and
// found too much in another was moved.
func (f *faults) settle(strayed map[uint64]stray) []Fault {
	var all []Fault
	for _, x := range f.list {
		if x.Kind != Missing || x.Line != 0 || x.From == 0 {
			all = append(all, x)
			continue
		}
		from := x.From
		for n := x.From; n <= x.To && n-x.From < maxFaults; n++ {
			s, ok := strayed[n]
			if !ok || !s.genuine {
				continue
			}
			if from < n {
				all = append(all, Fault{Kind: x.Kind, From: from, To: n - 1, Detail: missing(from, n-1)})
			}
			all = append(all, Fault{Displaced, n, n, s.line, fmt.Sprintf("record %d stands in another place", n)})
			from = n + 1
		}
		if from <= x.To {
			x.From, x.Detail = from, missing(from, x.To)
			all = append(all, x)
		}
	}
	for n, s := range strayed {
		if !s.genuine || !slices.ContainsFunc(all, func(x Fault) bool { return x.Kind == Displaced && x.From == n && x.Line == s.line }) {
			all = append(all, Fault{Inserted, n, n, s.line, fmt.Sprintf("record %d stands where no record was sealed", n)})
		}
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Line, b.Line)) })
	if f.more > 0 {
		all = append(all, Fault{Kind: Broken, Detail: fmt.Sprintf("%d more faults are not told", f.more)})
	}
	return all
}

func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("record %d is missing", from)
	}
	return fmt.Sprintf("records %d to %d are missing", from, to)
}
