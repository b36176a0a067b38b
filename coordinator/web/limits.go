package web

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler-io/hostler/api"
)

// Limits of enrolment requests, which come from strangers. One address may be
// a whole site behind a router whose hosts are installed in one go: three
// requests each, and a question every five seconds at first.
const (
	enrolRate  = 10  // requests per second and address
	enrolBurst = 100 // at once
)

// Limits of requests with a token, by its name: more than a fleet's tools need, and
// less than what keeps a coordinator from its hosts.
const (
	tokenRate  = 1000 // requests per second
	tokenBurst = 5000 // at once
)

const (
	// maxOrigins bounds what is remembered. Beyond it all others share one limit, so
	// that inventing addresses buys nothing.
	maxOrigins  = 4096
	forgetAfter = time.Minute // a burst is full again long before
)

// Limits of wrong tokens, by their address. Behind one may stand a site whose people
// have the right ones, so nothing but the answers to wrong ones waits.
const (
	wrongRate  = 2  // answers per second and address
	wrongBurst = 20 // at once
	// wrongPatience is the longest that such an answer waits; beyond it there is none.
	wrongPatience = 5 * time.Second
)

// limits are the rates of all origins of requests, such as addresses.
type limits[K comparable] struct {
	rate  rate.Limit
	burst int

	mu     sync.Mutex
	by     map[K]*limit
	swept  time.Time
	shared *rate.Limiter
}

type limit struct {
	*rate.Limiter
	seen time.Time
}

// allow takes one request into account. If it is one too many, it returns after which
// time another one is not.
func (l *limits[K]) allow(from K, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.of(from, now)
	if b.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - b.TokensAt(now)) / float64(l.rate) * float64(time.Second))
}

// delay takes one request into account that may wait for its turn, but no longer than
// patience. It returns for how long it has to; ok is false if it gets no turn.
func (l *limits[K]) delay(from K, now time.Time, patience time.Duration) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := l.of(from, now).ReserveN(now, 1)
	if wait = turn.DelayFrom(now); wait > patience {
		turn.CancelAt(now)
		return wait, false
	}
	return wait, true
}

// of returns the rate of one origin.
func (l *limits[K]) of(from K, now time.Time) *limit {
	if l.by == nil {
		l.by, l.shared = make(map[K]*limit), rate.NewLimiter(l.rate, l.burst)
	}
	if now.Sub(l.swept) > forgetAfter {
		l.swept = now
		for from, b := range l.by {
			if now.Sub(b.seen) > forgetAfter {
				delete(l.by, from)
			}
		}
	}
	b, ok := l.by[from]
	switch {
	case !ok && len(l.by) >= maxOrigins:
		b = &limit{Limiter: l.shared}
	case !ok:
		b = &limit{Limiter: rate.NewLimiter(l.rate, l.burst)}
		l.by[from] = b
	}
	b.seen = now
	return b
}

// tooMany answers who asks too often.
func tooMany(w http.ResponseWriter, wait time.Duration, detail string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	writeProblem(w, newProblem(api.CodeRateLimit, detail))
}
