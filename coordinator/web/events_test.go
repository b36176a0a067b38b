package web_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/recovery"
	"github.com/hostler-io/hostler/coordinator/web"
	"github.com/hostler-io/hostler/protocol"
)

// watcher reads a stream of events.
type watcher struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	beats int
}

// watch follows the events. header may name the last event that was seen.
func (s *site) watch(path, lastID string) *watcher {
	s.t.Helper()
	req := s.request(core.RoleViewer, http.MethodGet, path, nil)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("status %d, %q", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return &watcher{t: s.t, resp: resp, lines: bufio.NewScanner(resp.Body)}
}

// next returns the next event.
func (w *watcher) next() api.Event {
	w.t.Helper()
	id, typ := "", ""
	for w.lines.Scan() {
		line := w.lines.Text()
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "id":
			id = value
		case "event":
			typ = value
		case "data":
			var e api.Event
			if err := json.Unmarshal([]byte(value), &e); err != nil || fmt.Sprint(e.ID) != id || e.Type != typ {
				w.t.Fatalf("event %s of type %s is %s: %v", id, typ, value, err)
			}
			return e
		case "":
			if line == ": " {
				w.beats++
			}
		}
	}
	w.t.Fatalf("the events ended: %v", w.lines.Err())
	panic("unreachable")
}

// alert makes one event.
func (s *site) alert(n int) {
	s.host.Alert(protocol.Alert{AlertInfo: protocol.AlertInfo{ID: fmt.Sprintf("alert/%d", n), Severity: "warning", Text: "text", SinceMS: 1}, Raised: true})
}

func TestEventsFollow(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		w := s.watch("/v1/events", "")
		time.AfterFunc(40*time.Second, func() { s.alert(1) })
		first := w.next()
		if first.Type != "alert.raised" || first.Host != "edge-07" || first.Object != "alert/1" || first.Data["severity"] != "warning" {
			t.Errorf("event: %+v", first)
		}
		if w.beats != 2 {
			t.Errorf("%d signs of life in 40s, want 2", w.beats)
		}
		s.alert(2)
		second := w.next()
		if second.ID != first.ID+1 {
			t.Errorf("event %d follows %d", second.ID, first.ID)
		}
		if again := s.watch("/v1/events?after=0", strconv.FormatUint(first.ID, 10)).next(); again.ID != second.ID {
			t.Errorf("behind %d comes %d", first.ID, again.ID)
		}
		if r := s.watch("/v1/events?after=0", "").next(); r.ID != 1 {
			t.Errorf("the first of all is %d", r.ID)
		}
	})
}

// TestEventsThatAreNotThere: whoever has seen more than there is, as from the store
// that a recovered one was a backup of, is told to look at everything anew.
func TestEventsThatAreNotThere(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.alert(1)
		synctest.Wait()
		last, err := s.f.Coordinator().Journal().LastEvent(t.Context())
		if err != nil || last == 0 {
			t.Fatal(last, err)
		}
		for _, ahead := range []uint64{1, 1000} {
			req := s.request(core.RoleViewer, http.MethodGet, "/v1/events", nil)
			req.Header.Set("Last-Event-ID", strconv.FormatUint(last+ahead, 10))
			ctx, stop := context.WithTimeout(t.Context(), time.Minute) // a stream has no end
			defer stop()
			if got := s.do(req.WithContext(ctx)); got.StatusCode != http.StatusGone || !strings.Contains(string(got.body), "list what you watch anew, then follow from now on") {
				t.Errorf("%d ahead: %d %s", ahead, got.StatusCode, got.body)
			}
		}
		w := s.watch("/v1/events", strconv.FormatUint(last, 10)) // the newest is there
		s.alert(2)
		if e := w.next(); e.ID != last+1 {
			t.Errorf("behind %d comes %d", last, e.ID)
		}
	})
}

