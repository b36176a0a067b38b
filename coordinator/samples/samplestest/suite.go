// Package samplestest is what each sink of the coordinator must pass, and a sink in memory
// that does.
package samplestest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/coordinator/samples"
)

// Subject is a sink, and what a test does to what is around it.
type Subject struct {
	Sink samples.Sink
	// Away has the database take nothing, Broken the disk, and Hang has the database give
	// no answer until it is called with false.
	Away, Broken, Hang func(bool)
	// Held are the lines that the database has.
	Held func() string
	// End ends the sink, and returns when it has ended.
	End func()
}

// answers are what a sink has said of each batch, by its number.
type answers struct {
	mu  sync.Mutex
	all map[int][]bool
}

func (a *answers) of(n int) func(bool) {
	return func(taken bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all[n] = append(a.all[n], taken)
	}
}

func (a *answers) want(t *testing.T, want map[int][]bool) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if diff := cmp.Diff(want, a.all); diff != "" {
		t.Errorf("answers (−want +got):\n%s", diff)
	}
}

func line(n int) string { return fmt.Sprintf("hostler_host,host=edge-07 cpu=%d 1\n", n) }

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(line(i))
	}
	return b.String()
}

// long is more than any pause between two tries of a sink.
const long = time.Hour

// Conform holds sinks to their contract. New makes another one within a bubble of synctest.
func Conform(t *testing.T, New func(*testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject, *answers){
		"takes": func(t *testing.T, s Subject, a *answers) {
			give(t, s, a, 0, 3)
			a.want(t, map[int][]bool{0: {true}, 1: {true}, 2: {true}})
			held(t, s, lines(0, 3))
		},
		"keeps while the database is away": func(t *testing.T, s Subject, a *answers) {
			s.Away(true)
			give(t, s, a, 0, 2)
			a.want(t, map[int][]bool{0: {true}, 1: {true}})
			held(t, s, "")
			s.Away(false)
			give(t, s, a, 2, 3)
			<-time.After(long)
			held(t, s, lines(0, 3))
		},
		"says what it has not kept": func(t *testing.T, s Subject, a *answers) {
			s.Away(true)
			s.Broken(true)
			give(t, s, a, 0, 1)
			a.want(t, map[int][]bool{0: {false}})
			s.Broken(false)
			s.Away(false)
			<-time.After(long)
			give(t, s, a, 1, 2)
			a.want(t, map[int][]bool{0: {false}, 1: {true}})
			held(t, s, lines(1, 2))
		},
		"waits for nothing, and is bounded": func(t *testing.T, s Subject, a *answers) {
			s.Hang(true)
			n := 0
			for s.Sink.Forward([]byte(line(n)), 1, a.of(n)) {
				if n++; n > 10_000 {
					t.Fatal("there is no end")
				}
				synctest.Wait()
			}
			a.want(t, map[int][]bool{})
			s.Hang(false)
			<-time.After(long)
			held(t, s, lines(0, n))
			all := make(map[int][]bool)
			for i := range n {
				all[i] = []bool{true}
			}
			a.want(t, all)
		},
		"ends": func(t *testing.T, s Subject, a *answers) {
			s.Hang(true)
			give(t, s, a, 0, 3)
			s.End()
			a.want(t, map[int][]bool{0: {true}, 1: {true}, 2: {true}})
			if s.Sink.Forward([]byte(line(3)), 1, a.of(3)) {
				t.Error("it takes something after its end")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(t)
				test(t, s, &answers{all: make(map[int][]bool)})
				s.End()
			})
		})
	}
}

func give(t *testing.T, s Subject, a *answers, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if !s.Sink.Forward([]byte(line(i)), 1, a.of(i)) {
			t.Fatalf("there is no place for line %d", i)
		}
		synctest.Wait()
	}
}

func held(t *testing.T, s Subject, want string) {
	t.Helper()
	if diff := cmp.Diff(want, s.Held()); diff != "" {
		t.Errorf("the database has (−want +got):\n%s", diff)
	}
}
