package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// program is the program with a state directory and a fleet of its own.
type program struct {
	t      testing.TB
	config string
	state  state
	owner  *certs.Identity
	ring   certs.Ring
	first  []byte // ring 1, signed
}

func newProgram(t testing.TB, fleet byte) *program {
	t.Helper()
	dir := t.TempDir()
	owner, err := certs.Generate("owner", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := certs.NewFleet(protocol.FleetID{fleet}, "demo", "ada", owner.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	first, err := certs.SignRing(ring, owner)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, config: filepath.Join(dir, "c.toml"), state: state(filepath.Join(dir, "state")), owner: owner, ring: ring, first: first}
	http, mqtt := freeAddresses(t)
	p.write(p.config, fmt.Sprintf("state_dir = %q\n[http]\nlisten = %q\n[mqtt]\nlisten = %q\n", p.state, http, mqtt))
	return p
}

// freeAddresses are two on loopback that nobody uses, outside of the range that the
// kernel gives to connections: nobody takes them before the coordinator does.
func freeAddresses(t testing.TB) (http, mqtt string) {
	t.Helper()
	for range 100 {
		port := 10000 + 2*rand.IntN(5000)
		one, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer one.Close()
		other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err != nil {
			continue
		}
		defer other.Close()
		return one.Addr().String(), other.Addr().String()
	}
	t.Fatal("found no free ports")
	return "", ""
}

func (p *program) write(path, text string) {
	p.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// do runs the program and returns what it printed.
func (p *program) do(want int, args ...string) (stdout, stderr string) {
	p.t.Helper()
	var out, talk bytes.Buffer
	ctx, stop := context.WithTimeout(p.t.Context(), time.Minute) // one that should have refused serves until then
	defer stop()
	if got := run(ctx, append([]string{"--config", p.config}, args...), &out, &talk); got != want {
		p.t.Fatalf("%q: exit %d, want %d\n%s%s", args, got, want, out.String(), talk.String())
	}
	return out.String(), talk.String()
}

func (p *program) code() string {
	body, err := p.ring.Body()
	if err != nil {
		p.t.Fatal(err)
	}
	return enrol.FleetCode{Fleet: p.ring.Fleet, Name: p.ring.Name, Pin: enrol.PinOf(1, protocol.Sum(body))}.Encode()
}

// admit makes ring 2, which lets the coordinator of a request in, and returns
// the file with both rings.
func (p *program) admit(request string) string {
	p.t.Helper()
	q, err := enrol.ParseCoordinatorRequest(request)
	if err != nil {
		p.t.Fatal(err)
	}
	code, err := enrol.ParseFleetCode(p.code())
	if err != nil {
		p.t.Fatal(err)
	}
	chain, err := certs.OpenChain(code.Pin, p.first)
	if err != nil {
		p.t.Fatal(err)
	}
	next := chain.Next()
	if err := next.AddCoordinator(q); err != nil {
		p.t.Fatal(err)
	}
	second, err := certs.SignRing(next, p.owner)
	if err != nil {
		p.t.Fatal(err)
	}
	if chain, err = chain.Advance(second); err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.TempDir(), "rings")
	p.write(file, string(chain.Newest()))
	return file
}

func field(t testing.TB, out, name string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("%q has no line %q", out, name)
	return ""
}

func TestFirstStart(t *testing.T) {
	p := newProgram(t, 1)
	out, _ := p.do(0, "init", "--fleet", p.code())
	request, token := field(t, out, "request"), field(t, out, "token")
	if !strings.HasPrefix(token, "hst_") {
		t.Errorf("token %q", token)
	}
	again, _ := p.do(0, "init", "--fleet", p.code())
	if field(t, again, "request") != request {
		t.Error("a second init makes another request: it has made another key")
	}
	if strings.Contains(again, "token:") {
		t.Error("a second init shows a token")
	}
	// As if it had been killed before it could show the token.
	if err := os.Remove(p.state.shown()); err != nil {
		t.Fatal(err)
	}
	again, _ = p.do(0, "init", "--fleet", p.code())
	first := token
	if token = field(t, again, "token"); token == first {
		t.Error("the token that nobody saw is shown later: it was kept as it is")
	}
	p.do(0, "init", "--ring", p.admit(request))
	p.serve(token)
}

// serve starts the program, asks it for its status as the first token's owner,
// and ends it.
func (p *program) serve(token string) {
	t := p.t
	t.Helper()
	c, _, err := load(p.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	done := make(chan int, 1)
	var log bytes.Buffer // read after done
	go func() {
		done <- run(ctx, []string{"--config", p.config, "run"}, w, &log)
		w.Close()
	}()
	line := make([]byte, 512)
	n, err := r.Read(line)
	if err != nil {
		t.Fatalf("it ended: exit %d\n%s", <-done, log.String())
	}
	if !strings.Contains(string(line[:n]), "fleet demo: API on https://"+c.HTTP.Addresses[0]) {
		t.Fatalf("it says %q", line[:n])
	}
	ca, err := certs.LoadAuthority(p.state.authority())
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(ca.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.HTTP.Addresses[0]+"/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"fleet":"demo"`) {
		t.Errorf("status: %s %s, %v", resp.Status, body, err)
	}
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit %d after a signal, want 0", code)
	}
}

// Who looks for a coordinator in the wrong place is told the place, once.
func TestNothingThere(t *testing.T) {
	for _, c := range []struct {
		name string
		want int
		say  []string
		args []string
	}{
		{"backup", daemon.ExitFailed, []string{" holds no coordinator", "HOSTLER_STATE_DIR"}, []string{"backup", t.TempDir()}},
		{"recover", daemon.ExitFailed, []string{" holds no coordinator", "HOSTLER_STATE_DIR", "restore FILE"}, []string{"recover"}},
		{"restore", daemon.ExitFailed, []string{"restore /nope: no such file or directory\n"}, []string{"restore", "/nope"}},
		{"no file", daemon.ExitUsage, []string{"takes 1 argument, got none"}, []string{"restore"}},
		{"no place", daemon.ExitUsage, []string{"takes 1 argument, got none"}, []string{"backup"}},
		{"too much", daemon.ExitUsage, []string{"recover takes no arguments, got 1"}, []string{"recover", "x"}},
	} {
		for _, there := range []bool{false, true} {
			p := newProgram(t, 1)
			if there {
				if err := os.Mkdir(string(p.state), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			_, talk := p.do(c.want, c.args...)
			for _, say := range c.say {
				if !strings.Contains(talk, say) {
					t.Errorf("%s: it says %q, want something about %q", c.name, talk, say)
				}
			}
			if n := strings.Count(talk, string(p.state)); n > 1 || strings.Contains(talk, "-lock") || strings.Contains(talk, "Checking") {
				t.Errorf("%s: it says %q", c.name, talk)
			}
		}
	}
}

func TestInitRefuses(t *testing.T) {
	p, other := newProgram(t, 1), newProgram(t, 2)
	p.do(0, "init", "--fleet", p.code())
	theirs, _ := other.do(0, "init", "--fleet", other.code())
	for _, c := range []struct {
		name string
		want int
		say  string
		args []string
	}{
		{"neither", daemon.ExitUsage, "either --fleet or --ring", []string{"init"}},
		{"both", daemon.ExitUsage, "either --fleet or --ring", []string{"init", "--fleet", p.code(), "--ring", "x"}},
		{"no code", daemon.ExitFailed, "unusable code", []string{"init", "--fleet", "hello"}},
		{"another fleet", daemon.ExitFailed, "belongs to fleet demo", []string{"init", "--fleet", other.code()}},
		{"no such file", daemon.ExitFailed, "no such file", []string{"init", "--ring", filepath.Join(t.TempDir(), "missing")}},
		{"another fleet's ring", daemon.ExitFailed, "unusable ring", []string{"init", "--ring", other.admit(field(t, theirs, "request"))}},
		{"unknown flag", daemon.ExitUsage, "unknown flag: --fleat, did you mean --fleet?", []string{"init", "--fleat", "x"}},
		{"unknown command", daemon.ExitUsage, "did you mean hostler-coordinator init?", []string{"inti"}},
		{"help of an unknown command", daemon.ExitUsage, `has no command "inti"`, []string{"help", "inti"}},
		{"help of too much", daemon.ExitUsage, `init has no command "x"`, []string{"help", "init", "x"}},
		{"too much", daemon.ExitUsage, "init takes no arguments", []string{"init", "x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, talk := p.do(c.want, c.args...); !strings.Contains(talk, c.say) {
				t.Errorf("it says %q, want something about %q", talk, c.say)
			}
		})
	}
	// A ring of the right fleet that lets somebody else in.
	stranger := newProgram(t, 1)
	req, _ := stranger.do(0, "init", "--fleet", p.code())
	if _, talk := p.do(daemon.ExitFailed, "init", "--ring", p.admit(field(t, req, "request"))); !strings.Contains(talk, "does not have this coordinator") {
		t.Errorf("it says %q", talk)
	}
}

func TestConfig(t *testing.T) {
	p := newProgram(t, 1)
	other, holes, whole := filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "holes"), filepath.Join(t.TempDir(), "whole")
	p.write(other, "version = 1\nking = \"x\"\n")
	p.write(holes, "version = 1\n[[rule]]\nkinds = [\"container.destroy\"]\napprovals = 1\n")
	open := filepath.Join(t.TempDir(), "open")
	p.write(open, "version = 1\n[[rule]]\nkinds = [\"*\"]\napprovals = 1\n")
	if err := os.Chmod(filepath.Dir(open), 0o777); err != nil {
		t.Fatal(err)
	}
	p.write(whole, "version = 1\n[[rule]]\nkinds = [\"*\"]\napprovals = 1\n")
	for _, c := range []struct{ name, text, say string }{
		{"unknown setting", "state_dri = \"/x\"\n", "state_dir"},
		{"relative", "state_dir = \"x\"\n", "absolute"},
		{"listen", "[http]\nlisten = \"8443\"\n", "host:port"},
		{"addresses", "[mqtt]\naddresses = [\"edge\"]\n", "mqtt.addresses"},
		{"long", "state_dir = \"" + strings.Repeat("many words ", 300) + "\"\n", "(3302 characters)"},
		{"long name", strings.Repeat("x", 3000) + " = 1\n", "(3"},
		{"no policy", "[policy]\nfile = \"/nowhere/policy.toml\"\n", "policy.file"},
		{"policy that is none", "[policy]\nhosts_file = \"" + other + "\"\n", "policy.hosts_file"},
		{"policy of others", "[policy]\nfile = \"" + open + "\"\n", "may be written by others"},
		{"database of another kind", "[metrics.influx]\nurl = \"ftp://db.example\"\n", "metrics.influx.url"},
		{"no room for samples", "[metrics.influx]\nspool_mib = 0\n", "metrics.influx.spool_mib = 0"},
		{"policy with holes", "[policy]\nfile = \"" + holes + "\"\n", "allow_bypass = true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.write(p.config, c.text)
			if _, talk := p.do(daemon.ExitFailed, "config", "check"); !strings.Contains(talk, c.say) {
				t.Errorf("it says %q, want something about %q", talk, c.say)
			}
		})
	}
	p.write(p.config, "state_dir = \"/srv/a\"\n[policy]\nfile = \""+whole+"\"\nfour_eyes = true\n")
	more := strings.TrimSuffix(p.config, ".toml") + ".d"
	if err := os.Mkdir(more, 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(more, "20.toml"), "[http]\nlisten = \"127.0.0.1:2\"\n")
	c, from, err := load(p.config, []string{"HOSTLER_MQTT_LISTEN=127.0.0.1:3", "HOSTLER_HTTP_ADDRESSES=a:1,b:2"})
	if err != nil {
		t.Fatal(err)
	}
	if c.StateDir != "/srv/a" || c.HTTP.Listen != "127.0.0.1:2" || c.MQTT.Listen != "127.0.0.1:3" || len(c.HTTP.Addresses) != 2 {
		t.Errorf("%+v", c)
	}
	if c.own == nil || c.hosts != nil || !c.Policy.FourEyes {
		t.Errorf("policies: own %v, hosts' %v, four eyes %v", c.own, c.hosts, c.Policy.FourEyes)
	}
	if from["http.listen"] != filepath.Join(more, "20.toml") || from["mqtt.listen"] != "$HOSTLER_MQTT_LISTEN" {
		t.Errorf("origins %v", from)
	}
}