// TestEventsBeginAnewAfterARecovery: no id of before names another event, however many
// come; whoever follows with one is told to begin anew, and 0 is still the beginning.
func TestEventsBeginAnewAfterARecovery(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		for n := range 20 {
			s.alert(n)
		}
		synctest.Wait()
		seen, err := s.f.Coordinator().Journal().LastEvent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.f.Stop()
		s.f.Trust.SetRing(s.f.Trust.Ring() + 1)
		store := s.f.Store()
		if _, err := recovery.Recover(t.Context(), store, recovery.Config{
			Key: coordtest.NewKey("coordinator").Key(), Ring: s.f.Trust.Ring(), Now: time.Now(), Rand: rand.Reader,
		}); err != nil {
			t.Fatal(err)
		}
		s.f.RestartOn(store)
		s = siteOn(t, s.f, s.host, web.Config{Version: "0.1.0"})
		synctest.Wait()
		early := s.watch("/v1/events?after=0", "") // before there is anything to tell
		synctest.Wait()
		s.alert(30)
		first := early.next()
		if again := s.watch("/v1/events?after=0", "").next(); again.ID != first.ID {
			t.Errorf("the first event is %d to one who came early, %d to another", first.ID, again.ID)
		}
		if first.ID <= seen+1<<31 || core.EventsBegin(first.ID)+1 != first.ID {
			t.Errorf("the first event is %d, %d had been seen before", first.ID, seen)
		}
		for _, before := range []uint64{1, seen - 3, seen} {
			req := s.request(core.RoleViewer, http.MethodGet, "/v1/events", nil)
			req.Header.Set("Last-Event-ID", strconv.FormatUint(before, 10))
			ctx, stop := context.WithTimeout(t.Context(), time.Minute) // a stream has no end
			defer stop()
			if got := s.do(req.WithContext(ctx)); got.StatusCode != http.StatusGone {
				t.Errorf("behind %d: %d %s", before, got.StatusCode, got.body)
			}
		}
	})
}

func TestEventsAreNeverSkipped(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		w := s.watch("/v1/events?after=0", "")
		// More than is kept for all readers, so that this one must catch up
		// from the store.
		const n = 1500
		for i := range n {
			s.alert(i)
			synctest.Wait()
		}
		var last uint64
		for last < n {
			e := w.next()
			if e.ID != last+1 {
				t.Fatalf("event %d follows %d", e.ID, last)
			}
			last = e.ID
		}
	})
}

func TestManyReadersOfEvents(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var all sync.WaitGroup
		for range 50 {
			w := s.watch("/v1/events?after=0", "")
			all.Go(func() {
				for last := uint64(0); last < 100; last++ {
					if e := w.next(); e.ID != last+1 {
						t.Errorf("event %d follows %d", e.ID, last)
					}
				}
			})
		}
		for i := range 100 {
			s.alert(i)
			synctest.Wait()
		}
		all.Wait()
	})
}

func TestSlowReaderIsCut(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		w := s.watch("/v1/events", "")
		begin := time.Now()
		s.alert(1)
		wait(9 * time.Second) // it does not read
		fast := s.watch("/v1/events", "")
		s.alert(2)
		if e := fast.next(); e.Object != "alert/2" {
			t.Errorf("somebody else was told of %+v", e)
		}
		wait(time.Minute)
		b, err := io.ReadAll(w.resp.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(string(b), "alert/2") {
			t.Errorf("a reader that slept %s could go on: %q, %v", time.Since(begin), b, err)
		}
	})
}

// TestQuietStreamsLive: over HTTP/2, as people follow, nothing that was meant
// for slow readers ends a stream on which there is nothing to read.
func TestQuietStreamsLive(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var http2 http.Protocols
		http2.SetUnencryptedHTTP2(true)
		transport := &http.Transport{DialContext: s.line.dial, Protocols: &http2}
		t.Cleanup(transport.CloseIdleConnections)
		s.client = &http.Client{Transport: transport}

		a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("talk")), http.StatusAccepted)
		o := <-s.host.Orders()
		s.host.Report(o.Started(s.host))
		synctest.Wait() // what it writes does not wait for what it reports
		s.host.Write(o.Item.Action, 1, protocol.Stdout, []byte("one\n"))
		f := s.follow("/v1/actions/" + a.ID + "/output?follow=true")
		f.next("one\n")
		w := s.watch("/v1/events", "")
		s.alert(1)
		if e := w.next(); e.Object != "alert/1" {
			t.Errorf("the first event is %+v", e)
		}
		wait(10 * time.Minute)
		s.host.Write(o.Item.Action, 1, protocol.Stdout, []byte("two\n"))
		f.next("two\n")
		s.alert(2)
		if e := w.next(); e.Object != "alert/2" {
			t.Errorf("the next event is %+v", e)
		}
	})
}

func TestShutdownEndsEvents(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		w := s.watch("/v1/events", "")
		go func() {
			for w.lines.Scan() {
			}
		}()
		synctest.Wait()
		if err := s.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
