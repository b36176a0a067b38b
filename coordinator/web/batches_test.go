package web_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// batchWatcher reads what is told of a batch.
type batchWatcher struct {
	t      *testing.T
	resp   *http.Response
	lines  *bufio.Scanner
	states map[string]string // newest, by host
	output map[string]string // by host and stream
	hosts  map[string]string // by action
	waits  map[string]string // for what, by host
	ended  bool
}

func (s *site) watchBatch(id string) *batchWatcher {
	s.t.Helper()
	resp, err := s.client.Do(s.request(core.RoleViewer, http.MethodGet, "/v1/batches/"+id+"/events?output=true", nil))
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%v, %+v", err, resp)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	w := &batchWatcher{t: s.t, resp: resp, lines: bufio.NewScanner(resp.Body), states: map[string]string{}, output: map[string]string{}, hosts: map[string]string{}, waits: map[string]string{}}
	w.lines.Buffer(nil, 1<<20)
	return w
}

// until reads on until enough was told.
func (w *batchWatcher) until(enough func() bool) {
	w.t.Helper()
	event := ""
	for !enough() {
		if !w.lines.Scan() {
			w.t.Fatalf("the batch broke off: %v; it was told %v %q", w.lines.Err(), w.states, w.output)
		}
		name, value, _ := strings.Cut(w.lines.Text(), ": ")
		if name == "event" {
			event = value
		}
		if name != "data" {
			continue
		}
		switch event {
		case "action":
			var a api.Action
			if err := json.Unmarshal([]byte(value), &a); err != nil || a.Spec != nil {
				w.t.Fatalf("%v in %s", err, value)
			}
			w.states[a.Host], w.hosts[a.ID], w.waits[a.Host] = a.State, a.Host, ""
			if a.Waits != nil {
				w.waits[a.Host] = a.Waits.For
			}
		case "output":
			var o api.BatchOutput
			if err := json.Unmarshal([]byte(value), &o); err != nil {
				w.t.Fatal(err)
			}
			key := w.hosts[o.Action] + " " + o.FD
			if int64(len(w.output[key])) != o.Offset {
				w.t.Errorf("a piece at %d follows %d bytes of %s", o.Offset, len(w.output[key]), key)
			}
			w.output[key] += string(o.Data)
		case "end":
			w.ended = true
		}
	}
}

// TestFollowBatch has one host that ends with output, one that writes while it
// runs, and one that is away until the end.
func TestFollowBatch(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		slow, away := s.f.AddHost("edge-08"), s.f.AddHost("edge-09")
		slow.Connect()
		synctest.Wait()
		s.host.Auto(coordtest.Succeed("done at once\n"))
		ask := api.NewBatch{Hosts: []string{"edge-09", "edge-07", "nobody", "edge-08"}, Spec: coordtest.RunSpec("talk")}
		r := s.call(core.RoleOperator, http.MethodPost, "/v1/batches", ask)
		b := as[api.Batch](t, r, http.StatusAccepted)
		if len(b.Actions) != 3 || b.Actions[0].Host != "edge-09" || b.Actions[0].Batch != b.ID || r.Header.Get("Location") != "/v1/batches/"+b.ID {
			t.Fatalf("asked for %+v", b)
		}
		if len(b.Refused) != 1 || b.Refused[0].Host != "nobody" || b.Refused[0].Code != api.CodeUnknownHost {
			t.Errorf("refused %+v, want nobody alone", b.Refused)
		}
		w := s.watchBatch(b.ID)
		w.until(func() bool { return w.states["edge-07"] == "DONE" && w.output["edge-07 stdout"] == "done at once\n" })
		o := <-slow.Orders()
		slow.Report(o.Started(slow))
		synctest.Wait() // what it writes does not wait for what it reports
		slow.Write(o.Item.Action, 1, protocol.Stdout, []byte("begun\n"))
		w.until(func() bool { return w.output["edge-08 stdout"] == "begun\n" })
		if w.states["edge-08"] != "RUNNING" || w.states["edge-09"] != "PENDING_SCHEDULE" {
			t.Errorf("states %v", w.states)
		}
		slow.Write(o.Item.Action, 1, protocol.Stderr, []byte("oh\n"))
		slow.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 6}, protocol.Output{FD: protocol.Stderr, Bytes: 3}))
		w.until(func() bool { return w.states["edge-08"] == "DONE" })
		away.Auto(coordtest.Succeed("late\n"))
		away.Connect()
		w.until(func() bool { return w.ended })
		if w.output["edge-09 stdout"] != "late\n" || w.output["edge-08 stderr"] != "oh\n" || w.states["edge-09"] != "DONE" {
			t.Errorf("told %v, %q", w.states, w.output)
		}
		// Whoever comes later is told the same.
		w = s.watchBatch(b.ID)
		w.until(func() bool { return w.ended })
		if len(w.states) != 3 || w.output["edge-08 stdout"] != "begun\n" {
			t.Errorf("later it is told %v, %q", w.states, w.output)
		}
		again := as[api.Batch](t, s.call(core.RoleOperator, http.MethodPost, "/v1/batches", api.NewBatch{ID: b.ID, Hosts: ask.Hosts, Spec: ask.Spec}), http.StatusAccepted)
		if again.States["DONE"] != 3 {
			t.Errorf("asked again, it is %+v", again.States)
		}
		all := as[[]api.Action](t, s.call(core.RoleViewer, http.MethodGet, "/v1/actions?state=DONE&batch="+b.ID, nil), http.StatusOK)
		if len(all) != 3 {
			t.Errorf("%d actions of the batch are listed", len(all))
		}
	})
}

