//go:build integration

package integration

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// siege is a fleet under attack by somebody who has stolen the coordinator's
// certificate, and so may publish whatever the broker lets a coordinator say.
type siege struct {
	*world
	edge, other, idle *host
	eyes              *process // a viewer that writes everything down
	witness           string
	order             string // an honest order of edge, which wrote a line to the witness
}

func newSiege(t *testing.T) *siege {
	t.Helper()
	w := newWorld(t)
	s := &siege{world: w, witness: w.path("witness")}
	s.eyes = w.record(t, w.viewer(t, "eyes"), w.everything())
	s.edge, s.other, s.idle = w.addHost(t, "edge-01", false), w.addHost(t, "edge-02", false), w.addHost(t, "edge-03", false)
	w.must(t, "run", "edge-03", "--", "true")
	s.idle.agent.end(t, kill) // its keys serve the attacker
	w.must(t, "run", "edge-01", "--", "sh", "-c", `echo honest >>"$0"`, s.witness)
	s.order = capture(t, s.eyes, w.topic("edge-01", "order"), 0)
	return s
}

// unchanged checks that nothing of what was sent has had an effect.
func (s *siege) unchanged(t testing.TB) {
	t.Helper()
	if got := read(t, s.witness); got != "honest\n" {
		t.Errorf("orders of the attacker have run: %q", got)
	}
}

// refused publishes something and waits until it was counted under one of the
// codes, wherever count looks. Honest orders go through meanwhile, and each
// shows that what came before it was judged.
func (s *siege) refused(t testing.TB, l login, topic string, payload []byte, count func() string, codes ...string) {
	t.Helper()
	total := func() (n float64) {
		exposition := count()
		for _, c := range codes {
			n += metric(t, exposition, `hostler_\w+_messages_refused_total`, `code="`+c+`"`)
		}
		return n
	}
	before := total()
	s.send(t, l, topic, payload)
	for range 20 {
		s.must(t, "run", "edge-01", "--", "true")
		if total() > before {
			return
		}
	}
	t.Errorf("it was not counted as %v", codes)
}

// send publishes with whatever client id the certificate allows.
func (s *siege) send(t testing.TB, l login, topic string, payload []byte) {
	t.Helper()
	args := []string{"-q", "0", "-t", topic}
	if host := hostOf(t, l); host != "" {
		args = append(args, "-i", host)
	}
	if len(payload) == 0 {
		s.mosquitto(t, l, "mosquitto_pub", append(args, "-n")...).finish(t).exits(t, 0)
		return
	}
	f := s.path("payload")
	write(t, f, string(payload))
	s.mosquitto(t, l, "mosquitto_pub", append(args, "-f", f)...).finish(t).exits(t, 0)
}

// hostOf is the host that a certificate is of, empty for another's.
func hostOf(t testing.TB, l login) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(l.cert, l.key)
	if err != nil {
		t.Fatal(err)
	}
	name, err := certs.RoleOf(pair.Leaf)
	if err != nil {
		t.Fatal(err)
	}
	if name.Kind != san.Host {
		return ""
	}
	return name.ID
}

