package a

import (
	"embed"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
)

// These are read alone.
var (
	errGone = errors.New("gone")
	table   = map[string][]int{"a": {1}}
	pattern = regexp.MustCompile("a+")
	files   embed.FS
	limits  = struct{ a, b int }{1, 2}
	lazy    = sync.OnceValue(func() int { return 1 })
	self    = setting{}
	own     = &setting{}

	_ error = (*setting)(nil)
)

// These are written below.
var (
	level   int
	level2  int
	seams   = func() {}
	cache   = map[string]int{}
	list    = make([]int, 4)
	other   = make([]int, 4)
	state   setting
	pointer *setting
	builder strings.Builder
	taken   int
	part    = struct{ a, b int }{}
	reader  = strings.NewReader("")
)

var (
	events = make(chan int) // want
	mu     sync.Mutex       // want
	count  atomic.Int64     // want
	once   = new(sync.Once) // want
)

type setting struct{ n int }

func (s *setting) Error() string { return "" }
func (s setting) get() int       { return s.n }

func read() error {
	for _, n := range table["a"] {
		level := n
		level++
	}
	local := list
	_ = append([]int(nil), local...)
	_ = pattern.MatchString("a")
	_, _ = reader.ReadByte()
	_, _ = files.Open("a")
	_, _ = limits.a+lazy(), self.get()+own.get()
	return errGone
}

func write() {
	level = 1                // want
	level2++                 // want
	seams = nil              // want
	cache["a"] = 1           // want
	clear(cache)             // want
	list[0] |= 1             // want
	copy(other, list)        // want
	copy(other[1:], list)    // want
	for level = range list { // want
	}
	state.n = 1            // want
	_ = state.Error()      // want
	pointer.n = 1          // want
	(*pointer).n = 1       // want
	_ = pointer.Error()    // want
	builder.WriteByte('a') // want
	p := &taken            // want
	*p = 1
	_ = &part.a              // want
	http.DefaultClient = nil // want
	http.DefaultTransport.(*http.Transport).MaxIdleConns = 1
}
