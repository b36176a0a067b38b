package web_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

func TestActionIsTheOperation(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		r := s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("echo", "hello"))
		a := as[api.Action](t, r, http.StatusAccepted)
		if r.Header.Get("Location") != "/v1/actions/"+a.ID || a.State != "PENDING_SCHEDULE" || a.Requester != "operator" {
			t.Errorf("answered %+v at %q", a, r.Header.Get("Location"))
		}
		synctest.Wait()
		if got := as[api.Action](t, s.call(core.RoleViewer, http.MethodGet, "/v1/actions/"+a.ID[:13], nil), http.StatusOK); got.Shown != "being sent" {
			t.Errorf("an order under way is shown as %q", got.Shown)
		}
		coordtest.Succeed("hello\n")(s.host, <-s.host.Orders())
		got := as[api.Action](t, s.call(core.RoleViewer, http.MethodGet, "/v1/actions/"+a.ID+"?wait=30s", nil), http.StatusOK)
		if got.State != "DONE" || got.Reason != "ok" || got.Exit == nil || string(got.Spec) != string(coordtest.RunSpec("echo", "hello")) || got.Argv[1] != "hello" || got.EndedAt == nil {
			t.Errorf("ended as %+v", got)
		}
		all := as[[]api.Action](t, s.call(core.RoleViewer, http.MethodGet, "/v1/actions?host=edge-07", nil), http.StatusOK)
		if len(all) != 1 || all[0].ID != a.ID || all[0].Spec != nil {
			t.Errorf("listed %+v, want it without its spec", all)
		}
		if all := as[[]api.Action](t, s.call(core.RoleViewer, http.MethodGet, "/v1/actions?cursor="+a.ID, nil), http.StatusOK); len(all) != 0 {
			t.Errorf("older than the first: %+v", all)
		}
	})
}

func TestSameIDAsksOnce(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		ask := run("true")
		ask.ID = protocol.NewActionID(time.Now().UnixMilli(), [10]byte{1}).String()
		as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", ask), http.StatusAccepted)
		coordtest.Succeed("")(s.host, <-s.host.Orders())
		synctest.Wait()
		if a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", ask), http.StatusOK); a.State != "DONE" {
			t.Errorf("asked again, it is %+v", a)
		}
		if len(s.host.Orders()) > 0 {
			t.Error("it was ordered twice")
		}
		ask.Spec = coordtest.RunSpec("false")
		wantProblem(t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", ask), api.CodeConflict)
	})
}

func TestWait(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		begin := time.Now()
		a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions?wait=30s", run("sleep", "60")), http.StatusAccepted)
		if d := time.Since(begin); a.State != "PENDING_SCHEDULE" || d != 30*time.Second {
			t.Errorf("after %s it is %s, want an answer after 30s", d, a.State)
		}
		o := <-s.host.Orders()
		s.host.Report(o.Started(s.host))
		timer := time.AfterFunc(10*time.Second, func() { s.host.Report(o.Done()) })
		defer timer.Stop()
		begin = time.Now()
		a = as[api.Action](t, s.call(core.RoleViewer, http.MethodGet, "/v1/actions/"+a.ID+"?wait=5m", nil), http.StatusOK)
		if d := time.Since(begin); a.State != "DONE" || d != 10*time.Second {
			t.Errorf("after %s it is %s, want DONE after 10s", d, a.State)
		}
		s.host.Auto(coordtest.Succeed(""))
		if a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions?wait=30s", run("true")), http.StatusOK); a.State != "DONE" {
			t.Errorf("waited for, it is %s", a.State)
		}
	})
}

func TestShutdownEndsWaiting(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		answered := make(chan reply, 1)
		req := s.request(core.RoleOperator, http.MethodPost, "/v1/actions?wait=10m", run("sleep", "60"))
		go func() { answered <- s.do(req) }()
		synctest.Wait()
		begin := time.Now()
		if err := s.server.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := as[api.Action](t, <-answered, http.StatusAccepted); a.State != "PENDING_SCHEDULE" || time.Since(begin) > 5*time.Second {
			t.Errorf("after %s it is %+v", time.Since(begin), a)
		}
	})
}