func (s *siege) identity(t testing.TB, h *host) *certs.Identity {
	t.Helper()
	id, err := certs.LoadIdentity(h.path("identity.pgp"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// body is the header of an honest message, changed, as the body of another.
func body(t testing.TB, h protocol.Header, change func(*protocol.Header)) string {
	t.Helper()
	change(&h)
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestHostile sends what no honest coordinator, host or viewer sends.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	t.Run("all that was said so far can be verified", func(t *testing.T) {
		file := s.path("capture-honest")
		write(t, file, strings.Join(s.eyes.out.lines(), "\n")+"\n")
		s.cli(t, "verify", file, "-o", "json").exits(t, 0)
	})
	t.Run("a host refuses false orders", func(t *testing.T) { falseOrders(t, s) })
	t.Run("a coordinator refuses false words of hosts", func(t *testing.T) { falseReports(t, s) })
	t.Run("a replayed order runs no second time", func(t *testing.T) {
		for range 3 {
			s.send(t, s.stolenCoordinator(), s.topic("edge-01", "order"), []byte(s.order))
		}
		s.must(t, "run", "edge-01", "--", "true")
		s.unchanged(t)
		s.edge.restart(t, kill)
		s.refused(t, s.stolenCoordinator(), s.topic("edge-01", "order"), []byte(s.order), s.edgeMetrics(t), "heard", "stale")
		s.unchanged(t)
	})
	t.Run("a flood is one line a second", func(t *testing.T) { flood(t, s) })
	t.Run("what the broker lets nobody do", func(t *testing.T) { brokerRights(t, s) })
	t.Run("what is far too large", func(t *testing.T) { tooLarge(t, s) })
	t.Run("requests that are none", func(t *testing.T) { badRequests(t, s) })
	t.Run("anybody can check", func(t *testing.T) { anybodyChecks(t, s) })
	t.Run("a host that was revoked is cut off", func(t *testing.T) { revoked(t, s) })
	s.unchanged(t)
}

func (s *siege) edgeMetrics(t testing.TB) func() string {
	return func() string { t.Helper(); return s.edge.get(t, "/metrics") }
}

// falseOrders takes an honest order apart in every way that a check is for.
func falseOrders(t *testing.T, s *siege) {
	honest, key := open(t, s.order), s.coordinatorKey(t)
	s.must(t, "run", "edge-02", "--", "true")
	h := honest.h
	raw, sig := string(honest.env.Body), honest.env.Sig
	sealed := func(b string) []byte { return seal(t, key, b) }
	changed := func(change func(*protocol.Header)) []byte { return sealed(body(t, h, change)) }
	for _, tc := range []struct {
		name    string
		code    string
		payload []byte
	}{
		{"0 bytes", "grammar", nil},
		{"truncated", "grammar", []byte(s.order[:len(s.order)/2])},
		{"no envelope", "grammar", []byte(raw)},
		{"another order of members", "grammar", bytes.Replace([]byte(s.order), []byte(`{"v":1,`), []byte(`{"v": 1,`), 1)},
		{"no signature", "grammar", envelope(honest.env.Key, nil, raw)},
		{"too large", "size", append([]byte(s.order), bytes.Repeat([]byte(" "), 40<<10)...)},
		{"a stranger's key", "unknown_key", seal(t, stranger(t), raw)},
		{"the key of a host", "unknown_key", seal(t, s.identity(t, s.edge), raw)},
		{"two signatures", "signature_form", envelope(honest.env.Key, append(bytes.Clone(sig), sig...), raw)},
		{"a text signature", "signature_form", s.textSigned(t, raw)},
		{"a changed byte", "signature", bytes.Replace([]byte(s.order), []byte(`"ring":`), []byte(`"rinG":`), 1)},
		{"the signature of another body", "signature", envelope(honest.env.Key, sig, body(t, h, func(h *protocol.Header) { h.N++ }))},
		{"deep", "json", sealed(strings.TrimSuffix(raw, "}") + `,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}")},
		{"a member twice", "json", sealed(strings.TrimSuffix(raw, "}") + `,"n":1}`)},
		{"a member in another case", "json", sealed(strings.TrimSuffix(raw, "}") + `,"N":1}`)},
		{"bad UTF-8", "json", sealed(strings.TrimSuffix(raw, "}") + ",\"x\":\"\xff\"}")},
		{"NUL", "json", sealed(strings.TrimSuffix(raw, "}") + ",\"x\":\"\\u0000\"}")},
		{"null", "json", sealed(strings.TrimSuffix(raw, "}") + `,"x":null}`)},
		{"half a number", "json", sealed(strings.TrimSuffix(raw, "}") + `,"x":1.5}`)},
		{"misaddressed", "to", []byte(capture(t, s.eyes, s.topic("edge-02", "order"), 0))},
		{"another fleet", "fleet", changed(func(h *protocol.Header) { h.Fleet[0] ^= 1 })},
		{"in another's name", "from", changed(func(h *protocol.Header) { h.From = protocol.HostParty("edge-02") })},
		{"another type", "type", changed(func(h *protocol.Header) { h.Type = protocol.TypeControl })},
		{"another class", "header", []byte(capture(t, s.eyes, s.topic("edge-01", "receipt"), 0))},
		{"bytes behind it", "attachment", []byte(s.order + "\nrm -rf /")},
		{"an answer to nothing", "heard", changed(func(h *protocol.Header) { h.Heard.K += 100000 })},
		{"an older term", "term", changed(func(h *protocol.Header) { h.Term.Ring-- })},
		{"another store", "store", changed(func(h *protocol.Header) { h.Store[0] ^= 1; h.N++ })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.refused(t, s.stolenCoordinator(), s.topic("edge-01", "order"), tc.payload, s.edgeMetrics(t), tc.code)
		})
	}
	s.unchanged(t)
}

// textSigned lets stock gpg sign as text what has to be signed as bytes.
func (s *siege) textSigned(t testing.TB, body string) []byte {
	t.Helper()
	home := s.path("gnupg-thief")
	mkdir(t, home)
	file := s.path("body-to-sign")
	write(t, file, body)
	gpg := []string{"gpg", "--homedir", home, "--batch", "--quiet"}
	s.tool(t, append(gpg, "--import", s.path("coordinator/identity.pgp"))...)
	s.tool(t, append(gpg, "--textmode", "--digest-algo", "SHA256", "--output", file+".sig", "--detach-sign", file)...)
	return envelope(s.coordinatorKey(t).Key(), []byte(read(t, file+".sig")), body)
}

// falseReports speaks as a host, with the keys of one that is away.
func falseReports(t *testing.T, s *siege) {
	tlsOf := s.tlsOf(t, "edge-03")
	heartbeat := capture(t, s.eyes, s.topic("edge-03", "heartbeat"), 0)
	report := capture(t, s.eyes, s.topic("edge-03", "report"), 0)
	honest := open(t, report)
	raw := string(honest.env.Body)
	for _, tc := range []struct {
		name, channel, code string
		payload             []byte
	}{
		{"0 bytes", "report", "grammar", nil},
		{"a stranger's key", "report", "unknown_key", seal(t, stranger(t), raw)},
		{"the key of a neighbour", "report", "wrong_host", []byte(capture(t, s.eyes, s.topic("edge-01", "report"), 0))},
		{"the coordinator's key", "report", "role", seal(t, s.coordinatorKey(t), raw)},
		{"a changed byte", "report", "signature", bytes.Replace([]byte(report), []byte(`"ring":`), []byte(`"rinG":`), 1)},
		{"a member twice", "report", "json", seal(t, s.identity(t, s.idle), strings.TrimSuffix(raw, "}")+`,"n":1}`)},
		{"an old challenge", "heartbeat", "challenge", bytes.Clone([]byte(heartbeat))},
		{"another type", "lease", "type", []byte(heartbeat)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.code == "challenge" {
				// The challenge of a connection ends with the term.
				s.coordinator.end(t, kill)
				from := s.events.mark()
				s.startCoordinator(t)
				s.edge.online(t, from)
				s.eyes = s.record(t, s.viewer(t, "eyes-again"), s.everything())
			}
			s.refused(t, tlsOf, s.topic("edge-03", tc.channel), tc.payload, func() string { return s.metrics(t) }, tc.code)
		})
	}
}

// flood sends many false orders at once: they are counted, and logged as one
// line a second.
func flood(t *testing.T, s *siege) {
	const many = 300
	line := strings.Replace(s.order, `"ring":`, `"rinG":`, 1) + "\n"
	file := s.path("flood")
	write(t, file, strings.Repeat(line, many))
	input, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	count := func() float64 {
		return metric(t, s.edge.get(t, "/metrics"), "hostler_agent_messages_refused_total", `code="signature"`)
	}
	lines := func() int { return strings.Count(s.edge.agent.talk.String(), "a message was refused") }
	before, logged, begin := count(), lines(), time.Now()
	l := s.stolenCoordinator()
	host, port, _ := net.SplitHostPort(s.mqtt)
	cmd := exec.CommandContext(t.Context(), "mosquitto_pub", "--cafile", l.ca, "--cert", l.cert, "--key", l.key, "-h", host, "-p", port, "-q", "1", "-l", "-t", s.topic("edge-01", "order"))
	cmd.Stdin = input
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub: %v: %s", err, out)
	}
	for range 3 {
		s.must(t, "run", "edge-01", "--", "true")
	}
	// What comes faster than it is read, the broker may leave out: for who looks on, too,
	// until he has caught up.
	for seen := len(captured(s.eyes, s.topic("edge-02", "report"))); len(captured(s.eyes, s.topic("edge-02", "report"))) == seen; {
		s.must(t, "run", "edge-02", "--", "true")
	}
	if n := count() - before; n < many/10 || n > many {
		t.Errorf("%v of %d were counted", n, many)
	}
	if n, most := lines()-logged, int(time.Since(begin).Seconds())+1; n > most {
		t.Errorf("%d lines were logged, want %d at most", n, most)
	}
}

// brokerRights: a viewer says nothing, and a host neither reads nor speaks for
// its neighbour.
func brokerRights(t *testing.T, s *siege) {
	seen := len(captured(s.eyes, s.topic("edge-02", "order")))
	for _, l := range []login{s.viewer(t, "mouth"), s.tlsOf(t, "edge-03")} {
		args := []string{"-q", "1", "-t", s.topic("edge-02", "order"), "-m", "forbidden"}
		if host := hostOf(t, l); host != "" {
			args = append(args, "-i", host)
		}
		// Whether it learns of it depends on the version of MQTT.
		s.mosquitto(t, l, "mosquitto_pub", args...).finish(t)
	}
	neighbour := s.mosquitto(t, s.tlsOf(t, "edge-03"), "mosquitto_sub", "-i", "edge-03", "-F", "%t %p",
		"-t", "hostler/v1/"+s.fleet+"/fleet/#", "-t", s.topic("edge-02", "order"), "-t", s.topic("edge-02", "presence"), "-t", s.topic("edge-03", "order"))
	neighbour.says(t, neighbour.out, "/fleet/coordinator ")
	s.must(t, "run", "edge-02", "--", "true")
	capture(t, s.eyes, s.topic("edge-02", "order"), seen)
	// The order is sent again if a busy host does not say soon that it has it.
	orders := make(map[uint64]int)
	for _, raw := range captured(s.eyes, s.topic("edge-02", "order"))[seen:] {
		orders[open(t, raw).h.N]++
	}
	if len(orders) != 1 || strings.Contains(s.eyes.out.String(), "forbidden") {
		t.Errorf("on the topic of its orders came %v by number, want one", orders)
	}
	neighbour.end(t, kill)
	if strings.Contains(neighbour.out.String(), "/host/edge-02/") {
		t.Errorf("a host reads its neighbour: %s", neighbour.out.tail())
	}
	l := s.viewer(t, "brief")
	brief := s.record(t, l, s.everything())
	s.must(t, "viewer", "revoke", "brief", "--yes")
	if code := brief.code(t); code == 0 {
		t.Error("a viewer that was revoked ended as if nothing had happened")
	}
	if r := s.mosquitto(t, l, "mosquitto_sub", "-t", s.everything(), "-C", "1").finish(t); r.code == 0 {
		t.Error("a viewer that was revoked reads again")
	}
	stranger, err := certs.NewAuthority("lab")
	if err != nil {
		t.Fatal(err)
	}
	l = s.certificate(t, stranger, san.Name{Kind: san.Coordinator})
	if r := s.mosquitto(t, l, "mosquitto_pub", "-q", "1", "-t", s.topic("edge-01", "order"), "-m", "x").finish(t); r.code == 0 {
		t.Error("the broker takes a certificate of another authority")
	}
}

// tooLarge declares 256 MiB and sends next to nothing of it.
func tooLarge(t *testing.T, s *siege) {
	for _, path := range []string{"/v1/actions", "/enrol/v1/begin"} {
		conn := s.dial(t, s.http, nil)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: coordinator\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", path, s.token, 256<<20)
		answer, err := io.ReadAll(conn) // the coordinator ends the connection
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 413 ")) || !bytes.Contains(answer, []byte(`"too_large"`)) {
			t.Errorf("%s: %v: %.300q", path, err, answer)
		}
	}
	l := s.viewer(t, "giant")
	pair, err := tls.LoadX509KeyPair(l.cert, l.key)
	if err != nil {
		t.Fatal(err)
	}
	conn := s.dial(t, s.mqtt, &pair)
	connect := []byte("\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04giga")
	publish := []byte("\x30\xff\xff\xff\x7f\x00\x03a/bxxxx") // 268,435,455 bytes follow, it says
	if _, err := conn.Write(append(connect, publish...)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if len(answer) < 4 || answer[0] != 0x20 || answer[3] != 0 {
		t.Errorf("the broker answered %q, %v", answer, err)
	}
	if err != nil && os.IsTimeout(err) {
		t.Error("the broker waits for 256 MiB")
	}
}

// dial opens a TLS connection to the coordinator.
func (s *siege) dial(t testing.TB, address string, pair *tls.Certificate) *tls.Conn {
	t.Helper()
	config := &tls.Config{RootCAs: s.roots(t), MinVersion: tls.VersionTLS13}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// badRequests asks the API for what cannot be, and none of it becomes an action.
func badRequests(t *testing.T, s *siege) {
	before := s.must(t, "action", "ls", "--limit", "0", "-o", "name")
	spec := func(json string) string {
		return fmt.Sprintf(`{"host":"edge-01","spec":"%s"}`, base64.StdEncoding.EncodeToString([]byte(json)))
	}
	for name, request := range map[string]string{
		"0 bytes":          "",
		"no JSON":          "<html>",
		"truncated":        `{"host":"edge-`,
		"an unknown kind":  spec(`{"kind":"host.dance"}`),
		"no argv":          spec(`{"kind":"host.run"}`),
		"NUL in argv":      spec(`{"kind":"host.run","argv":["a\u0000b"]}`),
		"bad UTF-8":        spec("{\"kind\":\"host.run\",\"argv\":[\"\xff\"]}"),
		"a member twice":   spec(`{"kind":"host.run","argv":["true"],"argv":["false"]}`),
		"another case":     spec(`{"kind":"host.run","argv":["true"],"Argv":["false"]}`),
		"an unknown one":   spec(`{"kind":"host.run","argv":["true"],"more":1}`),
		"deep":             spec(strings.Repeat(`{"kind":`, 100) + "1" + strings.Repeat("}", 100)),
		"a path as a name": spec(`{"kind":"container.create","target":"01890a5d-ac96-774b-bcce-b302099a8057","name":"../x","template":"busybox"}`),
		"a path as a form": spec(`{"kind":"container.create","target":"01890a5d-ac96-774b-bcce-b302099a8057","name":"x","template":"../../bin/sh"}`),
		"a path as a host": strings.Replace(spec(`{"kind":"host.ping"}`), "edge-01", "../edge-01", 1),
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := s.ask(t, http.MethodPost, "/v1/actions", request)
			if status/100 != 4 {
				t.Errorf("got %d %s", status, answer)
			}
			var p struct{ Code, Detail string }
			if err := json.Unmarshal([]byte(answer), &p); err != nil || p.Code == "" || p.Detail == "" {
				t.Errorf("no problem is named: %v: %s", err, answer)
			}
		})
	}
	if after := s.must(t, "action", "ls", "--limit", "0", "-o", "name"); after != before {
		t.Error("one of them has become an action")
	}
}

