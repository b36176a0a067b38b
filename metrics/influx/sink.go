// Package influx brings samples to an InfluxDB, or to whatever takes its lines.
//
// A [Sink] has one goroutine, [Sink.Run]. [Sink.Offer] hands it a sample and never
// waits. Samples are gathered to batches; a batch goes over the network, and to a spool
// on the disk where the database does not take it. While the spool has something, what
// is new goes behind it, so that the database gets everything in its order. The spool is
// bounded: the oldest batches go first, and are counted.
//
// A coordinator has samples of others to bring on: [Sink.Forward] hands over their lines,
// and tells when they are safe.
//
// Two ways of writing are known: /api/v2/write, by the client of InfluxData, for InfluxDB
// from 1.8 on and for VictoriaMetrics; and the classic /write for InfluxDB 1.x. A host that
// reaches no database has a third, Config.Write: it gives its batches to a program that does.
package influx

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/hostler-io/hostler/metrics"
)

// API is a way of writing.
type API string

// The ways of writing.
const (
	APIModern  API = "v2"
	APIClassic API = "v1"
)

// ErrRefused is of samples that will never be taken.
var ErrRefused = errors.New("the samples are refused for good")

// Config says where samples go.
type Config struct {
	// Write brings a batch on its way in place of URL and all that belongs to it. It tries
	// once, and returns [ErrRefused] for what will never be taken. Default: by URL.
	Write func(ctx context.Context, lines []byte) error
	// URL is http or https, a host, perhaps a port and a path. Required without Write.
	URL string
	// API is how the database is written to. Required with URL.
	API API
	// Org and Bucket are those of InfluxDB 2. For APIClassic Bucket is the database, or
	// database/retention policy. Bucket is required.
	Org, Bucket string
	// Secret returns the token, or the password if User is set; nil is none. It is asked
	// for each write, so that a secret may change.
	User   string
	Secret func() (string, error)
	// CA are the authorities whose certificates count; nil are those of the system.
	CA *x509.CertPool
	// Tags stand in each line.
	Tags map[string]string
	// Dir is the directory of the spool, which is made, and Limit how many bytes it may
	// take. Required.
	Dir   string
	Limit int64
	// Every is how long samples are gathered. Default: a minute.
	Every time.Duration
	// MaxBatch is the most that a batch has, in bytes, 64 KiB at least. Default: 4 MiB.
	MaxBatch int
	Log      *slog.Logger
}

// Check reports what is wrong with where samples are to go.
func (c Config) Check() error {
	if c.Write != nil {
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("url: %q is not the address of a database: write it as https://influx.example:8086", c.URL)
	}
	if c.API != APIModern && c.API != APIClassic {
		return fmt.Errorf("api = %q: want %s or %s", c.API, APIModern, APIClassic)
	}
	if c.Bucket == "" {
		return errors.New("bucket: no bucket is named, and for v1 no database")
	}
	if c.User != "" && c.Secret == nil {
		return errors.New("user: a user needs a password; name its file as secret_file")
	}
	ip := net.ParseIP(u.Hostname())
	if c.Secret != nil && u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("url: %s would carry the secret over the network as it is; use https", c.URL)
	}
	return nil
}

// Stats tell how a sink does. All counts are lines, since the process started.
type Stats struct {
	Sent uint64
	// Refused are lines that the database will never take, and Lost those that had no
	// place to wait.
	Refused, Lost uint64
	// Failures is how many tries to write failed.
	Failures uint64
	// Waiting is how many lines wait in the spool, and Bytes what they take of the disk.
	Waiting, Bytes uint64
	// Since is when the database began to take nothing, and Cause why; zero while it
	// takes everything.
	Since time.Time
	Cause string
	// Losing tells that lines were lost since the database took everything.
	Losing bool
}

const (
	// forwarded is how many batches of others wait likewise. Each is as large as its sender
	// makes it.
	forwarded = 128
	// queued is how many samples wait for the goroutine of the sink: more than come in
	// while one write hangs.
	queued = 8
	// The pause after a write that failed doubles from the first to the last of these.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// longestWish is how long a database may ask not to be asked.
	longestWish = time.Hour
)

// Sink brings samples to one database.
type Sink struct {
	cfg    Config
	to     writer
	in     chan metrics.Sample
	others chan foreign
	mu     sync.Mutex
	stats  Stats
	ended  bool   // Run has ended
	spool  *spool // as all below, of the goroutine of Run
	new    batch
	pause  time.Duration
	next   time.Time // before it nothing that waits is tried
	loud   bool      // the failure was logged
	loudly bool      // as loud, of lost lines
}

// New checks the configuration. Nothing is reached before Run.
func New(c Config) (*Sink, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Every <= 0 {
		c.Every = time.Minute
	}
	if c.MaxBatch <= 0 {
		c.MaxBatch = maxBatch
	}
	s := &Sink{cfg: c, to: by(c.Write), in: make(chan metrics.Sample, queued), others: make(chan foreign, forwarded)}
	if c.Write == nil {
		s.to = newWriter(c)
	}
	return s, nil
}

// by is a writer that is a function.
type by func(ctx context.Context, lines []byte) error

func (w by) write(ctx context.Context, lines []byte) error { return w(ctx, lines) }

// Offer hands a sample over. It never waits: a sample that finds no place is lost, and
// counted. The caller must not change the sample afterwards.
func (s *Sink) Offer(sample metrics.Sample) {
	select {
	case s.in <- sample:
	default:
		_, n := Lines(nil, sample, nil)
		s.change(func(st *Stats) { st.Lost += uint64(n); st.Losing = true })
	}
}

