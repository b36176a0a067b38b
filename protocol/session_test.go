package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

func TestSessionSpecs(t *testing.T) {
	const ct = `"target":"0190f0e0-0000-7000-8000-000000000001",`
	for name, c := range map[string]struct{ spec, want string }{
		"a shell":           {`{"kind":"host.attach","tty":{"rows":24,"cols":80,"term":"xterm-256color"}}`, ""},
		"a command":         {`{"kind":"host.attach","argv":["top"],"user":"1000:1000","tty":{"rows":1,"cols":65535}}`, ""},
		"in a container":    {`{"kind":"container.attach",` + ct + `"tty":{"rows":24,"cols":80},"timeout_ms":1000}`, ""},
		"no terminal":       {`{"kind":"host.attach"}`, "tty"},
		"not for it":        {`{"kind":"host.run","argv":["top"],"tty":{"rows":24,"cols":80}}`, "tty"},
		"no rows":           {`{"kind":"host.attach","tty":{"rows":0,"cols":80}}`, "window"},
		"too many columns":  {`{"kind":"host.attach","tty":{"rows":24,"cols":65536}}`, "window"},
		"a strange type":    {`{"kind":"host.attach","tty":{"rows":24,"cols":80,"term":"x;rm"}}`, "terminal"},
		"an empty program":  {`{"kind":"host.attach","argv":[""],"tty":{"rows":24,"cols":80}}`, "argv"},
		"a daemon":          {`{"kind":"host.attach","daemon":true,"tty":{"rows":24,"cols":80}}`, "daemon"},
		"with input":        {`{"kind":"host.attach","stdin_bytes":5,"stdin_sha256":"` + protocol.Sum(nil).String() + `","tty":{"rows":24,"cols":80}}`, "stdin"},
		"alone":             {`{"kind":"host.attach","exclusive":true,"tty":{"rows":24,"cols":80}}`, "exclusive"},
		"a mode of output":  {`{"kind":"host.attach","output":"stream","tty":{"rows":24,"cols":80}}`, "output"},
		"without container": {`{"kind":"container.attach","tty":{"rows":24,"cols":80}}`, "target"},
	} {
		_, err := protocol.DecodeSpec([]byte(c.spec))
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, protocol.ErrSpec) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, k := range []protocol.Kind{protocol.KindAttach, protocol.KindContainerAttach} {
		info, ok := protocol.KindOf(k)
		if !ok || info.Attempts != 1 || info.RunTimeout != 0 || !info.RootEquivalent || !info.Cancellable || !info.Command || info.Lane != protocol.LaneSession || !k.Interactive() {
			t.Errorf("%s: %+v", k, info)
		}
	}
}