// anybodyChecks verifies a captured message by the program and by stock gpg, as
// doc/protocol.md says.
func anybodyChecks(t *testing.T, s *siege) {
	for _, topic := range []string{
		s.topic("edge-01", "presence"), s.topic("edge-01", "heartbeat"), s.topic("edge-01", "report"), s.topic("edge-01", "ack"),
		s.topic("edge-01", "order"), s.topic("edge-01", "receipt"), "hostler/v1/" + s.fleet + "/fleet/ring", "hostler/v1/" + s.fleet + "/fleet/coordinator",
	} {
		capture(t, s.eyes, topic, 0)
	}
	file := s.path("message")
	write(t, file, s.order)
	s.cli(t, "verify", file).exits(t, 0)
	seen := s.path("capture")
	write(t, seen, fmt.Sprintf("%s %s\n", s.topic("edge-01", "order"), s.order))
	s.cli(t, "verify", seen).exits(t, 0)
	write(t, seen, fmt.Sprintf("%s %s\n", s.topic("edge-02", "order"), s.order))
	s.cli(t, "verify", seen).exits(t, 1)
	write(t, seen, strings.Replace(s.order, `"ring":`, `"rinG":`, 1))
	s.cli(t, "verify", seen).exits(t, 1)

	mkdir(t, s.path("gnupg"))
	s.tool(t, "bash", "-c", "set -eo pipefail; hostler fleet ring show -o json | jq -er '.coordinators[0].key' | base64 -d | gpg --batch --import")
	script := s.path("verify.sh")
	write(t, script, documented(t, "gpg --verify"))
	if said := s.tool(t, "bash", "-e", script); !strings.Contains(said, "Good signature") {
		t.Errorf("gpg says %s", said)
	}
	write(t, file, strings.Replace(s.order, `"ring":`, `"rinG":`, 1))
	cmd := exec.CommandContext(t.Context(), "bash", "-e", script)
	cmd.Env, cmd.Dir = s.env(), s.dir
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("BAD signature")) {
		t.Errorf("of a forged message gpg says %v, %s", err, out)
	}
}

