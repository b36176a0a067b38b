package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/archive"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// started is a program that is part of its fleet, and its first token.
func started(t testing.TB, fleet byte) (p *program, token string) {
	t.Helper()
	p = newProgram(t, fleet)
	out, _ := p.do(0, "init", "--fleet", p.code())
	p.do(0, "init", "--ring", p.admit(field(t, out, "request")))
	return p, field(t, out, "token")
}

// next signs the ring after those of a state directory, and returns the file.
func (p *program) next(change func(*certs.Ring) error) string {
	p.t.Helper()
	chain, err := p.state.chain()
	if err != nil {
		p.t.Fatal(err)
	}
	ring := chain.Next()
	if err := change(&ring); err != nil {
		p.t.Fatal(err)
	}
	raw, err := certs.SignRing(ring, p.owner)
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.TempDir(), "rings")
	p.write(file, string(certs.EncodeFile(append(chain.Rings(), raw))))
	return file
}

// replaced is a ring that names the coordinator of a request and not the one of
// that key.
func replaced(request string, old protocol.KeyID) func(*certs.Ring) error {
	return func(r *certs.Ring) error {
		q, err := enrol.ParseCoordinatorRequest(request)
		if err == nil {
			err = r.AddCoordinator(q)
		}
		if err == nil && old != (protocol.KeyID{}) {
			err = r.RemoveCoordinator(old)
		}
		return err
	}
}

func (p *program) identity() *certs.Identity {
	p.t.Helper()
	id, err := certs.LoadIdentity(p.state.identity())
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *program) key() protocol.KeyID { return p.identity().Key() }

// wiped loses the state directory.
func (p *program) wiped() {
	p.t.Helper()
	if err := os.RemoveAll(string(p.state)); err != nil {
		p.t.Fatal(err)
	}
}

