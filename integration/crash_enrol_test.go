//go:build integration && hostlertest

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// enrolmentPoints lets a new host in for each point, and out again.
func enrolmentPoints(t *testing.T) {
	c := newWreck(t)
	number := 0
	for _, s := range []failpoint.Step{"A8", "A12", "A13", "F1", "F2", "F3", "C6", "C7"} {
		for _, point := range []string{s.Before(), s.After()} {
			most := 1
			if slices.Contains([]failpoint.Step{failpoint.MembershipKept, failpoint.FilePlaced, failpoint.BatchCommitted}, s) {
				most = 3 // the enrolment is kept again and again, and each file is another
			}
			again := s == failpoint.MembershipKept
			if again {
				most = 6 // three of them when it joins again
			}
			for n := 1; n <= most; n++ {
				t.Run(fmt.Sprintf("%s %d", point, n), func(t *testing.T) {
					number++
					l := c.newLimb(t, fmt.Sprintf("edge-%02d", number), false)
					at := l.victim
					if strings.HasPrefix(point, "C") {
						at = c.head
					}
					at.arm(t, point, n)
					done := make(chan struct{})
					go func() { // waited for below
						defer close(done)
						c.stay(t, l, again)
					}()
					pid := at.hit(t, point, patience)
					if pid == 0 {
						t.Errorf("nobody came to %s", point)
					}
					if p := at.process(); p != nil && p.pid() == pid {
						at.revive(t)
					}
					<-done
				})
			}
		}
	}
	c.judge(t)
}

// stay is the whole time of a host in the fleet: it joins, perhaps again, works, is
// revoked and leaves, however often it has to begin again.
func (c *wreck) stay(t *testing.T, l *limb, again bool) {
	t.Helper()
	times := 1
	if again {
		times = 2
	}
	for range times {
		var invite api.Invite
		c.post(t, "/v1/invites", api.NewInvite{TTL: "1h"}, &invite)
		for !c.joins(t, l, invite.Code) {
		}
	}
	l.revive(t)
	if got := c.end(t, l, c.runs(t, l, "0")); got.State != protocol.StateDone {
		t.Errorf("its command is %s", got)
	}
	c.post(t, "/v1/hosts/"+l.host.name+"/revoke", api.Reason{Reason: "it goes"}, nil)
	c.history.Removed[protocol.HostID(l.host.name)] = true
	l.retire(t)
	for {
		p := l.host.spawn(t, l.host.name+"-leave", "leave", "--yes")
		code := p.code(t)
		if strings.Contains(p.talk.String(), "has joined no fleet") {
			break // it finished what the one before had noted
		}
		if code != 128+int(kill) {
			p.finish(t).exits(t, 0)
			break
		}
	}
	for _, name := range []string{"identity.pgp", "tls.key", "membership.json", "membership-again.json", "queue.db", "queue.made", "leaving"} {
		gone(t, l.path(name))
	}
}

// joins lets the host ask to be let in, and in. It reports false if that was
// interrupted.
func (c *wreck) joins(t *testing.T, l *limb, code string) bool {
	t.Helper()
	p := l.host.spawn(t, l.host.name+"-join", "join", code)
	until(t, &p.out.change, "words, or an end", func() bool {
		return strings.Contains(strings.Join(p.out.lines(), "\n")+"\n", "words:") || p.ended()
	})
	if !p.ended() {
		words := field(t, p.out.String(), "words")
		c.insist(t, "approving "+l.host.name, func(ctx context.Context) error {
			err := c.api.Post(ctx, "/v1/enrolments/"+l.host.name+"/approve", nil, api.Decision{Words: words}, nil)
			if p, ok := errors.AsType[*api.Problem](err); ok && (p.Code == api.CodeConflict || p.Code == api.CodeExists) {
				return nil
			}
			return err
		})
	}
	switch code := p.code(t); {
	case code == 0:
		return true
	case code == 128+int(kill):
		return false
	default:
		t.Fatalf("join ends with %d:\n%s%s", code, p.out.tail(), p.talk.tail())
		return false
	}
}

// initPoints kills the first steps of a coordinator at every file, database and
// commit that they make.
func initPoints(t *testing.T) {
	w := newWorld(t)
	number := 0
	for _, c := range []struct {
		step failpoint.Step
		most int // hits until the coordinator serves
	}{
		{failpoint.FilePlaced, 12}, {failpoint.DatabasePlaced, 1}, {failpoint.BatchCommitted, 2}, {failpoint.AccessKept, 1}, {failpoint.RingsKept, 2},
	} {
		for _, point := range []string{c.step.Before(), c.step.After()} {
			for n, more := 1, true; more && n <= c.most; n++ {
				t.Run(fmt.Sprintf("%s %d", point, n), func(t *testing.T) {
					number++
					if more = w.firstSteps(t, fmt.Sprintf("first-%d", number), point, n); !more && n == 1 {
						t.Errorf("nobody came to %s", point)
					}
				})
			}
		}
	}
}

// firstSteps makes a fleet with a coordinator that is killed at the nth hit of a
// point, and finishes it by doing the same again. It reports whether there was
// such a hit.
func (w *world) firstSteps(t *testing.T, name, point string, n int) bool {
	t.Helper()
	dir := w.path(name)
	mkdir(t, dir)
	operator := append(w.env(), "XDG_CONFIG_HOME="+filepath.Join(dir, "operator"))
	mkdir(t, filepath.Join(dir, "operator"))
	v := newVictim(t, w, name, nil)
	config := filepath.Join(dir, "coordinator.toml")
	http := freeAddress(t)
	write(t, config, fmt.Sprintf("state_dir = %q\n[http]\nlisten = %q\n[mqtt]\nlisten = %q\n", filepath.Join(dir, "state"), http, freeAddress(t)))
	code := field(t, w.spawn(t, name+"-fleet", operator, filepath.Join(w.bin, "hostler"), "fleet", "init", name).finish(t).exits(t, 0).stdout, "code")
	initialize := func(args ...string) string {
		said := "" // whatever it has shown before it was killed counts
		for {
			argv := append([]string{filepath.Join(w.bin, "hostler-coordinator"), "--config", config, "init"}, args...)
			p := w.spawn(t, name+"-init", w.env(v.environ()), argv...)
			code := p.code(t)
			said += p.out.String()
			if code != 128+int(kill) {
				p.finish(t).exits(t, 0)
				return said
			}
		}
	}
	v.arm(t, point, n)
	made := initialize("--fleet", code)
	token := field(t, made[strings.LastIndex(made, "token:"):], "token")
	rings := filepath.Join(dir, "rings")
	w.spawn(t, name+"-ring", operator, filepath.Join(w.bin, "hostler"), "fleet", "ring", "add-coordinator", field(t, made, "request"), "--out", rings).finish(t).exits(t, 0)
	initialize("--ring", rings)
	v.spawn = func(t testing.TB) *process {
		return w.spawn(t, name, w.env(v.environ()), filepath.Join(w.bin, "hostler-coordinator"), "--config", config, "run")
	}
	v.revive(t)
	w.spawn(t, name+"-login", operator, filepath.Join(w.bin, "hostler"), "login", "https://"+http, "--token", token, "--ca", filepath.Join(dir, "state/ca.crt")).finish(t).exits(t, 0)
	w.spawn(t, name+"-status", operator, filepath.Join(w.bin, "hostler"), "status").finish(t).exits(t, 0)
	v.process().end(t, kill)
	_, err := os.Lstat(filepath.Join(v.points, point+".hit"))
	return err == nil
}
