package broker

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol/san"
)

func TestClientIDs(t *testing.T) {
	for _, tc := range []struct {
		name     san.Name
		id       string
		ok, bulk bool
	}{
		{web1, "web1", true, false},
		{web1, "web1~bulk", true, true},
		{web1, "web1~bulk~bulk", false, false},
		{web1, "~bulk", false, false},
		{web1, "", false, false},
		{web1, "WEB1", false, false},
		{web1, "web2", false, false},
		{web1, "web2~bulk", false, false},
		{viewerWeb1, "web1", true, false},
		{viewerWeb1, "web1~bulk", true, false},
		{viewerWeb1, "mosq-1234", true, false},
		{coordinator, "web1", true, false},
		{hop, "web1", false, false},
		{san.Name{Kind: san.Broker}, "broker", false, false},
		{san.Name{}, "", false, false},
	} {
		bulk, err := checkClientID(tc.name, tc.id)
		if (err == nil) != tc.ok || bulk != tc.bulk {
			t.Errorf("%v as %q: bulk %v, error %v", tc.name, tc.id, bulk, err)
		}
	}
}

// FuzzIdentity: whatever URI a certificate holds and whatever the client calls
// itself, what is let in is exactly a name in its own text and, for a host, one of
// its two ids; nothing of it reaches another host's topics.
func FuzzIdentity(f *testing.F) {
	for _, uri := range []string{"hostler:host/web1", "hostler:viewer/web1", "HOSTLER:host/web1", "hostler:host/web1?x", "hostler://host/web1", "hostler:host/%77eb1"} {
		f.Add(uri, "web1")
		f.Add(uri, "web1~bulk")
	}
	f.Fuzz(func(t *testing.T, uri, clientID string) {
		u, err := url.Parse(uri)
		if err != nil {
			return
		}
		name, err := nameOf(&x509.Certificate{URIs: []*url.URL{u}})
		if err != nil {
			if name != (san.Name{}) {
				t.Fatalf("refused %q and returned %v", uri, name)
			}
			return
		}
		if name.String() != u.String() {
			t.Fatalf("%q was read as %v", uri, name)
		}
		bulk, err := checkClientID(name, clientID)
		if err != nil || name.Kind != san.Host {
			return
		}
		if want := name.ID + strings.Repeat(bulkSuffix, btoi(bulk)); clientID != want {
			t.Fatalf("%v connected as %q", name, clientID)
		}
		if name.ID != "other" && acme.mayPublish(name, root+"host/other/presence") {
			t.Fatalf("%v may speak for another", name)
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