// TestFollowedBatchTellsWhoIsAway: that a host goes away while its command runs is told
// to who follows, and that it is back.
func TestFollowedBatchTellsWhoIsAway(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		b := as[api.Batch](t, s.call(core.RoleOperator, http.MethodPost, "/v1/batches", api.NewBatch{Hosts: []string{"edge-07"}, Spec: coordtest.RunSpec("talk")}), http.StatusAccepted)
		o := <-s.host.Orders()
		s.host.Report(o.Started(s.host))
		w := s.watchBatch(b.ID)
		w.until(func() bool { return w.states["edge-07"] == "RUNNING" && w.waits["edge-07"] == "end" })
		s.host.Break()
		w.until(func() bool { return w.waits["edge-07"] == "host" })
		s.host.Connect()
		w.until(func() bool { return w.waits["edge-07"] == "end" })
		s.host.Report(o.Done())
		w.until(func() bool { return w.ended })
	})
}

// TestFollowedBatchEndsWithoutItsOutput: an action that is lost tells no sizes,
// so nobody waits for the rest of what it wrote.
func TestFollowedBatchEndsWithoutItsOutput(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		b := as[api.Batch](t, s.call(core.RoleOperator, http.MethodPost, "/v1/batches", api.NewBatch{Hosts: []string{"edge-07"}, Spec: coordtest.RunSpec("talk")}), http.StatusAccepted)
		o := <-s.host.Orders()
		s.host.Report(o.Started(s.host))
		s.host.Write(o.Item.Action, 1, protocol.Stdout, []byte("begun\n"))
		w := s.watchBatch(b.ID)
		w.until(func() bool { return w.output["edge-07 stdout"] == "begun\n" })
		s.call(core.RoleAdmin, http.MethodPost, "/v1/hosts/edge-07/revoke", api.Reason{})
		w.until(func() bool { return w.ended })
		if w.states["edge-07"] != "LOST" {
			t.Errorf("ended as %v", w.states)
		}
	})
}

// TestShutdownEndsFollowedBatch: a reader of a batch does not hold up the end.
func TestShutdownEndsFollowedBatch(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		b := as[api.Batch](t, s.call(core.RoleOperator, http.MethodPost, "/v1/batches", api.NewBatch{Hosts: []string{"edge-07"}, Spec: coordtest.RunSpec("talk")}), http.StatusAccepted)
		w := s.watchBatch(b.ID)
		w.until(func() bool { return len(w.states) == 1 })
		read := make(chan struct{})
		go func() {
			defer close(read)
			for w.lines.Scan() {
				if strings.Contains(w.lines.Text(), "event: end") {
					t.Error("a batch that goes on is said to have ended")
				}
			}
		}()
		begin := time.Now()
		if err := s.server.Shutdown(t.Context()); err != nil || time.Since(begin) > 5*time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		<-read
	})
}