// TestBackupIsRestoredAndRecovered goes the whole way, with and without keys in
// the backup.
func TestBackupIsRestoredAndRecovered(t *testing.T) {
	for _, flags := range [][]string{nil, {"--without-keys"}, {"--with-outputs"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			p, token := started(t, 1)
			p.serve(token)
			old, dir := p.key(), t.TempDir()
			action := filepath.Join(p.state.output(), "018f0000-0000-7000-8000-000000000000")
			if err := errors.Join(os.MkdirAll(action, 0o700), os.WriteFile(filepath.Join(action, "1.stdout"), []byte("hello\n"), 0o600),
				os.WriteFile(filepath.Join(action, "1.recording"), []byte("cast\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			out, talk := p.do(0, append([]string{"backup", dir}, flags...)...)
			file := field(t, out, "backup")
			info, err := os.Stat(file)
			if err != nil || info.Mode() != 0o600 || !strings.HasPrefix(filepath.Base(file), "demo-2") {
				t.Errorf("%s: %v, %v", file, info.Mode(), err)
			}
			if secret := strings.Contains(talk, "keep it as secret"); secret == (len(flags) == 1 && flags[0] == "--without-keys") {
				t.Errorf("it says %s", talk)
			}
			if held := strings.Contains(talk, "with 2 files of outputs and payloads (11 bytes)"); held != (len(flags) == 1 && flags[0] == "--with-outputs") {
				t.Errorf("it says of outputs %q", talk)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("beside it: %v, %v", left, err)
			}
			p.do(1, "backup", file)
			p.do(1, "restore", file) // over a live one
			p.wiped()
			p.do(0, "restore", file, "--fleet", p.code())
			for _, name := range []string{"1.stdout", "1.recording"} {
				_, err = os.ReadFile(filepath.Join(action, name))
				if kept := err == nil; kept != (len(flags) == 1 && flags[0] == "--with-outputs") {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, refused := range [][]string{{"run"}, {"backup", dir}, {"init", "--fleet", p.code()}} {
				if _, talk := p.do(1, refused...); !strings.Contains(talk, "was restored from a backup of 2") || !strings.Contains(talk, "Run: hostler-coordinator recover") {
					t.Errorf("%s says %q", refused, talk)
				}
			}
			p.do(1, "restore", file) // once more
			if _, talk := p.do(1, "recover", "--ring", "x"); !strings.Contains(talk, "Run first: hostler-coordinator recover") {
				t.Errorf("with a ring first: %q", talk)
			}
			out, talk = p.do(0, "recover")
			request := field(t, out, "request")
			if !strings.Contains(talk, "hostler fleet ring replace-coordinator REQUEST --old "+old.String()) || !strings.Contains(talk, "hostler-coordinator recover --ring FILE") {
				t.Errorf("it does not say what to type: %q", talk)
			}
			if again, _ := p.do(0, "recover"); field(t, again, "request") != request {
				t.Error("another request: another key was made")
			}
			if _, talk := p.do(1, "run"); !strings.Contains(talk, "recover --ring FILE") {
				t.Errorf("run says %q", talk)
			}
			if _, talk := p.do(1, "recover", "--ring", p.next(func(*certs.Ring) error { return nil })); !strings.Contains(talk, "does not name the new key") {
				t.Errorf("a ring without it: %q", talk)
			}
			if _, talk := p.do(1, "recover", "--ring", p.next(replaced(request, protocol.KeyID{}))); !strings.Contains(talk, "remove-coordinator "+old.String()) {
				t.Errorf("a ring with both: %q", talk)
			}
			report, _ := p.do(0, "recover", "--ring", p.next(replaced(request, old)))
			for _, want := range []string{"ring: 3", "hosts: 0", "admin (admin,", "key: " + p.key().String()} {
				if !strings.Contains(report, want) {
					t.Errorf("the report lacks %q:\n%s", want, report)
				}
			}
			if says := strings.Contains(report, "The TLS authority is new.") && strings.Contains(report, "log in again: hostler login CODE"); says != (len(flags) == 1 && flags[0] == "--without-keys") {
				t.Errorf("of the authority it says:\n%s", report)
			}
			if kept, err := os.ReadFile(p.state.report()); err != nil || string(kept) != report {
				t.Errorf("it keeps %q, %v", kept, err)
			}
			if p.key() == old {
				t.Error("the key is the same")
			}
			for _, gone := range []string{p.state.marker(), p.state.nextIdentity()} {
				if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is there: %v", gone, err)
				}
			}
			if _, talk := p.do(1, "recover"); !strings.Contains(talk, "nothing speaks against") || !strings.Contains(talk, "recover --force") {
				t.Errorf("once more: %q", talk)
			}
			p.serve(token)
		})
	}
}

// TestEveryRecoveryHasItsOwnKey: a recovery that was killed when all but its key was
// out of the way leaves that, the present one, to nobody.
func TestEveryRecoveryHasItsOwnKey(t *testing.T) {
	p, token := started(t, 1)
	old := p.key()
	out, _ := p.do(0, "recover", "--force")
	request := field(t, out, "request")
	p.do(0, "recover", "--ring", p.next(replaced(request, old)))
	b, err := os.ReadFile(p.state.identity())
	if err != nil {
		t.Fatal(err)
	}
	p.write(p.state.nextIdentity(), string(b))
	second := p.key()
	again, _ := p.do(0, "recover", "--force")
	if field(t, again, "request") == request {
		t.Fatal("the second recovery asks for the key of the first")
	}
	p.do(0, "recover", "--ring", p.next(replaced(field(t, again, "request"), second)))
	if p.key() == second {
		t.Error("the key is the same")
	}
	p.serve(token)
}

// TestBackupSweepsBehindItself: what a killed backup left is removed by the next
// one, and nothing else, even if that one is refused.
func TestBackupSweepsBehindItself(t *testing.T) {
	p, _ := started(t, 1)
	id, dir := p.identity(), t.TempDir()
	left, foreign := filepath.Join(dir, partial(id)+"1234"), filepath.Join(dir, ".hostler-backup-"+strings.Repeat("0", 40)+"-1234")
	file := filepath.Join(dir, "b")
	for _, want := range []int{0, 1} {
		p.write(left, "half a backup")
		p.write(foreign, "of another coordinator, which may be at work")
		p.do(want, "backup", file) // the second time it is there
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what was left is there: %v", err)
		}
		if _, err := os.Stat(foreign); err != nil {
			t.Error(err)
		}
	}
}

// TestBackupToAPipe: what goes to the standard output is a whole backup.
func TestBackupToAPipe(t *testing.T) {
	p, token := started(t, 1)
	p.serve(token)
	out, talk := p.do(0, "backup", "-")
	if !strings.Contains(talk, "Fleet demo, ring 2") {
		t.Errorf("it says %q", talk)
	}
	file := filepath.Join(t.TempDir(), "b")
	p.write(file, out)
	p.wiped()
	p.do(0, "restore", file)
}

// TestRestoreRefuses: nothing of a backup that is not whole, or not of the fleet,
// comes to the disk.
func TestRestoreRefuses(t *testing.T) {
	p, _ := started(t, 1)
	other, _ := started(t, 2)
	file := filepath.Join(t.TempDir(), "b")
	p.do(0, "backup", file)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "new")
	refused := func(what, say string, args ...string) {
		t.Helper()
		if _, talk := p.do(1, append([]string{"restore", file, "--state", target}, args...)...); !strings.Contains(talk, say) {
			t.Errorf("%s: it says %q, want %q", what, talk, say)
		}
		if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the state directory was made: %v", what, err)
		}
	}
	refused("another fleet", "and --fleet names fleet demo ("+other.ring.Fleet.String()+")", "--fleet", other.code())
	if _, talk := p.do(daemon.ExitUsage, "restore", file, "--fleet", "hf1_nonsense"); !strings.Contains(talk, "--fleet: ") || !strings.Contains(talk, "hostler fleet show prints the code") {
		t.Errorf("a bad code: %q", talk)
	}
	for what, b := range map[string][]byte{
		"cut":     whole[:len(whole)/2],
		"flipped": append(bytes.Clone(whole[:len(whole)/3]), append([]byte{whole[len(whole)/3] ^ 1}, whole[len(whole)/3+1:]...)...),
		"no file": []byte("hello"),
		"empty":   nil,
	} {
		p.write(file, string(b))
		refused(what, "it is not a whole backup")
	}
	ours, theirs := p.identity(), other.identity()
	p.write(file, grown(t, ours))
	refused("more rings than memory", "its rings have more than")
	for what, c := range map[string]struct {
		key  protocol.KeyID
		sign protocol.Signer
		say  string
	}{
		"another signature":     {ours.Key(), theirs, "signature"},
		"another's signature":   {theirs.Key(), theirs, "is of no coordinator in its ring"},
		"a signature by nobody": {ours.Key(), nobody{ours}, "signature"},
	} {
		p.write(file, resigned(t, whole, c.key, c.sign))
		refused(what, "it is not a whole backup")
		refused(what, c.say, "--fleet", p.code())
	}
	p.write(file, resigned(t, whole, ours.Key(), ours))
	p.do(0, "restore", file, "--state", target, "--fleet", p.code()) // so that is what was refused
	if err := os.RemoveAll(target); err != nil {
		t.Fatal(err)
	}
	p.write(file, string(whole))
	if _, talk := p.do(daemon.ExitUsage, "restore", file, "--state", "relative"); !strings.Contains(talk, "absolute path") {
		t.Errorf("it says %q", talk)
	}
	// A restore that was interrupted is done again.
	p.do(0, "restore", file, "--state", target)
	s := state(target)
	if err := errors.Join(s.putRecovery(recoveryMark{Stage: restoring, Former: p.key()}), os.Remove(s.identity())); err != nil {
		t.Fatal(err)
	}
	p.write(p.config, strings.Replace(readText(t, p.config), string(p.state), target, 1))
	if _, talk := p.do(1, "run"); !strings.Contains(talk, "a restore was interrupted") {
		t.Errorf("it says %q", talk)
	}
	if _, talk := p.do(1, "recover"); !strings.Contains(talk, "a restore was interrupted") {
		t.Errorf("it says %q", talk)
	}
	p.do(0, "restore", file)
	if _, err := os.Stat(s.identity()); err != nil {
		t.Error(err)
	}
}

