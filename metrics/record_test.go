package metrics

import (
	"bytes"
	"slices"
	"strconv"
	"testing"
	"time"
)

// FuzzDecode: whatever is in a file, what is read of it can be written and read again.
func FuzzDecode(f *testing.F) {
	sample := Sample{At: time.UnixMilli(1), Span: Interval, Values: []Value{{Series{"web", CPU, ""}, 1, 2}, {Series{"", Disk, "/"}, 3, 4}}}
	var enc encoder
	whole := []byte(header)
	for range 3 {
		var err error
		if whole, err = enc.append(whole, sample); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-2])
	f.Add(whole[:20])
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(b []byte) (all []Sample, whole int64) {
			d := decoder{r: bytes.NewReader(b)}
			for {
				s, err := d.next()
				if err != nil {
					return all, d.whole
				}
				all = append(all, s)
			}
		}
		all, whole := read(b)
		if whole > int64(len(b)) {
			t.Fatalf("%d bytes of %d are whole", whole, len(b))
		}
		var enc encoder
		again := []byte(header)
		for _, s := range all {
			var err error
			if again, err = enc.append(again, s); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := read(again); len(all) > 0 && !bytes.Equal(again, b[:whole]) && !slices.Equal(printed(got), printed(all)) {
			t.Fatalf("%v is read again as %v", all, got)
		}
	})
}

// printed makes samples comparable, which may hold what is not a number.
func printed(all []Sample) (texts []string) {
	for _, s := range all {
		for _, v := range s.Values {
			texts = append(texts, s.At.String(), s.Span.String(), v.Container, string(v.Metric), v.Part, strconv.FormatFloat(v.Mean, 'g', -1, 32), strconv.FormatFloat(v.Max, 'g', -1, 32))
		}
	}
	return texts
}
