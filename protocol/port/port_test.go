package port_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol/port"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"8080:80": "8080:80/tcp", "8080:80/tcp": "8080:80/tcp", "53:5353/udp": "53:5353/udp", "1:65535": "1:65535/tcp",
		"": "", "80": "", "80:": "", ":80": "", "0:80": "", "80:0": "", "65536:1": "", "080:80": "", "+80:80": "", " 80:80": "",
		"80:80/sctp": "", "80:80/": "", "80:80/TCP": "", "1:2:3": "", "127.0.0.1:80:80": "", "80:80/tcp/udp": "", "８0:80": "",
	} {
		m, err := port.Parse(text)
		if (err == nil) != (want != "") || err == nil && m.String() != want {
			t.Errorf("%q: %v, %v; want %q", text, m, err, want)
		}
	}
}

func TestParseAll(t *testing.T) {
	all, err := port.ParseAll([]string{"8443:443", "53:53/udp", "53:53/tcp"})
	if want := []port.Mapping{{53, 53, "tcp"}, {53, 53, "udp"}, {8443, 443, "tcp"}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := port.ParseAll([]string{"80:80", "80:81"}); err == nil || !strings.Contains(err.Error(), "80/tcp of the host is named twice") {
		t.Errorf("a port twice: %v", err)
	}
	if _, err := port.ParseAll(make([]string, port.Max+1)); err == nil {
		t.Error("too many ports are taken")
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		all []string
		ok  bool
	}{
		{nil, true}, {[]string{"80:80/tcp", "81:80"}, true}, {[]string{"80/tcp", "53/udp"}, true},
		{[]string{"80/tcp", "81:80/tcp"}, false}, {[]string{"80"}, false}, {[]string{"80:80", "80:81"}, false}, {slices.Repeat([]string{"80/tcp"}, port.Max+1), false},
	} {
		if err := port.Check(c.all); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.all, err)
		}
	}
}

// FuzzParse: what is read has one form, and that is read as the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"8080:80/tcp", "53:53/udp", "8080:80", "0:0", "1:2:3/tcp", "99999:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := port.Parse(text)
		if err != nil {
			return
		}
		if again, err := port.Parse(m.String()); err != nil || again != m || m.Host == 0 || m.Container == 0 {
			t.Errorf("%q is %v, and that is %v, %v", text, m, again, err)
		}
	})
}
