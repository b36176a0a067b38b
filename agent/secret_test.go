package agent_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/secret"
)

// TestSecretEnv: sealed variables reach the command, and nothing else of this host;
// what was sealed for something else begins nothing.
func TestSecretEnv(t *testing.T) {
	const value = "correct horse battery staple"
	unseal := func(sealed []byte) ([]byte, error) { // as if the key were a letter
		b, ok := bytes.CutPrefix(sealed, []byte("K"))
		if !ok {
			return nil, errors.New("another key")
		}
		return rot(b), nil
	}
	in(t, func(c *agent.Config) { c.Unseal = unseal }, func(t *testing.T, w *world) {
		seal := func(key string, f protocol.FleetID, h protocol.HostID, id protocol.ActionID) protocol.Spec {
			plain, err := secret.Values{Fleet: f, Host: h, Action: id, Env: []string{"TOKEN=" + value}}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			s := command("hang")
			s.SetSecret(&protocol.Sealed{Sealed: append([]byte(key), rot(plain)...)})
			return s
		}
		w.coord.order(actionID(1), seal("K", fleet, host, actionID(1)))
		w.coord.order(actionID(2), seal("X", fleet, host, actionID(2)))
		w.coord.order(actionID(3), seal("K", protocol.FleetID{9}, host, actionID(3)))
		w.coord.order(actionID(4), seal("K", fleet, "edge-08", actionID(4)))
		w.coord.order(actionID(5), seal("K", fleet, host, actionID(1)))
		lies, says := seal("K", fleet, host, actionID(6)), seal("K", fleet, host, actionID(7))
		lies.Secret().Names, says.Secret().Names = []string{"HARMLESS"}, []string{"TOKEN"}
		w.coord.order(actionID(6), lies)
		w.coord.order(actionID(7), says)
		w.pass(time.Second)
		w.expect(actionID(7), "start RUNNING")
		if cmd := w.cmds.get(actionID(1), 1).cmd; !slices.Equal(cmd.SecretEnv, []string{"TOKEN=" + value}) || len(cmd.Env) > 0 {
			t.Errorf("%+v", cmd)
		}
		for n := byte(2); n <= 6; n++ {
			w.expect(actionID(n), "no_start FAILED no_start")
		}
		w.down()
		for _, file := range []string{w.path, w.path + "-wal"} {
			if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(value)) {
				t.Errorf("%s holds it", file)
			}
		}
		w.up()
		w.pass(time.Second)
		w.coord.see(func() {
			for _, r := range w.coord.reports {
				if bytes.Contains([]byte(r.Detail), []byte("horse")) {
					t.Errorf("told: %+v", r)
				}
			}
		})
	})
	in(t, nil, func(t *testing.T, w *world) {
		s := command("true")
		s.SetSecret(&protocol.Sealed{Sealed: []byte("K")})
		w.coord.order(actionID(1), s)
		w.pass(time.Second)
		w.expect(actionID(1), "refuse FAILED unsupported")
	})
}

func rot(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

// TestSecretThatNobodyCouldApprove: where people approve, they have to know which
// variables are set; where nobody does, what older clients ask for goes on.
func TestSecretThatNobodyCouldApprove(t *testing.T) {
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		s := command("/usr/bin/uptime")
		order := func(n byte) {
			w.coord.orderApproved(actionID(n), specOf(s), r.approve(actionID(n), specOf(s), nil, "alice", "bob"))
			w.pass(time.Second)
		}
		s.SetSecret(&protocol.Sealed{Sealed: []byte("K")})
		order(1)
		w.expect(actionID(1), "refuse FAILED not_approved")
		s.Secret().Names = []string{"TOKEN"}
		order(2)
		w.expect(actionID(2), "no_start FAILED no_start") // it is not sealed to any key
		s.Secret().Names = nil
		s.SetProcess(protocol.Process{Argv: s.Process().Argv, User: "65534:65534"})
		w.coord.order(actionID(3), s)
		w.pass(time.Second)
		w.expect(actionID(3), "no_start FAILED no_start")
	}, func(c *agent.Config) {
		c.Unseal = func([]byte) ([]byte, error) { return nil, errors.New("another key") }
	})
}