// Stats returns how the sink does, to any goroutine.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *Sink) change(do func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(&s.stats)
}

// Run sends what is offered until ctx ends. What is not sent by then waits in the spool
// for the next start. It fails only if there can be no spool.
func (s *Sink) Run(ctx context.Context) (err error) {
	defer s.end(ctx)
	if s.spool, err = openSpool(s.cfg.Dir, s.cfg.Limit); err != nil {
		return fmt.Errorf("opening the spool of samples: %w", err)
	}
	s.spooled()
	again := time.NewTimer(0) // what waits is tried at once
	defer again.Stop()
	full := time.NewTimer(s.cfg.Every)
	defer full.Stop()
	for {
		select {
		case <-ctx.Done():
			for len(s.in) > 0 {
				s.take(ctx, <-s.in)
			}
			s.keep(s.cut())
			return nil
		case sample := <-s.in:
			if s.new.count == 0 {
				full.Reset(s.cfg.Every)
			}
			s.take(ctx, sample)
		case f := <-s.others:
			s.bring(ctx, f)
		case <-full.C:
			s.flush(ctx)
		case <-again.C:
			s.drain(ctx)
		}
		if len(s.spool.files) > 0 {
			again.Reset(time.Until(s.next))
		}
	}
}

// take adds a sample to the batch. What it has no room for begins another one.
func (s *Sink) take(ctx context.Context, sample metrics.Sample) {
	lines, n := Lines(s.new.lines, sample, s.cfg.Tags)
	n += s.new.count
	for len(lines) > s.cfg.MaxBatch {
		whole := bytes.LastIndexByte(lines[:s.cfg.MaxBatch], '\n') + 1
		s.new = batch{lines[:whole], bytes.Count(lines[:whole], []byte{'\n'})}
		n -= s.new.count
		lines = lines[whole:]
		s.flush(ctx)
	}
	s.new = batch{lines, n}
}

// cut returns the batch, and begins another one.
func (s *Sink) cut() batch {
	b := s.new
	s.new = batch{}
	return b
}

// flush sends the batch, or keeps it behind those that wait.
func (s *Sink) flush(ctx context.Context) {
	b := s.cut()
	if b.count == 0 {
		return
	}
	if len(s.spool.files) > 0 || ctx.Err() != nil || !s.send(ctx, b) {
		s.keep(b)
	}
}

// keep puts a batch into the spool.
func (s *Sink) keep(b batch) {
	if b.count == 0 {
		return
	}
	lost, err := s.spool.add(b)
	s.spooled()
	if lost > 0 {
		s.lost(lost, err)
	}
}

func (s *Sink) spooled() {
	s.change(func(st *Stats) { st.Waiting, st.Bytes = uint64(s.spool.lines()), uint64(s.spool.used) })
}

func (s *Sink) lost(n int, err error) {
	s.change(func(st *Stats) { st.Lost += uint64(n); st.Losing = true })
	if !s.loudly {
		s.loudly = true
		s.cfg.Log.Warn("samples for the database are lost: the spool is full, or the disk takes nothing", "lines", n, "error", err)
	}
}

// drain sends what waits, the oldest first, a batch at a time: new samples are taken in
// between.
func (s *Sink) drain(ctx context.Context) {
	if len(s.spool.files) == 0 {
		return
	}
	b, err := s.spool.oldest()
	if err != nil {
		s.lost(s.spool.files[0].count, err)
	} else if !s.send(ctx, b) {
		return
	}
	if err := s.spool.drop(); err != nil {
		s.next = time.Now().Add(lastPause) // it is sent twice, which changes nothing in the database
		s.cfg.Log.Warn("a batch that was sent cannot be removed from the spool", "error", err)
	}
	s.spooled()
	s.well()
}

// send tries once. It reports whether the batch is over: the database took it, or never
// will.
func (s *Sink) send(ctx context.Context, b batch) bool {
	err := s.to.write(ctx, b.lines)
	var answer *Error
	switch {
	case err == nil:
		s.pause = 0
		s.change(func(st *Stats) { st.Sent += uint64(b.count) })
		s.well()
		return true
	case ctx.Err() != nil:
		return false
	case errors.Is(err, ErrRefused), errors.As(err, &answer) && answer.refused():
		s.pause = 0
		s.change(func(st *Stats) { st.Refused += uint64(b.count); st.Failures++ })
		s.cfg.Log.Warn("the database refuses samples for good", "lines", b.count, "error", err)
		return true
	}
	s.pause = min(max(2*s.pause, firstPause), lastPause)
	if answer != nil {
		s.pause = max(s.pause, min(answer.After, longestWish))
	}
	s.next = time.Now().Add(s.pause + rand.N(s.pause/4+1)) // hosts of a fleet do not come back together
	s.change(func(st *Stats) {
		st.Failures++
		st.Cause = err.Error()
		if st.Since.IsZero() {
			st.Since = time.Now()
		}
	})
	if !s.loud {
		s.loud = true
		s.cfg.Log.Warn("the database takes no samples; they wait on the disk", "error", err)
	}
	return false
}

// well notes that the database takes everything, once nothing waits.
func (s *Sink) well() {
	if len(s.spool.files) > 0 {
		return
	}
	s.change(func(st *Stats) { st.Since, st.Cause, st.Losing = time.Time{}, "", false })
	if s.loud || s.loudly {
		s.loud, s.loudly = false, false
		s.cfg.Log.Info("the database takes samples again")
	}
}
