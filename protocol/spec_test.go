package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

const ctid = `"target":"01890a5d-ac96-774b-bcce-b302099a9001"`

const stdin = `"stdin_sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"`

// specTests are specs and the code of their refusal, empty if they are good.
var specTests = []struct {
	name string
	spec string
	want protocol.Code
}{
	{"ping", `{"kind":"host.ping"}`, ""},
	{"run", `{"kind":"host.run","argv":["sh","-c","a && b"],"user":"1000:1000","cwd":"/tmp","env":["A=b=c"],"timeout_ms":-1,"exclusive":true}`, ""},
	{"run that waits for its readers", `{"kind":"host.run","argv":["true"],"output":"stream"}`, ""},
	{"drill", `{"kind":"host.drill","fault":"stop-agent","for_ms":10000}`, ""},
	{"drill that is too short", `{"kind":"host.drill","fault":"partition","for_ms":9999}`, protocol.ErrSpec},
	{"drill that is too long", `{"kind":"host.drill","fault":"partition","for_ms":900001}`, protocol.ErrSpec},
	{"drill without an end", `{"kind":"host.drill","fault":"partition"}`, protocol.ErrSpec},
	{"fence device", `{"kind":"host.fence","device":"pdu-1","verb":"off","host":"edge-07","plug":"4"}`, ""},
	{"fence device described", `{"kind":"host.fence","device":"pdu-1","verb":"describe","host":"gw-01"}`, ""},
	{"fence of no host", `{"kind":"host.fence","device":"pdu-1","verb":"off"}`, protocol.ErrSpec},
	{"fence by another verb", `{"kind":"host.fence","device":"pdu-1","verb":"reboot","host":"edge-07"}`, protocol.ErrSpec},
	{"drill of another fault", `{"kind":"host.drill","fault":"fire","for_ms":10000}`, protocol.ErrSpec},
	{"output of a ping", `{"kind":"host.ping","output":"keep"}`, protocol.ErrSpec},
	{"output thrown away", `{"kind":"host.run","argv":["true"],"output":"none"}`, protocol.ErrSpec},
	{"exec", `{"kind":"container.exec",` + ctid + `,"argv":["true"],"timeout_ms":360000000}`, ""},
	{"create", `{"kind":"container.create",` + ctid + `,"name":"web","template":"busybox","class":"cloned","offline":"keep","labels":["a=b"],"start":true}`, ""},
	{"stop", `{"kind":"container.stop",` + ctid + `,"name":"web","grace_ms":3600000}`, ""},
	{"start", `{"kind":"container.start",` + ctid + `}`, ""},
	{"run with a payload", `{"kind":"host.run","argv":["a"],` + stdin + `,"stdin_bytes":1099511627776}`, ""},
	{"payload without size", `{"kind":"host.run","argv":["a"],` + stdin + `}`, protocol.ErrSpec},
	{"payload without digest", `{"kind":"host.run","argv":["a"],"stdin_bytes":5}`, protocol.ErrSpec},
	{"payload beyond 1 TiB", `{"kind":"host.run","argv":["a"],` + stdin + `,"stdin_bytes":1099511627777}`, protocol.ErrSpec},
	{"payload of negative size", `{"kind":"host.run","argv":["a"],` + stdin + `,"stdin_bytes":-1}`, protocol.ErrSpec},
	{"payload of a stop", `{"kind":"container.stop",` + ctid + `,` + stdin + `,"stdin_bytes":1}`, protocol.ErrSpec},
	{"rename", `{"kind":"container.rename",` + ctid + `,"name":"web","new_name":"db"}`, ""},
	{"stop now", `{"kind":"container.stop-now",` + ctid + `,"grace_ms":1}`, ""},
	{"daemon", `{"kind":"container.exec",` + ctid + `,"argv":["a"],"daemon":true}`, ""},
	{"secret", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":"eHg="}}`, ""},
	{"secret that says what it sets", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":"eHg=","names":["A","B"]}}`, ""},
	{"secret with names out of order", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":"eHg=","names":["B","A"]}}`, protocol.ErrSpec},
	{"secret with a name twice", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":"eHg=","names":["A","A"]}}`, protocol.ErrSpec},
	{"secret with a value for a name", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":"eHg=","names":["A=b"]}}`, protocol.ErrSpec},
	{"secret with an empty name", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":"eHg=","names":[""]}}`, protocol.ErrSpec},
	{"secret with NUL in a name", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":"eHg=","names":["A\u0000"]}}`, protocol.ErrSpec},
	{"secret with a long name", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":"eHg=","names":["` + strings.Repeat("A", 256) + `"]}}`, protocol.ErrSpec},
	{"secret that is empty", `{"kind":"host.run","argv":["a"],"secret_env":{"sealed":""}}`, protocol.ErrSpec},
	{"secret in the open", `{"kind":"host.run","argv":["a"],"secret_env":["A=b"]}`, protocol.ErrSpec},
	{"secret of a stop", `{"kind":"container.stop",` + ctid + `,"secret_env":{"sealed":"eHg="}}`, protocol.ErrSpec},
	{"stop as a daemon", `{"kind":"container.stop",` + ctid + `,"daemon":true}`, protocol.ErrSpec},
	{"rename without a new name", `{"kind":"container.rename",` + ctid + `,"name":"web"}`, protocol.ErrSpec},
	{"rename to a path", `{"kind":"container.rename",` + ctid + `,"new_name":"../web"}`, protocol.ErrSpec},
	{"new name of a start", `{"kind":"container.start",` + ctid + `,"new_name":"db"}`, protocol.ErrSpec},
	{"timeout of the shortest", `{"kind":"host.run","argv":["a"],"timeout_ms":1000}`, ""},
	{"timeout below a second", `{"kind":"host.run","argv":["a"],"timeout_ms":999}`, protocol.ErrSpec},
	{"push", `{"kind":"host.push",` + stdin + `,"stdin_bytes":5,"files":{"paths":["/etc/motd"],"name":"motd","mode":"0644","owner":"1000:1000"}}`, ""},
	{"push of an empty file", `{"kind":"container.push",` + ctid + `,"files":{"paths":["/etc/motd"],"mode":"644"}}`, ""},
	{"push of an archive", `{"kind":"host.push",` + stdin + `,"stdin_bytes":5,"files":{"paths":["/srv"],"archive":true}}`, ""},
	{"pull", `{"kind":"container.pull",` + ctid + `,"files":{"paths":["/etc","/var/log/a b"]},"output":"stream","timeout_ms":-1}`, ""},
	{"push without files", `{"kind":"host.push"}`, protocol.ErrSpec},
	{"push to a relative path", `{"kind":"host.push","files":{"paths":["etc/motd"],"mode":"644"}}`, protocol.ErrSpec},
	{"push upwards", `{"kind":"host.push","files":{"paths":["/srv/../etc/motd"],"mode":"644"}}`, protocol.ErrSpec},
	{"push to a path with NUL", `{"kind":"host.push","files":{"paths":["/srv\u0000"],"mode":"644"}}`, protocol.ErrSpec},
	{"push to two paths", `{"kind":"host.push","files":{"paths":["/a","/b"],"mode":"644"}}`, protocol.ErrSpec},
	{"push without mode", `{"kind":"host.push","files":{"paths":["/a"]}}`, protocol.ErrSpec},
	{"push with a mode in words", `{"kind":"host.push","files":{"paths":["/a"],"mode":"rwx"}}`, protocol.ErrSpec},
	{"push with a path as name", `{"kind":"host.push","files":{"paths":["/a"],"name":"../b","mode":"644"}}`, protocol.ErrSpec},
	{"push with a command", `{"kind":"host.push","argv":["sh"],"files":{"paths":["/a"],"mode":"644"}}`, protocol.ErrSpec},
	{"push of no archive", `{"kind":"host.push","files":{"paths":["/a"],"archive":true}}`, protocol.ErrSpec},
	{"pull of nothing", `{"kind":"host.pull","files":{"paths":[]}}`, protocol.ErrSpec},
	{"pull that goes on", `{"kind":"host.pull","files":{"paths":["/a"],"have":5,"have_sha256":"abababababababababababababababababababababababababababababababab"}}`, ""},
	{"pull that goes on behind what has no digest", `{"kind":"host.pull","files":{"paths":["/a"],"have":5}}`, protocol.ErrSpec},
	{"pull that goes on behind nothing", `{"kind":"host.pull","files":{"paths":["/a"],"have_sha256":"abababababababababababababababababababababababababababababababab"}}`, protocol.ErrSpec},
	{"pull that goes on behind less", `{"kind":"host.pull","files":{"paths":["/a"],"have":-5,"have_sha256":"abababababababababababababababababababababababababababababababab"}}`, protocol.ErrSpec},
	{"push that goes on", `{"kind":"host.push","files":{"paths":["/a"],"mode":"0600","have":5,"have_sha256":"abababababababababababababababababababababababababababababababab"}}`, protocol.ErrSpec},
	{"pull with a payload", `{"kind":"host.pull",` + stdin + `,"stdin_bytes":5,"files":{"paths":["/a"]}}`, protocol.ErrSpec},
	{"files of a run", `{"kind":"host.run","argv":["a"],"files":{"paths":["/a"]}}`, protocol.ErrSpec},
	{"nothing", ``, protocol.ErrSpec},
	{"no object", `["host.ping"]`, protocol.ErrSpec},
	{"kind left out", `{}`, protocol.ErrUnknownKind},
	{"kind unknown, with members of its own", `{"kind":"host.fly","wings":2}`, protocol.ErrUnknownKind},
	{"kind in upper case", `{"kind":"HOST.PING"}`, protocol.ErrUnknownKind},
	{"member unknown", `{"kind":"host.ping","wings":2}`, protocol.ErrSpec},
	{"member in upper case", `{"kind":"host.run","argv":["true"],"ARGV":["rm","-rf","/"]}`, protocol.ErrSpec},
	{"member twice", `{"kind":"host.run","argv":["true"],"argv":["rm"]}`, protocol.ErrSpec},
	{"null", `{"kind":"host.run","argv":["true"],"user":null}`, protocol.ErrSpec},
	{"target of a host kind", `{"kind":"host.ping",` + ctid + `}`, protocol.ErrSpec},
	{"target left out", `{"kind":"container.stop"}`, protocol.ErrSpec},
	{"target is a name", `{"kind":"container.stop","target":"web"}`, protocol.ErrSpec},
	{"argv left out", `{"kind":"host.run"}`, protocol.ErrSpec},
	{"argv empty", `{"kind":"host.run","argv":[]}`, protocol.ErrSpec},
	{"command empty", `{"kind":"host.run","argv":["","a"]}`, protocol.ErrSpec},
	{"argv with NUL", `{"kind":"host.run","argv":["a\u0000"]}`, protocol.ErrSpec},
	{"argv of a ping", `{"kind":"host.ping","argv":["true"]}`, protocol.ErrSpec},
	{"cwd relative", `{"kind":"host.run","argv":["a"],"cwd":"../a"}`, protocol.ErrSpec},
	{"env without name", `{"kind":"host.run","argv":["a"],"env":["=b"]}`, protocol.ErrSpec},
	{"env without value", `{"kind":"host.run","argv":["a"],"env":["A"]}`, protocol.ErrSpec},
	{"timeout below none", `{"kind":"host.run","argv":["a"],"timeout_ms":-2}`, protocol.ErrSpec},
	{"timeout beyond 100 h", `{"kind":"host.run","argv":["a"],"timeout_ms":360000001}`, protocol.ErrSpec},
	{"timeout of a stop", `{"kind":"container.stop",` + ctid + `,"timeout_ms":1}`, protocol.ErrSpec},
	{"grace of a start", `{"kind":"container.start",` + ctid + `,"grace_ms":1}`, protocol.ErrSpec},
	{"grace negative", `{"kind":"container.stop",` + ctid + `,"grace_ms":-1}`, protocol.ErrSpec},
	{"grace beyond an hour", `{"kind":"container.stop",` + ctid + `,"grace_ms":3600001}`, protocol.ErrSpec},
	{"create without name", `{"kind":"container.create",` + ctid + `,"template":"busybox"}`, protocol.ErrSpec},
	{"create with a path as name", `{"kind":"container.create",` + ctid + `,"name":"../web","template":"busybox"}`, protocol.ErrSpec},
	{"create without template", `{"kind":"container.create",` + ctid + `,"name":"web"}`, protocol.ErrSpec},
	{"create with a path as template", `{"kind":"container.create",` + ctid + `,"name":"web","template":"../../etc"}`, protocol.ErrSpec},
	{"data of a pinned one", `{"kind":"container.create",` + ctid + `,"name":"web","template":"busybox","data":"none"}`, protocol.ErrSpec},
	{"lease of a pinned one", `{"kind":"container.create",` + ctid + `,"name":"web","template":"busybox","offline":"lease"}`, protocol.ErrSpec},
	{"create of unknown class", `{"kind":"container.create",` + ctid + `,"name":"web","template":"busybox","class":"nice"}`, protocol.ErrSpec},
	{"create that stops offline", `{"kind":"container.create",` + ctid + `,"name":"web","template":"busybox","offline":"stop-after 8h"}`, protocol.ErrSpec},
	{"create with a bad label", `{"kind":"container.create",` + ctid + `,"name":"web","template":"busybox","labels":["a"]}`, protocol.ErrSpec},
	{"template of a start", `{"kind":"container.start",` + ctid + `,"template":"busybox"}`, protocol.ErrSpec},
	{"too long", `{"kind":"host.run","argv":["` + strings.Repeat("a", protocol.MaxSpec) + `"]}`, protocol.ErrSpec},
}

func TestDecodeSpec(t *testing.T) {
	for _, test := range specTests {
		if _, err := protocol.DecodeRequest([]byte(test.spec)); codeOf(err) != test.want {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		want := test.want
		if test.name == "timeout below a second" {
			want = "" // asked for before that was refused, accepted, and not ended
		}
		if _, err := protocol.DecodeSpec([]byte(test.spec)); codeOf(err) != want {
			t.Errorf("%s, accepted before: %v, want %q", test.name, err, want)
		}
	}
}

func TestTimeout(t *testing.T) {
	for _, test := range []struct {
		spec string
		want time.Duration
	}{
		{`{"kind":"host.ping"}`, 0},
		{`{"kind":"host.run","argv":["a"]}`, time.Minute},
		{`{"kind":"host.run","argv":["a"],"timeout_ms":-1}`, 0},
		{`{"kind":"host.run","argv":["a"],"timeout_ms":1500}`, 1500 * time.Millisecond},
		{`{"kind":"container.stop",` + ctid + `}`, time.Hour},
		{`{"kind":"host.run","argv":["a"],"daemon":true}`, 0},
		{`{"kind":"host.run","argv":["a"],"daemon":true,"timeout_ms":1500}`, 1500 * time.Millisecond},
	} {
		s, err := protocol.DecodeSpec([]byte(test.spec))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Timeout(); got != test.want {
			t.Errorf("%s: %s, want %s", test.spec, got, test.want)
		}
	}
}
