package doctor

import (
	"strings"
	"testing"
)

// TestRedact: what has the form of a secret goes, wherever it stands, and what helps stays.
func TestRedact(t *testing.T) {
	const secret = "Sesame1"
	for _, text := range []string{
		"password=" + secret, "the url is ?user=a&token=" + secret, `"api_key": "` + secret + `"`, "SMTP_PASSWORD=" + secret, "secret: '" + secret + " two'",
		"https://bob:" + secret + "@db.example.org/x", "amqp://" + secret + "@mq", "ftp://a:" + secret + "/@h", "curl -u bob:" + secret + "@host/", "Authorization: Basic " + secret,
		"Bearer " + secret, "--password " + secret + " next", "token: " + secret, "db-token=" + secret + "&a=b", `password="` + secret + ` \" more"`,
		"-----BEGIN EC PRIVATE KEY-----\n" + secret + "-dash\n-----END EC PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n" + secret, "hst_SESAME12345", "hj1_sesame1sesame1sesame1",
	} {
		for _, v := range []any{text, []byte(text), map[string]any{text: []string{text}}, struct {
			N int64
			S string
		}{1, text}} {
			b, err := encode(v)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.ToLower(string(b)), "sesame") || !strings.Contains(string(b), redacted) {
				t.Errorf("%q became %s", v, b)
			}
		}
	}
	for _, text := range []string{
		"docker.io/library/nginx:1.27@sha256:0123", "notify.mail_password_file = /etc/x", "the token is refused", "https://hub.example.org:8443/v1", "bob@example.org", "2026-11-24T10:00:00Z edge-01",
		"bearer of news", "host edge-01: password is asked for", "node -> token", "token:admin",
	} {
		if got := redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("password=a", "b")
	f.Add("https://u:p@h", "\"")
	f.Fuzz(func(t *testing.T, a, b string) {
		raw, err := encode(map[string]string{a: b})
		if err != nil || len(raw) == 0 {
			t.Errorf("%q, %q: %v", a, b, err)
		}
	})
}
