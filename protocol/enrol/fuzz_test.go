package enrol

import (
	"errors"
	"reflect"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// The fuzzers give each parser a text as it is, and a payload behind a right
// checksum: no fuzzer finds those by itself, and an attacker computes them.

func FuzzJoinCode(f *testing.F) {
	for _, addresses := range [][]string{{"192.0.2.17:8443"}, {"example.org:1", "[::1]:2"}} {
		s, err := JoinCode{Addresses: addresses, Pin: Pin{Ring: 300}, Secret: Secret{1}}.Encode()
		if err != nil {
			f.Fatal(err)
		}
		payload, err := decodeCode(joinPrefix, s, 1<<10)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s, payload)
	}
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		for _, s := range []string{text, encodeCode(joinPrefix, payload)} {
			c, err := ParseJoinCode(s)
			if err != nil {
				if !errors.Is(err, ErrCode) {
					t.Errorf("%v is no ErrCode", err)
				}
				continue
			}
			again, err := c.Encode()
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			if second, err := ParseJoinCode(again); err != nil || second.Pin != c.Pin || second.Secret != c.Secret {
				t.Errorf("read again it is %+v, %v", second, err)
			}
		}
	})
}

func FuzzLoginCode(f *testing.F) {
	s, err := LoginCode{Addresses: []string{"192.0.2.17:8443", "example.org:1"}, Pin: Pin{Ring: 300}, Token: "hst_secret"}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	payload, err := decodeCode(loginPrefix, s, 1<<10)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s, payload)
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		for _, s := range []string{text, encodeCode(loginPrefix, payload)} {
			c, err := ParseLoginCode(s)
			if err != nil {
				if !errors.Is(err, ErrCode) {
					t.Errorf("%v is no ErrCode", err)
				}
				continue
			}
			again, err := c.Encode()
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			if second, err := ParseLoginCode(again); err != nil || !reflect.DeepEqual(second, c) {
				t.Errorf("read again it is %+v, %v", second, err)
			}
		}
	})
}

func FuzzFleetCode(f *testing.F) {
	c := FleetCode{Fleet: protocol.FleetID{1}, Name: "lab", Pin: Pin{Ring: 1}}
	f.Add(c.Encode(), []byte{1})
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		for _, s := range []string{text, encodeCode(fleetPrefix, payload)} {
			c, err := ParseFleetCode(s)
			if err != nil {
				continue
			}
			if again, err := ParseFleetCode(c.Encode()); err != nil || again != c {
				t.Errorf("read again it is %+v, %v", again, err)
			}
		}
	})
}

func FuzzCoordinatorRequest(f *testing.F) {
	c := CoordinatorRequest{Fleet: protocol.FleetID{1}, Key: []byte("key"), TLSCA: []byte("ca")}
	s, err := c.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s, c.payload())
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		for _, s := range []string{text, encodeCode(requestPrefix, payload)} {
			c, err := ParseCoordinatorRequest(s)
			if err != nil {
				continue
			}
			if _, err := c.Encode(); err != nil {
				t.Errorf("what was read cannot be written: %v", err)
			}
		}
	})
}
