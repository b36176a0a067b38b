package san_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol/san"
)

func TestText(t *testing.T) {
	for uri, want := range map[string]san.Name{
		"hostler:host/web1":   {Kind: san.Host, ID: "web1"},
		"hostler:viewer/bob":  {Kind: san.Viewer, ID: "bob"},
		"hostler:hop/berlin":  {Kind: san.Hop, ID: "berlin"},
		"hostler:coordinator": {Kind: san.Coordinator},
		"hostler:broker":      {Kind: san.Broker},
	} {
		got, err := san.Parse(uri)
		if err != nil || got != want || got.String() != uri {
			t.Errorf("Parse(%q) = %+v, %v, text %q", uri, got, err, got)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, uri := range []string{
		"", "hostler:", "hostler:host", "hostler:host/", "hostler:host/Web1", "hostler:host/web1/x", "hostler:host/../x",
		"hostler:coordinator/", "hostler:coordinator/x", "hostler:broker/x", "hostler:root", "HOSTLER:host/web1",
		"hostler://host/web1", "spiffe://x/host/web1", "hostler:host/web1 ", "hostler:host/" + strings.Repeat("a", 64),
		"hostler:host/web1\x00", "hostler:host/w%65b1", "hostler:viewer/",
	} {
		if s, err := san.Parse(uri); !errors.Is(err, san.ErrName) || s != (san.Name{}) {
			t.Errorf("Parse(%q) = %+v, %v, want ErrName", uri, s, err)
		}
	}
}

func TestNamesOfACertificate(t *testing.T) {
	other := "spiffe://example.org/web1"
	got, err := san.ParseAll([]string{other, "hostler:host/web1"})
	if err != nil || got != (san.Name{Kind: san.Host, ID: "web1"}) {
		t.Errorf("one name among others: %+v, %v", got, err)
	}
	for name, uris := range map[string][]string{
		"none":           {other},
		"two":            {"hostler:host/web1", "hostler:host/web2"},
		"the same twice": {"hostler:host/web1", "hostler:host/web1"},
		"one malformed":  {"hostler:host/web1", "hostler:nobody"},
	} {
		if _, err := san.ParseAll(uris); !errors.Is(err, san.ErrName) {
			t.Errorf("%s: %v, want ErrName", name, err)
		}
	}
}
