package wire_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
)

func TestRequestRoundTrip(t *testing.T) {
	want := wire.Request{
		Version: wire.Version, LXCPath: "/var/lib/lxc", LockDir: "/run/ct", Timeout: time.Minute, Grace: 1500 * time.Millisecond,
		Create: &container.CreateSpec{
			Name: "web", CTID: "0192f0c1-2b3c-7d4e-8f50-0123456789ab", Template: "busybox",
			Network: container.Network{Bridge: "br0", Address: netip.MustParsePrefix("10.70.0.2/24"), Gateway: netip.MustParseAddr("10.70.0.1"), MAC: "02:00:00:00:00:01"},
		},
	}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.ReadRequest(bufio.NewReader(strings.NewReader(string(raw))))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}

func TestStrict(t *testing.T) {
	for name, raw := range map[string]string{
		"empty":           ``,
		"no version":      `{"LXCPath":"/x"}`,
		"unknown field":   `{"Version":11,"Shell":"sh"}`,
		"two values":      `{"Version":11}{"Version":11}`,
		"invalid state":   `{"Version":11,"Infos":[{"State":"asleep"}]}`,
		"unknown code":    `{"Version":11,"Code":"odd","Reason":"x"}`,
		"without reason":  `{"Version":11,"Code":"failed"}`,
		"larger than cap": `{"Version":11,"Reason":"` + strings.Repeat("x", wire.MaxSize) + `"}`,
	} {
		if _, err := wire.DecodeAnswer([]byte(raw)); err == nil {
			t.Errorf("%s: answer accepted", name)
		}
	}
	if _, err := wire.ReadRequest(bufio.NewReader(strings.NewReader(strings.Repeat(" ", wire.MaxSize) + `{"Version":11}`))); err == nil {
		t.Error("a request above the cap was accepted")
	}
}

func TestOtherVersionIsUnsupported(t *testing.T) {
	// A later version may add fields: it is the version that must be named.
	_, err := wire.DecodeAnswer([]byte(`{"Version":12,"New":{}}`))
	if !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

func TestSentinelsSurvive(t *testing.T) {
	for _, sentinel := range []error{container.ErrNotFound, container.ErrExists, container.ErrNotRunning, container.ErrUnsupported, container.ErrTimeout, container.ErrBusy} {
		raw, err := json.Marshal(wire.Fail(fmt.Errorf("starting %q: %w", "web", sentinel)))
		if err != nil {
			t.Fatal(err)
		}
		a, err := wire.DecodeAnswer(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Err(); !errors.Is(err, sentinel) || !strings.Contains(err.Error(), `starting "web"`) {
			t.Errorf("%v came back as %v", sentinel, err)
		}
	}
	if err := wire.Fail(errors.New("disk on fire")).Err(); err == nil || err.Error() != "disk on fire" || errors.Is(err, container.ErrNotFound) {
		t.Errorf("a plain failure came back as %v", err)
	}
	if err := (wire.Answer{Version: wire.Version}).Err(); err != nil {
		t.Errorf("success came back as %v", err)
	}
}
