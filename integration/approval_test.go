//go:build integration

package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// reserving is a policy by which everything on a host waits for two persons.
const reserving = "version = 1\n[[rule]]\nkinds = [\"*\"]\napprovals = 2\n"

// judged is a fleet with one host on which an owner has put a policy into force,
// and with two approvers: ann has a key of hostler's, bob one of gpg's.
type judged struct {
	*world
	host *host
}

func newJudged(t *testing.T) *judged {
	t.Helper()
	return newJudgedWith(t, "")
}

// newJudgedWith gives bob's key a passphrase.
func newJudgedWith(t *testing.T, passphrase string) *judged {
	t.Helper()
	w := newWorld(t)
	write(t, w.path("policy.toml"), reserving)
	w.must(t, "key", "generate", "ann", "--no-passphrase")
	mkdir(t, w.path("gnupg"))
	t.Cleanup(func() {
		end := exec.Command("gpgconf", "--kill", "all") // gpg leaves its agent running
		end.Env = w.env()
		if out, err := end.CombinedOutput(); err != nil {
			t.Errorf("ending gpg's agent: %v: %s", err, out)
		}
	})
	gpg := w.spawn(t, "gpg", w.env(), "gpg", "--batch", "--quiet", "--pinentry-mode=loopback", "--passphrase="+passphrase, "--quick-generate-key", "bob@example.com", "ed25519", "sign,cert", "never")
	gpg.finish(t).exits(t, 0)
	w.must(t, "key", "import", "bob", "--gpg", "bob@example.com")
	w.must(t, "fleet", "ring", "add-approver", "ann", "ann", "--out", w.path("ring-3"))
	w.must(t, "fleet", "ring", "add-approver", "bob", "bob", "--out", w.path("ring-4"))
	w.must(t, "fleet", "ring", "publish")
	j := &judged{world: w, host: w.addHost(t, "edge-01", false)}
	j.must(t, "policy", "sign", w.path("policy.toml"), "--number", "1", "--yes")
	j.must(t, "policy", "set", w.path("policy.toml"), "edge-01")
	return j
}

// mark asks for a command that leaves a line in a file, and returns its action.
func (j *judged) mark(t *testing.T, file string) string {
	t.Helper()
	return j.submit(t, "edge-01", "sh", "-c", "echo done >>"+j.path(file))
}

// approve lets a person approve.
func (j *judged) approve(t *testing.T, id, person string, more ...string) result {
	t.Helper()
	return j.cli(t, append([]string{"action", "approve", id, "--yes", "--key", person, "-o", "json"}, more...)...)
}

// ran tells how often a command of mark has run.
func (j *judged) ran(t *testing.T, file string) int {
	t.Helper()
	found, err := filepath.Glob(j.path(file))
	if err != nil || len(found) == 0 {
		return 0
	}
	return strings.Count(read(t, j.path(file)), "done\n")
}

