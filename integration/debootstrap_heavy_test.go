//go:build integration && heavy

package integration

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDebootstrap has a host make Debian of the packages of the real mirror, once, and boots
// two containers of it, which have the users and the identities of none other.
func TestDebootstrap(t *testing.T) {
	t.Parallel()
	const ref = "debootstrap:bookworm"
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.cli(t, "ct", "create", "edge-01/no", "debootstrap:no-such-suite").exits(t, 1, "No such script", "check the name of the suite")
	if out := w.cli(t, "image", "pull", "edge-01", ref, "--runtime", "lxc").exits(t, 0); !strings.Contains(out.stdout+out.stderr, "making "+ref+": Retrieving ") {
		t.Errorf("it said nothing of its steps: %s%s", out.stdout, out.stderr)
	}
	digest := func() string {
		t.Helper()
		all := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindAllString(w.must(t, "image", "ls", "edge-01", "-o", "json"), -1)
		if len(all) != 1 {
			t.Fatalf("the images are %v", all)
		}
		return all[0]
	}
	made := digest()
	ids := make(map[string]bool)
	for _, name := range []string{"one", "two"} {
		w.cli(t, "ct", "create", "edge-01/"+name, ref, "--start").exits(t, 0)
		in := func(argv ...string) string {
			t.Helper()
			return strings.TrimSpace(w.must(t, append([]string{"exec", "edge-01/" + name, "--"}, argv...)...))
		}
		if v := in("cat", "/etc/debian_version"); !strings.HasPrefix(v, "12.") {
			t.Errorf("%s is Debian %s", name, v)
		}
		if init := in("cat", "/proc/1/comm"); init != "systemd" {
			t.Errorf("in %s, %s is the first process", name, init)
		}
		if got := in("cat", "/etc/hostname"); got != name {
			t.Errorf("%s is called %s", name, got)
		}
		if m := strings.Fields(in("cat", "/proc/self/uid_map")); len(m) != 3 || m[0] != "0" || m[1] == "0" {
			t.Errorf("the users of %s are %v", name, m)
		}
		if owner := in("stat", "-c", "%U:%G", "/etc/shadow"); owner != "root:shadow" {
			t.Errorf("the passwords of %s are of %s", name, owner)
		}
		ids[in("sh", "-c", "until [ -s /etc/machine-id ]; do sleep 0.1; done; cat /etc/machine-id")] = true
		if debs := in("sh", "-c", "ls /var/cache/apt/archives/*.deb /etc/resolv.conf 2>/dev/null | grep -c deb || true"); debs != "0" {
			t.Errorf("%s packages were left in %s", debs, name)
		}
	}
	if len(ids) != 2 {
		t.Errorf("the machines are %v", ids)
	}
	if now := digest(); now != made {
		t.Errorf("it was made again: %s, then %s", made, now)
	}
	if _, err := os.Stat(h.path("images/parts")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(h.path("images/building")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
	w.cli(t, "image", "rm", "edge-01", ref, "--yes").exits(t, 0)
	if out := w.must(t, "exec", "edge-01/one", "--", "cat", "/etc/debian_version"); !strings.HasPrefix(out, "12.") {
		t.Errorf("without its image, it is %s", out)
	}
}
