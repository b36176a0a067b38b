package devices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/protocol/data"
)

// program prints what it is told, one line, and fails with that as its reason.
const program = `#!/bin/sh
in=$(cat)
case $in in
action=metadata) echo '<resource-agent name="x"><parameters><parameter name="plug"/><parameter name="ip"/><parameter name="password"/></parameters><actions><action name="on"/><action name="off"/><action name="status"/></actions></resource-agent>' ;;
*) echo $in; exit 1 ;;
esac
`

// place is a directory of devices, with files as they are given, mode 0600.
func place(t *testing.T, files map[string]string) Dir {
	t.Helper()
	d := Dir{Path: t.TempDir(), Run: agents.Runner{Dir: t.TempDir()}}
	if err := builttest.Write(filepath.Join(d.Run.Dir, "fence_x"), program); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(d.Path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func args(device, verb, plug string) data.Fence {
	return data.Fence{Device: device, Verb: verb, Plug: plug, Host: "edge-07", LimitMS: 20_000}
}

// TestAsk: what the device is told comes from the files of the host alone, and no secret is
// in an answer.
func TestAsk(t *testing.T) {
	t.Parallel()
	d := place(t, map[string]string{
		"pdu.toml":    "agent = \"fence_x\"\nplugs = [\"4\", \"5\"]\n[params]\nip = \"192.0.2.7\"\n[secrets]\npassword = \"pdu.secret\"\n",
		"pdu.secret":  "s3cret\n",
		"all.toml":    "agent = \"fence_x\"\n",
		"typo.toml":   "agent = \"fence_x\"\nplug = [\"4\"]\n",
		"other.toml":  "agent = \"../../bin/sh\"\n",
		"gone.toml":   "agent = \"fence_gone\"\n",
		"line.toml":   "agent = \"fence_x\"\n[params]\nip = \"1\\naction=off\"\n",
		"ours.toml":   "agent = \"fence_x\"\n[params]\naction = \"off\"\n",
		"lost.toml":   "agent = \"fence_x\"\n[secrets]\npassword = \"nothing\"\n",
		"climbs.toml": "agent = \"fence_x\"\n[secrets]\npassword = \"../pdu.secret\"\n",
		"open.toml":   "agent = \"fence_x\"\n[secrets]\npassword = \"open.secret\"\n",
		"open.secret": "s",
		"long.toml":   "agent = \"fence_x\"\n#" + strings.Repeat("x", maxFile),
		"theirs.toml": "agent = \"fence_x\"\n",
	})
	for name, mode := range map[string]os.FileMode{"open.secret": 0o644, "theirs.toml": 0o666} {
		if err := os.Chmod(filepath.Join(d.Path, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		ask  data.Fence
		ok   bool
		says string
	}{
		{"described", args("pdu", "describe", ""), true, "ok: agent=fence_x plug=plug on status"},
		{"told", args("pdu", "off", "4"), false, "failed: ip=192.0.2.7 password=… power_timeout=15 nodename=edge-07 plug=4 action=off"},
		{"any plug", args("all", "off", "9"), false, "failed: power_timeout=15 nodename=edge-07 plug=9 action=off"},
		{"a plug that is not allowed", args("pdu", "off", "6"), false, `failed: plug "6" of device pdu is not among plugs in`},
		{"no such device", args("none", "off", "4"), false, "failed: this host has no fence device none:"},
		{"a name that climbs", args("../pdu", "off", "4"), false, "failed: the name is not made of"},
		{"a typing error", args("typo", "off", "4"), false, "plug"},
		{"a program elsewhere", args("other", "off", "4"), false, "is no program of fence-agents"},
		{"a program that is not there", args("gone", "off", "4"), false, "install the package fence-agents"},
		{"a line end", args("line", "off", "4"), false, "the value has a line end"},
		{"a parameter that is ours", args("ours", "off", "4"), false, "parameter action is set for each operation"},
		{"a secret that is not there", args("lost", "off", "4"), false, "secret password of device lost:"},
		{"a secret elsewhere", args("climbs", "off", "4"), false, "is no name of a file"},
		{"a secret that others read", args("open", "off", "4"), false, "chmod 600"},
		{"a file that is too long", args("long", "off", "4"), false, "has more than"},
		{"a file that others write", args("theirs", "off", "4"), false, "can be changed by others than root"},
	} {
		answer, ok := d.Ask(t.Context(), c.ask)
		if ok != c.ok || !strings.Contains(answer, c.says) || strings.Contains(answer, "s3cret") {
			t.Errorf("%s: %q, %t; want %q, %t", c.name, answer, ok, c.says, c.ok)
		}
		if _, told := agents.ParseAnswer(answer); !told {
			t.Errorf("%s: %q is no answer", c.name, answer)
		}
	}
}

// TestOpenDirectory: in a directory that others can write to, a file of root can be replaced.
func TestOpenDirectory(t *testing.T) {
	t.Parallel()
	d := place(t, map[string]string{"all.toml": "agent = \"fence_x\"\n"})
	if err := os.Chmod(d.Path, 0o777); err != nil {
		t.Fatal(err)
	}
	if answer, ok := d.Ask(t.Context(), args("all", "describe", "")); ok || !strings.Contains(answer, "chmod go-w "+d.Path) {
		t.Errorf("%q, %t", answer, ok)
	}
}

// TestFenceDummy is Debian's program, whose device is a file.
func TestFenceDummy(t *testing.T) {
	t.Parallel()
	status := filepath.Join(t.TempDir(), "status")
	d := place(t, map[string]string{"dummy.toml": "agent = \"fence_dummy\"\n[params]\nstatus_file = \"" + status + "\"\n"})
	d.Run.Dir = agents.Dir
	for _, c := range []struct{ verb, says string }{{"describe", "ok: agent=fence_dummy on status"}, {"on", "ok: "}, {"status", "ok: "}, {"off", "ok: "}, {"status", "off: "}} {
		a := args("dummy", c.verb, "")
		a.LimitMS = time.Minute.Milliseconds()
		if answer, ok := d.Ask(t.Context(), a); !ok || !strings.HasPrefix(answer, c.says) {
			t.Errorf("%s: %q, %t, want %q", c.verb, answer, ok, c.says)
		}
	}
}