// TestApprovals leads commands past two persons with the built programs: one that
// both approve, one that is denied, one whose approvals end while its host is
// away, and one for which the coordinator asks nobody.
func TestApprovals(t *testing.T) {
	t.Parallel()
	j := newJudged(t)

	id := j.mark(t, "approved")
	j.state(t, id, "PENDING_APPROVE")
	if got := j.must(t, "run", "edge-01", "--dry-run", "--", "true"); !strings.Contains(got, "0 of 2 (the policy of the host)") {
		t.Errorf("a dry run shows:\n%s", got)
	}
	j.approve(t, id, "ann").exits(t, 0, "You sign as ann of fleet lab")
	j.approve(t, id, "ann", "--valid", "9h").exits(t, 0) // who signs twice is one person
	if a := j.action(t, id); a.State != "PENDING_APPROVE" || a.Needs[0].Missing != 1 {
		t.Errorf("after one person it is %s with %+v", a.State, a.Needs)
	}
	if n := j.ran(t, "approved"); n != 0 {
		t.Fatalf("it ran %d times before the second person", n)
	}
	j.approve(t, id, "bob").exits(t, 0)
	j.done(t, id)
	if n := j.ran(t, "approved"); n != 1 {
		t.Errorf("it ran %d times, want once", n)
	}

	denied := j.mark(t, "denied")
	j.approve(t, denied, "ann").exits(t, 0)
	j.must(t, "action", "deny", denied, "--reason", "not today")
	j.approve(t, denied, "bob").exits(t, 1, "nothing waits for approval", "has ended: cancelled")
	if a := j.action(t, denied); a.Reason != "disapproved" || !strings.Contains(a.Detail, "not today") {
		t.Errorf("denied, it is %s %s: %s", a.State, a.Reason, a.Detail)
	}

	j.host.agent.end(t, term)
	late := j.mark(t, "late")
	j.approve(t, late, "ann").exits(t, 0)
	j.approve(t, late, "bob", "--valid", "2s").exits(t, 0)
	if got := j.ended(t, late)[late]; got != "CANCELLED expired" {
		t.Errorf("its approvals ended, and it is %s", got)
	}
	if a := j.action(t, late); !strings.Contains(a.Detail, "that of bob ended at") {
		t.Errorf("it says %q", a.Detail)
	}
	j.host.start(t)

	// What it has learnt outlives the coordinator.
	from := j.events.mark()
	j.coordinator.end(t, kill)
	j.startCoordinator(t)
	j.host.online(t, from)
	killed := j.mark(t, "killed")
	j.state(t, killed, "PENDING_APPROVE")
	j.must(t, "action", "deny", killed)
	for _, file := range []string{"denied", "late", "killed"} {
		if n := j.ran(t, file); n != 0 {
			t.Errorf("%s ran %d times", file, n)
		}
	}
	if n := j.ran(t, "approved"); n != 1 {
		t.Errorf("in the end it has run %d times, want once", n)
	}

	// Who brought which approval is on record, and over which bytes.
	var given int
	for _, r := range show[[]api.AuditRecord](t, j.world, "audit", "ls", "--verb", "approval.give") {
		if r.Object == id {
			given++
			if r.Digest != j.action(t, id).Digest || r.Actor == "" || r.From == "" {
				t.Errorf("on record is %+v", r)
			}
		}
	}
	if given != 3 {
		t.Errorf("%d approvals of %s are on record, want 3", given, id)
	}
}

// TestPolicyOfRootIsAskedFor: what root wrote on a host was never seen by the
// coordinator, and requests wait all the same for what it asks for.
func TestPolicyOfRootIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, w.path("policy.toml"), reserving)
	h := w.newHost(t, "edge-01", false)
	write(t, h.config(), "policy = \""+w.path("policy.toml")+"\"\n"+read(t, h.config()))
	from := w.events.mark()
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	w.event(t, from, "the policy of edge-01 is known", func(e api.Event) bool {
		return e.Type == "host.policy" && e.Host == "edge-01" && e.Data["known"] == true && e.Data["digest"] == protocol.Sum([]byte(reserving)).String()
	})
	w.state(t, w.submit(t, "edge-01", "true"), "PENDING_APPROVE")
}

// TestPoliciesOnHangup: a coordinator that runs takes its policies anew, writes that
// down, and keeps those of before when it cannot read what is there now.
func TestPoliciesOnHangup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	own := w.path("own.toml")
	write(t, own, "version = 1\n[[rule]]\nkinds = [\"*\"]\napprovals = 1\n")
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+"[policy]\nfile = \""+own+"\"\n")
	w.must(t, "run", "edge-01", "--", "true") // nobody has read it yet
	w.coordinator.signal(t, hup)
	w.coordinator.says(t, w.coordinator.talk, "changed=[policy.file]")
	waits := w.submit(t, "edge-01", "true")
	w.state(t, waits, "PENDING_APPROVE")

	write(t, own, "version = 1\n[[rule]]\nkinds = [\"container.destroy\"]\napprovals = 1\n") // which can be got round
	w.coordinator.signal(t, hup)
	w.coordinator.says(t, w.coordinator.talk, "the one before it stays in force")
	still := w.submit(t, "edge-01", "true")
	w.state(t, still, "PENDING_APPROVE")
	if got := w.must(t, "audit", "ls", "-o", "json"); strings.Count(got, `"policies.set"`) != 1 {
		t.Errorf("the audit log is\n%s", got)
	}
	for _, id := range []string{waits, still} {
		w.must(t, "action", "deny", id)
	}
}