func TestCertificateFollowsAddresses(t *testing.T) {
	p := newProgram(t, 1)
	p.do(0, "init", "--fleet", p.code())
	ca, err := certs.LoadAuthority(p.state.authority())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	issue := func(now time.Time, addresses ...string) []byte {
		t.Helper()
		_, der, err := p.state.certificate(ca, addresses, now)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	first := issue(now, "127.0.0.1:8443", "edge.example:8883")
	if !bytes.Equal(first, issue(now, "127.0.0.1:8443")) {
		t.Error("a certificate that serves is made anew")
	}
	if bytes.Equal(first, issue(now, "127.0.0.1:8443", "other.example:8443")) {
		t.Error("a new address is not in the certificate")
	}
	renewed := issue(now.Add(80*24*time.Hour), "127.0.0.1:8443")
	leaf, err := x509.ParseCertificate(renewed)
	if err != nil {
		t.Fatal(err)
	}
	if leaf.NotBefore.Before(now.Add(24 * time.Hour)) {
		t.Error("an aging certificate is not renewed")
	}
	early := issue(now.Add(-20*24*time.Hour), "127.0.0.1:8443")
	if bytes.Equal(early, renewed) {
		t.Error("a certificate of the future, made by a wrong clock, stays")
	}
	if err := os.Remove(p.state.tlsKey()); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(early, issue(now.Add(-20*24*time.Hour), "127.0.0.1:8443")) {
		t.Error("the certificate of a key that is gone stays")
	}
}

// TestCertificateIsThereLast ends between the two files.
func TestCertificateIsThereLast(t *testing.T) {
	p := newProgram(t, 1)
	p.do(0, "init", "--fleet", p.code())
	ca, err := certs.LoadAuthority(p.state.authority())
	if err != nil {
		t.Fatal(err)
	}
	for range 8 { // once were enough, if the order were not left to chance
		if err := os.Mkdir(p.state.tlsCert(), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.state.certificate(ca, nil, time.Now()); err == nil {
			t.Fatal("a directory was replaced by a certificate")
		}
		if err := errors.Join(os.Remove(p.state.tlsCert()), os.Remove(p.state.caFile())); err != nil {
			t.Fatalf("the certificate of the authority was not written first: %v", err)
		}
	}
}
