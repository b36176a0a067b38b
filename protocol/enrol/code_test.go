package enrol_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func joinCode() enrol.JoinCode {
	return enrol.JoinCode{
		Addresses: []string{"192.0.2.17:8443"},
		Pin:       enrol.PinOf(3, protocol.Sum([]byte("ring"))),
		Secret:    enrol.Secret([]byte("0123456789abcdef")),
	}
}

func fleetCode() enrol.FleetCode {
	return enrol.FleetCode{Fleet: protocol.FleetID{1, 2}, Name: "lab", Pin: enrol.PinOf(1, protocol.Sum([]byte("ring")))}
}

func encodeJoin(t testing.TB, c enrol.JoinCode) string {
	t.Helper()
	s, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJoinCode(t *testing.T) {
	c := joinCode()
	if s := encodeJoin(t, c); len(s) > 90 || strings.ContainsAny(s, " \n") {
		t.Errorf("%q has %d characters, want one short line", s, len(s))
	}
	c.Addresses = []string{"coordinator.example.org:8443", "[2001:db8::1]:443", "10.0.0.1:1", "a:65535"}
	s := encodeJoin(t, c)
	for _, text := range []string{
		s, " " + s + "\n", strings.ToUpper(s), s[:40] + "\n  " + s[40:],
		strings.NewReplacer("0", "O", "1", "l").Replace(s),
	} {
		// The prefix has a 1 that stays one.
		text = strings.Replace(text, "hjl_", "hj1_", 1)
		got, err := enrol.ParseJoinCode(text)
		if err != nil || fmt.Sprint(got.Addresses) != fmt.Sprint(c.Addresses) || got.Pin != c.Pin || got.Secret != c.Secret {
			t.Errorf("%q reads as %+v, %v", text, got, err)
		}
	}
}

func TestJoinCodeAddressesRefused(t *testing.T) {
	for _, a := range []string{
		"", "host", "host:", ":1", "host:0", "host:65536", "host:08", "host:+8", "Host:1", "[fe80::1%eth0]:1", "[::ffff:1.2.3.4]:1",
		"host name:1", "-a:1", strings.Repeat("a.", 127) + ":1", "1.2.3.4", "[::1]", "::1:1", "..:1",
	} {
		c := joinCode()
		c.Addresses = []string{a}
		if s, err := c.Encode(); !errors.Is(err, enrol.ErrCode) {
			t.Errorf("%q gives %q, %v", a, s, err)
		}
	}
	for _, n := range []int{0, enrol.MaxAddresses + 1} {
		c := joinCode()
		c.Addresses = make([]string, n)
		if _, err := c.Encode(); !errors.Is(err, enrol.ErrCode) {
			t.Errorf("%d addresses: %v", n, err)
		}
	}
}

func TestFleetCode(t *testing.T) {
	c := fleetCode()
	if got, err := enrol.ParseFleetCode(c.Encode()); err != nil || got != c {
		t.Errorf("%+v, %v, want %+v", got, err, c)
	}
}

func TestCoordinatorRequest(t *testing.T) {
	c := enrol.CoordinatorRequest{Fleet: protocol.FleetID{1}, Key: bytes.Repeat([]byte{1}, 400), TLSCA: bytes.Repeat([]byte{2}, 420)}
	s, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := enrol.ParseCoordinatorRequest(s)
	if err != nil || got.Fleet != c.Fleet || !bytes.Equal(got.Key, c.Key) || !bytes.Equal(got.TLSCA, c.TLSCA) {
		t.Errorf("%+v, %v", got, err)
	}
	c.Key = make([]byte, 9<<10)
	if _, err := c.Encode(); !errors.Is(err, enrol.ErrCode) {
		t.Errorf("a key of 9 KiB: %v", err)
	}
}

func TestOwnerRequest(t *testing.T) {
	o := enrol.OwnerRequest{Fleet: protocol.FleetID{1}, Person: "bob", Key: bytes.Repeat([]byte{1}, 400)}
	s, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := enrol.ParseOwnerRequest(s)
	if err != nil || got.Fleet != o.Fleet || got.Person != o.Person || !bytes.Equal(got.Key, o.Key) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := enrol.ParseCoordinatorRequest(s); !errors.Is(err, enrol.ErrCode) {
		t.Errorf("taken for a coordinator's: %v", err)
	}
	o.Person = strings.Repeat("b", 65)
	if _, err := o.Encode(); !errors.Is(err, enrol.ErrCode) {
		t.Errorf("a name of 65 bytes: %v", err)
	}
}

// TestTypos changes each character of a code, leaves each out, and exchanges
// each with its neighbour.
func TestTypos(t *testing.T) {
	s := encodeJoin(t, joinCode())
	same := strings.NewReplacer("o", "0", "i", "1", "l", "1")
	for i := range s {
		typos := []string{s[:i] + s[i+1:], s[:i] + string(s[i]) + s[i:], s[:i]}
		for _, c := range "0189abcxyzu!-_é" {
			typos = append(typos, s[:i]+string(c)+s[i+1:])
		}
		if i+1 < len(s) {
			typos = append(typos, s[:i]+string(s[i+1])+string(s[i])+s[i+2:])
		}
		for _, typo := range typos {
			if same.Replace(typo) == s {
				continue
			}
			if _, err := enrol.ParseJoinCode(typo); !errors.Is(err, enrol.ErrCode) {
				t.Errorf("%q for %q: %v", typo, s, err)
			}
		}
	}
}

func TestCodeErrorsSayWhatToDo(t *testing.T) {
	join := encodeJoin(t, joinCode())
	for text, want := range map[string]string{
		fleetCode().Encode():       "it is a fleet code",
		"":                         `want "hj1_"`,
		"https://example.org":      `want "hj1_"`,
		join[:len(join)-1]:         "copy it again",
		join[:20] + "0000000":      "copy it again",
		join[:10] + "u" + join:     "character 11, 'u', is in no code",
		strings.Repeat("a", 1<<20): "too many",
	} {
		if _, err := enrol.ParseJoinCode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q in it", text, err, want)
		}
	}
	if _, err := enrol.ParseFleetCode(join); err == nil || !strings.Contains(err.Error(), "it is a join code") {
		t.Errorf("a join code where a fleet code is wanted: %v", err)
	}
}

func TestSecretsHideInLogs(t *testing.T) {
	c := joinCode()
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%v", c.Secret)} {
		if strings.Contains(s, "48 49 50") || strings.Contains(s, "0123") {
			t.Errorf("the secret stands in %q", s)
		}
	}
}

func TestCodesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.StringMatching(`([a-z][a-z0-9]{0,9}\.){0,3}[a-z]{1,9}:[1-9][0-9]{0,3}|[1-9][0-9]?\.[1-9]\.[1-9]\.[1-9]:[1-9][0-9]{0,3}|\[2001:db8::[1-9a-f]\]:[1-9][0-9]{0,3}`)
		c := enrol.JoinCode{
			Addresses: rapid.SliceOfN(address, 1, enrol.MaxAddresses).Draw(t, "addresses"),
			Pin:       enrol.Pin{Ring: rapid.Uint64().Draw(t, "ring"), Digest: [20]byte(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "digest"))},
			Secret:    enrol.Secret(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "secret")),
		}
		s, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := enrol.ParseJoinCode(s)
		if err != nil || fmt.Sprint(got.Addresses) != fmt.Sprint(c.Addresses) || got.Pin != c.Pin || got.Secret != c.Secret {
			t.Fatalf("%+v, %v, want %+v", got, err, c)
		}
	})
}