func TestCancel(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.host.Goodbye()
		synctest.Wait()
		a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("true")), http.StatusAccepted)
		if a.Shown != "waits for its host" {
			t.Errorf("shown as %q", a.Shown)
		}
		if a = as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions/"+a.ID+"/cancel", nil), http.StatusOK); a.State != "CANCELLED" {
			t.Errorf("cancelled before it was sent, it is %s", a.State)
		}
		s.host.Connect()
		synctest.Wait()
		a = as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("sleep", "60")), http.StatusAccepted)
		o := <-s.host.Orders()
		s.host.Report(o.Started(s.host))
		synctest.Wait()
		if a = as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions/"+a.ID+"/cancel", nil), http.StatusAccepted); a.Shown != "cancelling" {
			t.Errorf("shown as %q", a.Shown)
		}
		<-s.host.Controls()
		s.host.Report(o.Cancelled())
		if a = as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions/"+a.ID+"/cancel?wait=30s", nil), http.StatusOK); a.State != "CANCELLED" {
			t.Errorf("cancelled while it ran, it is %s", a.State)
		}
	})
}

// following is output that is being followed.
type following struct {
	*http.Response
	t *testing.T
}

func (s *site) follow(path string) following {
	s.t.Helper()
	resp, err := s.client.Do(s.request(core.RoleViewer, http.MethodGet, path, nil))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return following{resp, s.t}
}

// next reads exactly as many bytes as are wanted.
func (f following) next(want string) {
	f.t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(f.Body, b); err != nil || string(b) != want {
		f.t.Fatalf("read %q, %v, want %q", b, err, want)
	}
}

// end reads the rest, and checks where to go on.
func (f following) end(rest, next string) {
	f.t.Helper()
	b, err := io.ReadAll(f.Body)
	if err != nil || string(b) != rest || f.Trailer.Get(api.HeaderNext) != next {
		f.t.Errorf("the rest is %d bytes, %v, go on at %q; want %d bytes and %q", len(b), err, f.Trailer.Get(api.HeaderNext), len(rest), next)
	}
}

func TestFollowOutput(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("talk")), http.StatusAccepted)
		f := s.follow("/v1/actions/" + a.ID + "/output?follow=true")
		o := <-s.host.Orders()
		s.host.Report(o.Started(s.host))
		for _, part := range []string{"one\n", "two\n", "three\n"} {
			s.host.Write(o.Item.Action, 1, protocol.Stdout, []byte(part))
			f.next(part)
		}
		s.host.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 14}))
		f.end("", "-1")
		s.follow("/v1/actions/"+a.ID+"/output?offset=4").end("two\nthree\n", "-1")
		s.follow("/v1/actions/"+a.ID+"/output?stream=stderr&follow=true").end("", "-1")
	})
}

func TestFollowedOutputEndsAtHole(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("talk")), http.StatusAccepted)
		o := <-s.host.Orders()
		s.host.Report(o.Started(s.host))
		s.host.Write(o.Item.Action, 1, protocol.Stdout, []byte("head"))
		f := s.follow("/v1/actions/" + a.ID + "/output?follow=true")
		f.next("head")
		// The command wrote 100 bytes more than its cap in between.
		s.host.Write(o.Item.Action, 1, protocol.Stdout, make([]byte, 100))
		s.host.Write(o.Item.Action, 1, protocol.Stdout, []byte("tail"))
		s.host.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 108, Dropped: 100, DropAt: 4}))
		b, err := io.ReadAll(f.Body)
		if err != nil || len(strings.Trim(string(b), "\x00tail")) != 0 {
			t.Fatalf("read %q, %v", b, err)
		}
		if len(b) == 0 {
			if next := f.Trailer.Get(api.HeaderNext); next != "104" {
				t.Errorf("go on at %q, want 104", next)
			}
			s.follow("/v1/actions/"+a.ID+"/output?follow=true&offset=104").end("tail", "-1")
		}
	})
}

func TestUnfollowedMiddleIsAHole(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		whole := strings.Repeat("0123456789abcdef", 20<<10) // 320 KiB
		id := s.ended(whole)
		wait(10 * time.Second)
		f := s.follow("/v1/actions/" + id + "/output")
		f.end(whole[:protocol.OutputKept], "262144")
		s.follow("/v1/actions/"+id+"/output?offset=262144").end(whole[262144:], "-1")
		// Who follows gets all of it: the host is asked for the middle.
		s.follow("/v1/actions/"+id+"/output?follow=true").end(whole, "-1")
	})
}

func TestShutdownEndsFollowing(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("talk")), http.StatusAccepted)
		o := <-s.host.Orders()
		s.host.Report(o.Started(s.host))
		s.host.Write(o.Item.Action, 1, protocol.Stdout, []byte("so far"))
		f := s.follow("/v1/actions/" + a.ID + "/output?follow=true")
		f.next("so far")
		var down sync.WaitGroup
		down.Go(func() {
			if err := s.server.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
		f.end("", "6")
		down.Wait()
	})
}
