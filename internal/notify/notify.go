// Package notify brings notifications to where people look: a webhook, a mailbox, a
// command. Each target tries once; its caller decides when to try again.
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/mail"
	"net/smtp"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// Alert is one alert within a notification.
type Alert struct {
	Host     string    `json:"host"`
	ID       string    `json:"id"`
	Severity string    `json:"severity"`
	Text     string    `json:"text"`
	At       time.Time `json:"at"` // when the coordinator heard of it
}

// Notification is what is sent, as its JSON and for templates.
type Notification struct {
	// ID is the same each time that it is sent: a receiver that has it already may
	// drop it.
	ID    string `json:"id"`
	Fleet string `json:"fleet"`
	// Group is the value of the label by which alerts are grouped; empty for none.
	Group string `json:"group,omitempty"`
	// Repeated tells that nothing is new: the alerts are still raised.
	Repeated bool    `json:"repeated,omitempty"`
	Raised   []Alert `json:"raised"`
	Cleared  []Alert `json:"cleared"`
	// Left is how many more were raised or cleared than are listed.
	Left int `json:"left,omitempty"`
}

// Subject is the notification in one line.
func (n Notification) Subject() string {
	critical := 0
	for _, a := range n.Raised {
		if a.Severity == "critical" {
			critical++
		}
	}
	var parts []string
	if len(n.Raised) > 0 {
		verb := "raised"
		if n.Repeated {
			verb = "still raised"
		}
		parts = append(parts, fmt.Sprintf("%d %s (%d critical)", len(n.Raised), verb, critical))
	}
	if len(n.Cleared) > 0 {
		parts = append(parts, fmt.Sprintf("%d cleared", len(n.Cleared)))
	}
	if n.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n.Left))
	}
	s := n.Fleet
	if n.Group != "" {
		s += " " + n.Group
	}
	return s + ": " + strings.Join(parts, ", ")
}

// Text is the notification for people: a line for each alert.
func (n Notification) Text() string {
	var b strings.Builder
	for _, part := range []struct {
		word string
		all  []Alert
	}{{"", n.Raised}, {"cleared ", n.Cleared}} {
		for _, a := range part.all {
			fmt.Fprintf(&b, "%s%s %s: %s (%s)\n", part.word, a.Severity, a.Host, strings.Join(strings.Fields(a.Text), " "), a.ID)
		}
	}
	if n.Left > 0 {
		fmt.Fprintf(&b, "and %d more: hostler alert ls\n", n.Left)
	}
	return b.String()
}

// Target brings notifications somewhere. It is safe for concurrent use.
type Target interface {
	Name() string
	// Send tries once, until ctx ends. An error means that it may or may not have
	// arrived.
	Send(ctx context.Context, n Notification) error
}

// maxAnswer is how much of an answer is read, and shown if it is a refusal.
const maxAnswer = 512

// Webhook posts a notification.
type Webhook struct {
	Label  string
	URL    string
	Secret []byte // of the signature; empty: it is not signed
	// Template makes the body from the notification; nil is its JSON.
	Template *template.Template
	Client   *http.Client
}

// SignatureHeader holds "sha256=" and the HMAC of the body in hexadecimal digits.
const SignatureHeader = "Hostler-Signature"

// NewWebhook checks where to post, and with what text.
func NewWebhook(name, address string, secret []byte, text string) (*Webhook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of a webhook: want https://…", address)
	}
	w := &Webhook{Label: name, URL: address, Secret: secret, Client: &http.Client{
		// A redirect would carry the body to where it was not configured to go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if text != "" {
		w.Template, err = template.New(name).Funcs(template.FuncMap{"json": quote}).Parse(text)
	}
	return w, err
}

