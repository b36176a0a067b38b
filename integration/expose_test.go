//go:build integration

package integration

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// TestExpose has ports of a host lead to a container of LXC. Each host is a machine of its
// own, with a network and a packet filter of its own.
func TestExpose(t *testing.T) {
	t.Parallel()
	l := newLab(t, "2")
	host, other := "edge-01", "edge-02"
	address := l.nodes[host].Address
	l.must(t, "ct", "create", host+"/web", "--template", "busybox", "--start", "--expose", "8080:80")
	serve(t, l, host+"/web", "web")
	web := l.container(t, host+"/web", "has an address", func(c ct) bool { return c.Address != "" })
	gateway := netip.MustParsePrefix(web.Address + "/24").Masked().Addr().Next().String()
	fetch := func(from, url, want string) {
		t.Helper()
		if got := l.curl(t, from, url); got != want {
			t.Errorf("%s, asking %s, is told %q, want %q", from, url, got, want)
		}
	}
	t.Run("from everywhere", func(t *testing.T) {
		fetch(host, "http://127.0.0.1:8080/", "web")
		fetch(host, "http://"+address+":8080/", "web")
		fetch(other, "http://"+address+":8080/", "web")
		l.must(t, "ct", "create", host+"/db", "--template", "busybox", "--start")
		for _, from := range []string{"/db", "/web"} { // and from the container itself
			if got := l.must(t, "exec", host+from, "--", "wget", "-qO-", "http://"+gateway+":8080/"); got != "web" {
				t.Errorf("%s is told %q", from, got)
			}
		}
	})
	t.Run("nothing else of a container is reached", func(t *testing.T) {
		l.inside(t, other, "ip", "route", "add", web.Address+"/32", "via", address)
		fetch(other, "http://"+web.Address+":80/", "")
		fetch(other, "http://"+address+":8080/", "web")
	})
	t.Run("what is taken is refused, with who has it", func(t *testing.T) {
		l.cli(t, "net", "expose", host+"/db", "8080:80").exits(t, 1, "leads to container web")
		p := l.start(t, "hostler", "run", host, "--", "busybox", "nc", "-l", "-p", "9090")
		l.listens(t, host, 9090)
		l.cli(t, "net", "expose", host+"/db", "9090:80").exits(t, 1, "is taken by busybox")
		l.cli(t, "net", "expose", host+"/db", "9090").exits(t, 2, "HOST-PORT:CONTAINER-PORT")
		l.inside(t, host, "sh", "-c", "echo over | busybox nc 127.0.0.1 9090")
		p.finish(t).exits(t, 0)
		l.must(t, "net", "expose", host+"/db", "9090:80")
	})
	t.Run("it is known whose everything is", func(t *testing.T) {
		parts := show[[]api.NetworkPart](t, l.world, "net", "ls", host)
		of := func(kind, owner string) (names []string) {
			for _, p := range parts {
				if p.Kind == kind && p.Owner == owner && p.Orphan == "" {
					names = append(names, p.Name)
				}
			}
			return names
		}
		if ports, cables := of("port", "web"), of("cable", "web"); !slices.Equal(ports, []string{"8080:80/tcp"}) || len(cables) != 1 {
			t.Errorf("web has the ports %q and the cables %q", ports, cables)
		}
		if bridges, foreign := of("bridge", ""), of("cable", ""); len(bridges) != 1 || len(foreign) != 0 {
			t.Errorf("there are the bridges %q and the cables of others %q", bridges, foreign)
		}
		if all := l.must(t, "net", "show", host, "db"); !strings.Contains(all, "9090:80/tcp") || strings.Contains(all, "8080") {
			t.Errorf("of db is shown:\n%s", all)
		}
		if out := l.must(t, "net", "cleanup", host); out != "" {
			t.Errorf("of what is in use %q was removed", out)
		}
	})
	t.Run("over restarts of everything", func(t *testing.T) {
		l.must(t, "ct", "restart", host+"/web")
		serve(t, l, host+"/web", "again")
		fetch(other, "http://"+address+":8080/", "again")
		l.inside(t, host, "nft", "flush", "ruleset")
		l.dev(t, "kill", host).exits(t, 0)
		l.dev(t, "heal", host).exits(t, 0)
		l.must(t, "ct", "start", host+"/web") // what is told of it may be from before the boot
		serve(t, l, host+"/web", "booted")
		fetch(other, "http://"+address+":8080/", "booted")
		fetch(host, "http://127.0.0.1:8080/", "booted")
	})
	t.Run("the port of names", func(t *testing.T) {
		l.must(t, "net", "expose", host+"/db", "53:53/udp")
		if got := l.must(t, "exec", host+"/db", "--", "nslookup", "web.hostler"); !strings.Contains(got, web.Address) {
			t.Errorf("while a container has port 53, web leads to %s", got)
		}
		l.must(t, "net", "unexpose", host+"/db", "53/udp")
	})
	t.Run("until it is freed", func(t *testing.T) {
		l.inside(t, host, "nft", "add table inet theirs")
		l.must(t, "net", "unexpose", host+"/web", "8080")
		l.must(t, "net", "unexpose", host+"/web", "8080")
		fetch(host, "http://127.0.0.1:8080/", "")
		l.must(t, "ct", "rm", host+"/db", "--yes")
		l.must(t, "run", host, "--", "true")
		if rules := l.inside(t, host, "nft", "list", "ruleset"); strings.Contains(rules, "8080") {
			t.Errorf("the packet filter has:\n%s", rules)
		}
		l.must(t, "ct", "rm", host+"/web", "--yes")
		rules := ""
		for end := time.Now().Add(patience); time.Now().Before(end); elapse(t, 100*time.Millisecond) {
			if rules = l.inside(t, host, "nft", "list", "ruleset"); !strings.Contains(rules, "hostler") {
				break
			}
		}
		if strings.Contains(rules, "hostler") || !strings.Contains(rules, "theirs") {
			t.Errorf("without containers, the packet filter has:\n%s", rules)
		}
	})
}

// serve has a container answer with a word on port 80.
func serve(t testing.TB, l *lab, where, word string) {
	t.Helper()
	l.must(t, "exec", where, "--daemon", "--", "sh", "-c", `mkdir -p /www && printf %s "$0" >/www/index.html && exec httpd -f -p 80 -h /www`, word)
}

// inside runs a program on a node, and returns what it prints.
func (l *lab) inside(t testing.TB, node string, argv ...string) string {
	t.Helper()
	return l.cli(t, append([]string{"run", node, "--"}, argv...)...).stdout
}

// curl asks a URL from a node, and returns the answer, which is empty if there is none.
func (l *lab) curl(t testing.TB, node, url string) string {
	t.Helper()
	return l.inside(t, node, "curl", "--silent", "--max-time", "3", "--noproxy", "*", url)
}

// listens waits until a process of a node listens on a port.
func (l *lab) listens(t testing.TB, node string, port int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); elapse(t, 20*time.Millisecond) {
		if out := l.inside(t, node, "ss", "-H", "-l", "-t", "-n", "sport = :"+strconv.Itoa(port)); out != "" {
			return
		}
	}
	t.Fatalf("nobody listens on port %d of %s", port, node)
}
