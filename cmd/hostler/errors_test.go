package main

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
)

// A certificate for another name has another remedy than one of another fleet.
func TestCertificateHints(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"another name", x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"vm"}}, Host: "localhost"}, "http.addresses"},
		{"another fleet", x509.UnknownAuthorityError{}, "hostler context ls"},
	} {
		var b strings.Builder
		code := report(&b, cannot("list the hosts", &tls.CertificateVerificationError{Err: c.err}))
		if code != exitUnreachable {
			t.Errorf("%s: exit code %d, want %d", c.name, code, exitUnreachable)
		}
		if !strings.Contains(b.String(), "try: ") || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: the text has no hint %q:\n%s", c.name, c.want, b.String())
		}
	}
}
