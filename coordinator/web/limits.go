package web

import (
	"math"
	"net/http"
	"net/netip"
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
	if b.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - b.TokensAt(now)) / float64(l.rate) * float64(time.Second))
}

// tooMany answers who asks too often.
func tooMany(w http.ResponseWriter, wait time.Duration, detail string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	writeProblem(w, newProblem(api.CodeRateLimit, detail))
}

// origin returns what one stranger has: an IPv4 address, or an IPv6 network of
// 64 bits. What has no address shares one.
func origin(remote string) netip.Prefix {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := a.Addr().Unmap().WithZone(""), 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
