package term

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// A certificate for another name has another remedy than one of another fleet.
func TestCertificateHints(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"another name", x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"vm"}}, Host: "localhost"}, "http.addresses"},
		{"another fleet", x509.UnknownAuthorityError{}, "hostler login CODE"},
	} {
		var b strings.Builder
		code := report(&b, nil, Cannot("list the hosts", &tls.CertificateVerificationError{Err: c.err}))
		if code != ExitUnreachable {
			t.Errorf("%s: exit code %d, want %d", c.name, code, ExitUnreachable)
		}
		if !strings.Contains(b.String(), "try: ") || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: the text has no hint %q:\n%s", c.name, c.want, b.String())
		}
	}
}

// A reason of several lines is told line by line, whoever has given it.
func TestReasonOfSeveralLines(t *testing.T) {
	for _, err := range []error{errors.New("one\ntwo"), &api.Problem{Code: api.CodeInternal, Detail: "one\ntwo"}} {
		var b strings.Builder
		told := Cannot("do it", err)
		report(&b, nil, told)
		if want := "hostler: cannot do it\n    why: one\n         two\n"; b.String() != want {
			t.Errorf("%T: it says %q, want %q", err, b.String(), want)
		}
		if want := "cannot do it: one; two"; told.Error() != want {
			t.Errorf("%T: in one line it is %q, want %q", err, told.Error(), want)
		}
	}
}

// TestPermissionHint: a file that this user may not read has a command that shows why, as has
// a thing that is not there.
func TestPermissionHint(t *testing.T) {
	var b strings.Builder
	denied := &fs.PathError{Op: "open", Path: "/etc/shadow", Err: fs.ErrPermission}
	if code := report(&b, nil, Cannot("read the configuration", denied)); code != ExitFailed || !strings.Contains(b.String(), "try: ls -ld /etc/shadow ") {
		t.Errorf("code %d:\n%s", code, b.String())
	}
	b.Reset()
	gone := Missing(Cannot("remove rule x", &api.Problem{Code: api.CodeNotFound, Detail: "rule x: not found"}), "hostler alert rule ls")
	if code := report(&b, nil, gone); code != ExitNotFound || !strings.Contains(b.String(), "try: hostler alert rule ls\n") {
		t.Errorf("code %d:\n%s", code, b.String())
	}
	if Missing(nil, "hostler alert rule ls") != nil {
		t.Error("no error has become one")
	}
}
