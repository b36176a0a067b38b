package conn

import (
	"strings"
	"testing"
)

func TestSelector(t *testing.T) {
	var s Selector
	if err := s.Set("site=lab,tier!=db"); err != nil || s.String() != "site=lab,tier!=db" {
		t.Fatalf("%v, %s", err, s.String())
	}
	for labels, want := range map[string]bool{"site=lab": true, "site=lab tier=web": true, "site=lab tier=db": false, "tier=web": false, "": false, "site=lab2": false} {
		if got := s.Match(strings.Fields(labels)); got != want {
			t.Errorf("labels %q: %v, want %v", labels, got, want)
		}
	}
	s = Selector{}
	if err := s.Set("site==lab,tier!=db"); err != nil || !s.Match([]string{"site=lab"}) || s.String() != "site=lab,tier!=db" {
		t.Errorf("site==lab is %q (%v)", s.String(), err)
	}
	for _, text := range []string{"", "site", "=lab", "!=lab", "a=b,,c=d"} {
		if err := new(Selector).Set(text); err == nil {
			t.Errorf("%q selects something", text)
		}
	}
}

func TestCheckLabels(t *testing.T) {
	if err := CheckLabels([]string{"site=lab", "empty=", "text=two words"}); err != nil {
		t.Error(err)
	}
	for _, l := range []string{"a", "=a", "a=b,c=d", "a,b=c", "a=b\nc=d", "a=\x1b[2J", "a==b"} {
		if CheckLabels([]string{l}) == nil {
			t.Errorf("%q is a label", l)
		}
	}
}

func TestParseRef(t *testing.T) {
	for text, want := range map[string]Ref{
		"edge-01/web":        {Host: "edge-01", Name: "web"},
		"edge-01/podman:web": {Host: "edge-01", Runtime: "podman", Name: "web"},
	} {
		if got, err := ParseRef(text, false); err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	if got, err := ParseRef("podman:web", true); err != nil || (got != Ref{Runtime: "podman", Name: "web"}) || got.String() != "podman:web" {
		t.Errorf("on the host: %+v, %v", got, err)
	}
	for _, text := range []string{"", "web", "/web", "edge-01/", "edge-01/docker:web", "edge-01/lxc:", "Edge/web", "../web"} {
		if got, err := ParseRef(text, false); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
	for _, text := range []string{"", "edge-01/web", "docker:web"} {
		if got, err := ParseRef(text, true); err == nil {
			t.Errorf("%q on the host is %+v", text, got)
		}
	}
}