// quote writes a value as JSON, for templates.
func quote(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// Name implements [Target].
func (w *Webhook) Name() string { return w.Label }

// Send implements [Target].
func (w *Webhook) Send(ctx context.Context, n Notification) error {
	var body bytes.Buffer
	if w.Template != nil {
		if err := w.Template.Execute(&body, n); err != nil {
			return fmt.Errorf("its template: %w", err)
		}
	} else if err := json.NewEncoder(&body).Encode(n); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body.Bytes()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Hostler-Notification", n.ID)
	if len(w.Secret) > 0 {
		mac := hmac.New(sha256.New, w.Secret)
		mac.Write(body.Bytes())
		req.Header.Set(SignatureHeader, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	resp, err := w.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("the answer is %s: %.200q", resp.Status, answer)
	}
	return nil
}

// Mail sends a notification to mailboxes.
type Mail struct {
	Label  string
	Server string // host:port
	From   string
	To     []string
	User   string // with Password: how to log in; only over TLS
	Secret string
	// Plain permits a server without STARTTLS: one on this machine.
	Plain bool
}

// NewMail checks addresses.
func NewMail(m Mail) (*Mail, error) {
	if _, _, err := net.SplitHostPort(m.Server); err != nil {
		return nil, fmt.Errorf("%q is no mail server: want host:port", m.Server)
	}
	if len(m.To) == 0 {
		return nil, errors.New("there is no address to send mail to")
	}
	for _, a := range append([]string{m.From}, m.To...) {
		if p, err := mail.ParseAddress(a); err != nil || p.Address != a {
			return nil, fmt.Errorf("%q is no plain mail address: want name@example.org", a)
		}
	}
	return &m, nil
}

// Name implements [Target].
func (m *Mail) Name() string { return m.Label }

// Send implements [Target].
func (m *Mail) Send(ctx context.Context, n Notification) error {
	host, _, _ := net.SplitHostPort(m.Server)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if ok, _ := c.Extension("STARTTLS"); ok && !m.Plain {
		if err := c.StartTLS(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}); err != nil {
			return err
		}
	} else if !m.Plain {
		return errors.New("the mail server offers no TLS; set plain = true for one on this machine")
	}
	if m.User != "" {
		if err := c.Auth(smtp.PlainAuth("", m.User, m.Secret, host)); err != nil {
			return err
		}
	}
	if err := c.Mail(m.From); err != nil {
		return err
	}
	for _, to := range m.To {
		if err := c.Rcpt(to); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err == nil {
		_, err = w.Write(m.message(n, time.Now()))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return err
	}
	_ = c.Quit() // it was taken; what the server says of the end is of no use
	return nil
}

// message is the mail: its id is that of the notification, so that one that is sent
// again is known to be the same.
func (m *Mail) message(n Notification, at time.Time) []byte {
	var b bytes.Buffer
	_, domain, _ := strings.Cut(m.From, "@")
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s@%s>\r\n", m.From, strings.Join(m.To, ", "),
		mime.QEncoding.Encode("utf-8", n.Subject()), at.Format(time.RFC1123Z), n.ID, domain)
	b.WriteString("Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n")
	b.WriteString(strings.ReplaceAll(n.Text(), "\n", "\r\n"))
	return b.Bytes()
}

// Command runs a program with the notification as JSON on its standard input.
type Command struct {
	Label string
	Argv  []string
}

// NewCommand checks the program.
func NewCommand(name string, argv []string) (*Command, error) {
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return nil, fmt.Errorf("%q does not begin with an absolute path of a program", argv)
	}
	return &Command{name, argv}, nil
}

// Name implements [Target].
func (c *Command) Name() string { return c.Label }

// killDelay is how long what a command has started may hold its output after its end.
const killDelay = 2 * time.Second

// Send implements [Target].
func (c *Command) Send(ctx context.Context, n Notification) error {
	in, err := json.Marshal(n)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Stdin = bytes.NewReader(append(in, '\n'))
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTLER_NOTIFICATION=" + n.ID}
	cmd.WaitDelay = killDelay
	var said start
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %.200q", err, said.b)
	}
	return nil
}

// start keeps the beginning of what a program says.
type start struct{ b []byte }

func (t *start) Write(b []byte) (int, error) {
	t.b = append(t.b, b[:min(len(b), maxAnswer-len(t.b))]...)
	return len(b), nil
}
