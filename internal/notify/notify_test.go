package notify_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/notify"
)

func sample() notify.Notification {
	return notify.Notification{ID: "lab-7", Fleet: "lab", Group: "home", Left: 3, Cleared: []notify.Alert{{Host: "edge-08", ID: "b", Severity: "warning", Text: "fine again"}},
		Raised: []notify.Alert{{Host: "edge-07", ID: "measured.disk.critical//", Severity: "critical", Text: "disk / is 99%\nBcc: x@example.org", At: time.Unix(1, 0).UTC()}}}
}

// TestWebhook: a receiver can check who sent a body, sees the same id each time, and its
// refusal is an error; a template makes other bodies.
func TestWebhook(t *testing.T) {
	status := http.StatusOK
	var body []byte
	var header http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header = r.Header
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("why"))
	}))
	defer srv.Close()
	hook, err := notify.NewWebhook("webhook-1", srv.URL, []byte("secret"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write(body)
	if got, want := header.Get(notify.SignatureHeader), "sha256="+hex.EncodeToString(mac.Sum(nil)); got != want || header.Get("Hostler-Notification") != "lab-7" {
		t.Errorf("signature %s, want %s; %v", got, want, header)
	}
	var got notify.Notification
	if err := json.Unmarshal(body, &got); err != nil || got.Raised[0].Host != "edge-07" || got.Left != 3 {
		t.Errorf("%s: %v", body, err)
	}
	for _, status = range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusFound} {
		if err := hook.Send(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), "why") {
			t.Errorf("status %d: %v", status, err)
		}
	}
	status = http.StatusNoContent
	chat, err := notify.NewWebhook("webhook-2", srv.URL, nil, `{"text":{{json .Subject}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := chat.Send(t.Context(), sample()); err != nil || string(body) != `{"text":"lab home: 1 raised (1 critical), 1 cleared, 3 more"}` || header.Get(notify.SignatureHeader) != "" {
		t.Errorf("%s, %v", body, err)
	}
	for _, bad := range []string{"", "ftp://x", "example.org", "https://"} {
		if _, err := notify.NewWebhook("w", bad, nil, ""); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
	if _, err := notify.NewWebhook("w", srv.URL, nil, "{{.Nothing"); err == nil {
		t.Error("a broken template is taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := hook.Send(ctx, sample()); err == nil {
		t.Error("sent after the end")
	}
}

// TestCommand: it gets the notification on its standard input and nothing of our
// environment, and its failure says why.
func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("SECRET", "x")
	c, err := notify.NewCommand("command", []string{"/bin/sh", "-c", `cat >"$1"; env >>"$1"`, "sh", out})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil || !strings.HasPrefix(string(b), `{"id":"lab-7"`) || !strings.Contains(string(b), "HOSTLER_NOTIFICATION=lab-7") || strings.Contains(string(b), "SECRET") {
		t.Errorf("%s, %v", b, err)
	}
	fails, _ := notify.NewCommand("command", []string{"/bin/sh", "-c", "echo no line >&2; exit 3"})
	if err := fails.Send(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), "no line") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	hangs, _ := notify.NewCommand("command", []string{"/bin/sleep", "60"})
	if err := hangs.Send(ctx, sample()); err == nil {
		t.Error("a command that hangs has taken it")
	}
	for _, bad := range [][]string{nil, {"sh"}, {""}} {
		if _, err := notify.NewCommand("c", bad); err == nil {
			t.Errorf("%q is a command", bad)
		}
	}
}

// TestMail: each mailbox is named to the server, the mail says what is wrong in UTF-8, its id
// is that of the notification, and a server without TLS gets it only where that is asked for.
func TestMail(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	talks := make(chan string, 4)
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			talks <- serveMail(conn)
		}
	}()
	m := notify.Mail{Label: "mail", Server: l.Addr().String(), From: "hostler@example.org", To: []string{"ann@example.org", "bob@example.org"}}
	secure, err := notify.NewMail(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := secure.Send(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), "no TLS") {
		t.Errorf("without TLS: %v", err)
	}
	if talk := <-talks; strings.Contains(talk, "disk / is") || strings.Contains(talk, "RCPT") {
		t.Errorf("without TLS it was told: %s", talk)
	}
	m.Plain = true
	plain, err := notify.NewMail(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	talk := <-talks
	for _, want := range []string{
		"MAIL FROM:<hostler@example.org>", "RCPT TO:<ann@example.org>", "RCPT TO:<bob@example.org>", "Message-ID: <lab-7@example.org>",
		"Subject: lab home: 1 raised (1 critical), 1 cleared, 3 more\r\n", "\r\n\r\ncritical edge-07: disk / is 99% Bcc: x@example.org", "cleared warning edge-08: fine again (b)",
	} {
		if !strings.Contains(talk, want) {
			t.Errorf("the talk has no %q: %s", want, talk)
		}
	}
}

// serveMail takes one mail and returns what was said.
func serveMail(conn net.Conn) string {
	defer conn.Close()
	var said strings.Builder
	r := bufio.NewReader(conn)
	answer := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	answer("220 here")
	for data := false; ; {
		line, err := r.ReadString('\n')
		said.WriteString(line)
		switch word, _, _ := strings.Cut(strings.TrimSpace(line), " "); {
		case err != nil:
			return said.String()
		case data && line == ".\r\n":
			data = false
			answer("250 taken")
		case data:
		case word == "EHLO":
			answer("250-here\r\n250 8BITMIME")
		case word == "DATA":
			data = true
			answer("354 go on")
		case word == "QUIT":
			answer("221 bye")
			return said.String()
		default:
			answer("250 ok")
		}
	}
}

func TestMailIsChecked(t *testing.T) {
	good := notify.Mail{Server: "mail.example.org:25", From: "hostler@example.org", To: []string{"ann@example.org"}}
	if _, err := notify.NewMail(good); err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func(*notify.Mail){
		"no port": func(m *notify.Mail) { m.Server = "mail" }, "nobody": func(m *notify.Mail) { m.To = nil },
		"no sender": func(m *notify.Mail) { m.From = "" }, "two lines": func(m *notify.Mail) { m.To = []string{"a@b.org\r\nBcc: c@d.org"} },
	} {
		bad := good
		edit(&bad)
		if _, err := notify.NewMail(bad); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}