// documented is the block of shell commands in doc/protocol.md that holds a
// text.
func documented(t testing.TB, text string) string {
	t.Helper()
	doc := read(t, filepath.Join("..", "doc", "protocol.md"))
	for {
		_, rest, ok := strings.Cut(doc, "```sh\n")
		block, after, closed := strings.Cut(rest, "```")
		switch {
		case !ok || !closed:
			t.Fatalf("doc/protocol.md documents no %q", text)
		case strings.Contains(block, text):
			return block
		}
		doc = after
	}
}

// revoked: the connection ends at once, and there is no way back.
func revoked(t *testing.T, s *siege) {
	stolen := s.tlsOf(t, "edge-02")
	was := capture(t, s.eyes, s.topic("edge-02", "report"), 0)
	s.must(t, "host", "revoke", "edge-02", "--reason", "stolen", "--yes")
	s.other.agent.says(t, s.other.agent.talk, "broker connection failed")
	lost := len(s.other.agent.talk.String())
	until(t, &s.other.agent.talk.change, "the revoked agent tries again and is refused", func() bool {
		return strings.Contains(s.other.agent.talk.String()[lost:], "broker connection failed")
	})
	if r := s.mosquitto(t, stolen, "mosquitto_pub", "-i", "edge-02", "-q", "1", "-t", s.topic("edge-02", "lease"), "-m", "x").finish(t); r.code == 0 {
		t.Error("the broker takes its certificate still")
	}
	s.refused(t, s.tlsOf(t, "edge-03"), s.topic("edge-03", "report"), []byte(was), func() string { return s.metrics(t) }, "revoked_key")
	s.cli(t, "run", "edge-02", "--", "true").exits(t, 125, "revoked")
	s.cli(t, "host", "approve", "edge-02", "--yes").exits(t, 1)
	s.coordinator.end(t, kill)
	s.startCoordinator(t)
	if r := s.mosquitto(t, stolen, "mosquitto_pub", "-i", "edge-02", "-q", "1", "-t", s.topic("edge-02", "lease"), "-m", "x").finish(t); r.code == 0 {
		t.Error("after a restart the broker takes its certificate again")
	}
}
