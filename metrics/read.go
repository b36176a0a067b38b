package metrics

import (
	"errors"
	"io/fs"
	"slices"
	"time"
)

// Query asks for samples.
type Query struct {
	// Since and Until bound the time of samples, by the wall clock of the host.
	Since, Until time.Time
	// Now is the present, which tells how far back a tier reaches. Required.
	Now time.Time
	// Container is the name of one container, or empty for the host. Everything asks
	// for the host and all containers.
	Container  string
	Everything bool
	// Metrics are those that are wanted; none is all.
	Metrics []Metric
}

// Line is what a series was over time.
type Line struct {
	Series
	Points []Point
}

// Point is one sample of a series.
type Point struct {
	At        time.Time
	Span      time.Duration
	Mean, Max float64
}

// Read answers a query from the directory of a Store, which another process may write
// meanwhile. It takes the finest tier that reaches back far enough, and finer ones for
// what that one has not taken yet. A directory that does not exist has no samples.
func Read(dir string, q Query) ([]Line, error) {
	from := 0
	for i, t := range tiers[:len(tiers)-1] {
		reach := t.file * time.Duration(t.files-1)
		if q.Now.Sub(q.Since) > reach {
			from = i + 1
		}
	}
	lines := make(map[Series]*Line)
	newest := q.Since
	for i := from; i >= 0; i-- {
		files, err := list(dir, tiers[i].name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		last := newest
		err = scan(files, func(s Sample) {
			if !s.At.After(newest) || s.At.After(q.Until) {
				return
			}
			if s.At.After(last) {
				last = s.At
			}
			for _, v := range s.Values {
				if q.wants(v.Series) {
					l := lines[v.Series]
					if l == nil {
						l = &Line{Series: v.Series}
						lines[v.Series] = l
					}
					l.Points = append(l.Points, Point{s.At, s.Span, v.Mean, v.Max})
				}
			}
		})
		if err != nil {
			return nil, err
		}
		newest = last
	}
	all := make([]Line, 0, len(lines))
	for _, l := range lines {
		slices.SortStableFunc(l.Points, func(a, b Point) int { return a.At.Compare(b.At) })
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Line) int { return order(a.Series, b.Series) })
	return all, nil
}

func (q *Query) wants(s Series) bool {
	return (q.Everything || s.Container == q.Container) && (len(q.Metrics) == 0 || slices.Contains(q.Metrics, s.Metric))
}
