//go:build integration && hostlertest

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// transferPoints push files, again and again, while somebody dies on the way.
func transferPoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", false)
	number := 0
	push := func(t *testing.T) {
		number++
		c.pushed(t, l, fmt.Sprintf("content %d of %s", number, c.dir))
	}
	var strikes []strike
	for _, s := range []failpoint.Step{"A14", "S17"} {
		strikes = append(strikes, strike{s, l.victim, push})
	}
	c.strikes(t, append(strikes, strike{"C19", c.head, push})...)
}

// pushed sends a payload until the coordinator has it, pushes it to a file, and
// finds it there.
func (c *wreck) pushed(t testing.TB, l *limb, text string) {
	t.Helper()
	there := c.path("pushed")
	s := protocol.Spec{
		Kind: protocol.KindHostPush,
		Args: &protocol.PushArgs{Input: c.payload(t, []byte(text)), TimeLimit: protocol.TimeLimit{TimeoutMS: time.Minute.Milliseconds()}, Files: &protocol.FileArgs{Paths: []string{there}, Mode: "0600"}},
	}
	id := c.newAction(t, l, protocol.KindHostPush, false)
	c.order(t, l, id, s)
	if got := c.end(t, l, id); got.State != protocol.StateDone {
		t.Errorf("the push is %s", got)
	}
	if got, err := os.ReadFile(there); err != nil || string(got) != text {
		t.Errorf("there is %q, %v, want %q", got, err, text)
	}
}

// payload sends what an action reads until the coordinator has it.
func (c *wreck) payload(t testing.TB, content []byte) protocol.Input {
	t.Helper()
	d := protocol.Sum(content)
	c.insist(t, "sending a payload", func(ctx context.Context) error {
		var have api.Payload
		err := c.api.Get(ctx, "/v1/payloads/"+d.String(), nil, &have)
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeNotFound {
			err = nil
		}
		if err == nil && !have.Complete {
			err = c.api.Upload(ctx, d.String(), int64(len(content)), have.Have, bytes.NewReader(content[have.Have:]), &have)
		}
		return err
	})
	return protocol.Input{StdinSHA256: d, StdinBytes: int64(len(content))}
}
