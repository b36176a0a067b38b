package local_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// TestInput: people of a host without a coordinator send what a command reads. Each sends it
// for themselves, and it goes when the command has read it.
func TestInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "inputs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(c *agent.Config) { c.Payloads = must[*blob.Store](t)(blob.Open(dir, failpoint.InputPlaced, 0)) })
	input := bytes.Repeat([]byte("a line of the input\n"), 20_000)
	digest, size := protocol.Digest(sha256.Sum256(input)), int64(len(input))
	spec := protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("/bin/sh", "-c", "sha256sum; wc -c <"+dir+"/"+digest.String())}
	spec.SetInput(digest, size)
	request := api.NewAction{Spec: must[[]byte](t)(json.Marshal(spec))}
	refused := func(when string) {
		t.Helper()
		var a api.Action
		if err := w.Post(t.Context(), "/v1/actions", nil, request, &a); err == nil || !strings.Contains(err.Error(), "its input is not here") {
			t.Errorf("%s: %v, %+v", when, err, a)
		}
	}
	refused("before anything was sent")

	send := func(d protocol.Digest, body []byte, size, offset int64) error {
		return w.Upload(t.Context(), d.String(), size+offset, offset, bytes.NewReader(body), new(api.Payload))
	}
	for name, bad := range map[string]struct {
		err  error
		want string
	}{
		"another digest": {send(protocol.Digest{1}, input, size, 0), "do not have the digest"},
		"no bytes":       {send(digest, nil, 0, 0), "at least 1"},
		"from a middle":  {send(digest, input, size, 7), "sent as a whole"},
		"too large":      {send(digest, nil, 1<<60, 0), "not enough room"},
	} {
		if bad.err == nil || !strings.Contains(bad.err.Error(), bad.want) {
			t.Errorf("%s: %v, want %q", name, bad.err, bad.want)
		}
	}
	refused("after bad ones were sent")

	// What another user of the host has sent is not there for this one.
	if err := agent.Uploads(w.agent).Put(t.Context(), "uid:4711", digest, size, bytes.NewReader(input)); err != nil {
		t.Fatal(err)
	}
	refused("after another user has sent it")
	if err := send(digest, bytes.ToUpper(input), size, 0); err == nil || !strings.Contains(err.Error(), "do not have the digest") {
		t.Errorf("other bytes than those of the other user: %v", err)
	}
	refused("after a guess")
	for range 2 {
		if err := send(digest, input, size, 0); err != nil {
			t.Fatal(err)
		}
	}
	var have api.Payload
	if err := w.Get(t.Context(), "/v1/payloads/"+digest.String(), nil, &have); err != nil || !have.Complete || have.Bytes != size {
		t.Errorf("%+v, %v", have, err)
	}
	var a api.Action
	if err := w.Post(t.Context(), "/v1/actions", map[string][]string{"wait": {"30s"}}, request, &a); err != nil || a.State != "DONE" {
		t.Fatalf("%+v, %v", a, err)
	}
	var out bytes.Buffer
	if _, err := w.Output(t.Context(), client.Reading{Action: a.ID, FD: "stdout"}, &out); err != nil || !strings.HasPrefix(out.String(), digest.String()) {
		t.Errorf("it has read: %q, %v", out.String(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d inputs are left, %v", len(left), err)
	}
	refused("after it was read")
}