// nobody signs with bytes that are no signature.
type nobody struct{ *certs.Identity }

func (nobody) Sign([]byte) ([]byte, error) { return []byte("signed"), nil }

// named signs as if it had another key.
type named struct {
	protocol.Signer
	key protocol.KeyID
}

func (n named) Key() protocol.KeyID { return n.key }

// resigned changes one file of a backup and has somebody sign it as the backup
// of key: nothing but the signature can tell.
func resigned(t *testing.T, whole []byte, key protocol.KeyID, signer protocol.Signer) string {
	t.Helper()
	var b bytes.Buffer
	w := archive.NewWriter(&b)
	m, _, err := archive.Read(bytes.NewReader(whole), func(name string, size int64, r io.Reader) error {
		if name != "ca.pem" {
			return w.Add(name, size, r)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
		return w.Add(name, 4, strings.NewReader("mine"))
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Key = key
	if err := w.Close(&m, named{signer, key}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// grown is a backup with rings that no memory may hold.
func grown(t *testing.T, signer protocol.Signer) string {
	t.Helper()
	var b bytes.Buffer
	w := archive.NewWriter(&b)
	ring := make([]byte, 16<<20)
	for n := range 5 {
		if err := w.Add("rings/"+strconv.Itoa(n+1), int64(len(ring)), bytes.NewReader(ring)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(&archive.Manifest{Fleet: protocol.FleetID{1}, Name: "lab", Store: protocol.StoreID{2}, Key: signer.Key()}, signer); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCopyAsNewFleet makes a copy for staging: with keys, an authority and a
// fleet of its own, and none of the tokens.
func TestCopyAsNewFleet(t *testing.T) {
	p, token := started(t, 1)
	p.serve(token)
	file := filepath.Join(t.TempDir(), "b")
	p.do(0, "backup", file)
	ca := readText(t, p.state.authority())
	staging := newProgram(t, 2)
	staging.do(0, "restore", file)
	if _, talk := staging.do(1, "recover", "--as-new-fleet", "--fleet", p.code()); !strings.Contains(talk, "is the code of this coordinator") {
		t.Errorf("it says %q", talk)
	}
	staging.do(daemon.ExitUsage, "recover", "--as-new-fleet")
	out, talk := staging.do(0, "recover", "--as-new-fleet", "--fleet", staging.code())
	if !strings.Contains(talk, "hostler fleet ring add-coordinator REQUEST") {
		t.Errorf("it says %q", talk)
	}
	report, _ := staging.do(0, "recover", "--ring", staging.admit(field(t, out, "request")))
	if !strings.Contains(report, "All tokens and viewers of fleet demo") {
		t.Errorf("the report says %s", report)
	}
	chain, err := staging.state.chain()
	if err != nil || chain.Ring().Fleet != staging.ring.Fleet || staging.key() == p.key() || readText(t, staging.state.authority()) == ca {
		t.Errorf("fleet %s, %v", chain.Ring().Fleet, err)
	}
	staging.serve(field(t, report, "token"))
	p.serve(token) // it goes on as before
}
