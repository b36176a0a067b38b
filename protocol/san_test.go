package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

func TestSANText(t *testing.T) {
	for uri, want := range map[string]protocol.SAN{
		"hostler:host/web1":   {Kind: protocol.SANHost, ID: "web1"},
		"hostler:viewer/bob":  {Kind: protocol.SANViewer, ID: "bob"},
		"hostler:hop/berlin":  {Kind: protocol.SANHop, ID: "berlin"},
		"hostler:coordinator": {Kind: protocol.SANCoordinator},
		"hostler:broker":      {Kind: protocol.SANBroker},
	} {
		got, err := protocol.ParseSAN(uri)
		if err != nil || got != want || got.String() != uri {
			t.Errorf("ParseSAN(%q) = %+v, %v, text %q", uri, got, err, got)
		}
	}
}

func TestSANRefused(t *testing.T) {
	for _, uri := range []string{
		"", "hostler:", "hostler:host", "hostler:host/", "hostler:host/Web1", "hostler:host/web1/x", "hostler:host/../x",
		"hostler:coordinator/", "hostler:coordinator/x", "hostler:broker/x", "hostler:root", "HOSTLER:host/web1",
		"hostler://host/web1", "spiffe://x/host/web1", "hostler:host/web1 ", "hostler:host/" + strings.Repeat("a", 64),
		"hostler:host/web1\x00", "hostler:host/w%65b1", "hostler:viewer/",
	} {
		if s, err := protocol.ParseSAN(uri); !errors.Is(err, protocol.ErrSAN) || s != (protocol.SAN{}) {
			t.Errorf("ParseSAN(%q) = %+v, %v, want ErrSAN", uri, s, err)
		}
	}
}

func TestSANsOfACertificate(t *testing.T) {
	other := "spiffe://example.org/web1"
	got, err := protocol.ParseSANs([]string{other, "hostler:host/web1"})
	if err != nil || got != (protocol.SAN{Kind: protocol.SANHost, ID: "web1"}) {
		t.Errorf("one name among others: %+v, %v", got, err)
	}
	for name, uris := range map[string][]string{
		"none":           {other},
		"two":            {"hostler:host/web1", "hostler:host/web2"},
		"the same twice": {"hostler:host/web1", "hostler:host/web1"},
		"one malformed":  {"hostler:host/web1", "hostler:nobody"},
	} {
		if _, err := protocol.ParseSANs(uris); !errors.Is(err, protocol.ErrSAN) {
			t.Errorf("%s: %v, want ErrSAN", name, err)
		}
	}
}
