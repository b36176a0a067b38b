//go:build integration

package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// mailServer is an Exim with a spool of its own, that runs when it is told to.
type mailServer struct {
	address, dir string
	cert         string // by itself
	process      *process
}

// mailPassword is that of the user ops of a mailServer.
const mailPassword = "a word"

func (m *mailServer) conf() string { return filepath.Join(m.dir, "conf") }

// newMailServer writes down how Exim is to work: it takes mail over TLS alone, of who has logged
// in, and puts that for each recipient into a file.
func newMailServer(t testing.TB, w *world) *mailServer {
	t.Helper()
	m := &mailServer{address: freeAddress(t), dir: w.path("mail")}
	m.cert = filepath.Join(m.dir, "cert.pem")
	key := filepath.Join(m.dir, "key.pem")
	mkdir(t, m.dir)
	if out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", m.cert,
		"-days", "30", "-subj", "/CN=mail", "-addext", "subjectAltName=IP:127.0.0.1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write(t, m.conf(), fmt.Sprintf(`keep_environment =
spool_directory = %[1]s/spool
log_file_path = %[1]s/log-%%s
primary_hostname = mail.example.org
tls_advertise_hosts = *
tls_certificate = %[1]s/cert.pem
tls_privatekey = %[1]s/key.pem
auth_advertise_hosts = ${if eq{$tls_in_cipher}{}{}{*}}
acl_smtp_rcpt = rcpt
begin acl
rcpt:
  accept authenticated = *
  deny message = log in first
begin routers
box:
  driver = accept
  transport = box
begin transports
box:
  driver = appendfile
  directory = %[1]s/box
  maildir_format
  envelope_to_add
  user = Debian-exim
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_condition = ${if and{{eq{$auth2}{ops}}{eq{$auth3}{%[2]s}}}}
`, m.dir, mailPassword))
	exim, err := user.Lookup("Debian-exim")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(exim.Uid)
	gid, _ := strconv.Atoi(exim.Gid)
	// Exim makes the other files, and takes a configuration of root alone.
	if err := errors.Join(os.Chown(m.dir, uid, gid), os.Chown(key, uid, gid), os.Chmod(m.conf(), 0o644)); err != nil {
		t.Fatal(err)
	}
	return m
}

// start runs the server until the end of the world.
func (m *mailServer) start(t testing.TB, w *world) {
	t.Helper()
	m.process = w.spawn(t, "exim", w.env(), "exim4", "-bdf", "-oX", strings.Replace(m.address, ":", ".", 1), "-C", m.conf())
}

// mails are what the server has delivered.
func (m *mailServer) mails(t testing.TB) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.dir, "box/new/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, read(t, f))
	}
	return all
}

// TestMail has the coordinator send an alert by mail through a real server, which is away at
// first, as is the coordinator after a kill: in the end each recipient has it once, and the
// delivery is in the audit log.
func TestMail(t *testing.T) {
	t.Parallel()
	var server *mailServer
	w := newWorld(t, func(w *world) {
		server = newMailServer(t, w)
		w.served = append(w.served, "SSL_CERT_FILE="+server.cert) // the authorities of the system
	})
	write(t, w.path("mail.secret"), mailPassword+"\n")
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+fmt.Sprintf(`
[notify]
mail_server = %q
mail_from = "hostler@example.org"
mail_to = ["ann@example.org", "bob@example.org"]
mail_user = "ops"
mail_password_file = %q
wait_seconds = 1
`, server.address, w.path("mail.secret")))
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	w.addHost(t, "edge-01", false)
	from := w.events.mark()
	w.must(t, "alert", "rule", "set", "tasks", "tasks=1/15s:critical", "-A")
	w.event(t, from, "the alert is raised", func(e api.Event) bool { return e.Type == "alert.raised" })
	w.coordinator.says(t, w.coordinator.talk, "a notification was not delivered")
	w.coordinator.end(t, kill)
	server.start(t, w)
	w.startCoordinator(t)

	for deadline := time.Now().Add(patience); len(server.mails(t)) < 2; elapse(t, 200*time.Millisecond) {
		if server.process.ended() || time.Now().After(deadline) {
			t.Fatal("no mail came")
		}
	}
	mails := strings.Join(server.mails(t), "\n")
	for text, times := range map[string]int{
		"Envelope-to: ann@example.org": 1, "Envelope-to: bob@example.org": 1, "To: ann@example.org, bob@example.org": 2,
		"esmtpsa  (TLS": 2, "Subject: lab: 1 raised (1 critical)": 2, "critical edge-01: processes is ": 2, "(measured.tasks.critical//)": 2,
	} {
		if n := strings.Count(mails, text); n != times {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, n, times, mails)
		}
	}
	if got := w.must(t, "audit", "ls", "--verb", "alert.notified", "-o", "csv", "--no-headers"); strings.Count(got, "alert.notified") != 1 {
		t.Errorf("of the delivery the audit log has %q", got)
	}
}
