package network_test

import (
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/network"
)

// nft runs the program of that name in the network of the test.
func nft(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("nft", args...).CombinedOutput()
	if err != nil {
		t.Errorf("nft %q: %v: %s", args, err, out)
		runtime.Goexit()
	}
	return string(out)
}

// web is a port of a container.
var web = network.Port{Owner: "ct-web", Protocol: "tcp", Host: 8080, Container: 80, Address: netip.MustParseAddr("10.213.78.2"), Bridge: "hlt-br"}

func rules(mark string, nat bool, ports ...network.Port) network.Rules {
	return network.Rules{Mark: mark, Subnets: []network.Subnet{{Bridge: "hlt-br", Network: netip.MustParsePrefix("10.213.78.0/24"), NAT: nat}}, Ports: ports}
}

// TestApply: the rules of one owner become what it wants, whatever they were; those of
// others, in our table and elsewhere, stay.
func TestApply(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		nft(t, "add table inet theirs")
		nft(t, "add chain inet theirs hostler")
		nft(t, "add rule inet theirs hostler tcp dport 8080 accept comment \"hostler me port ct-web\"")
		must(t, network.Apply(rules("me", false)))
		if got := nft(t, "list", "tables"); strings.Contains(got, "inet hostler") {
			t.Errorf("without a wish there is a table: %s", got)
		}
		must(t, network.Apply(rules("me", false, web)))
		first := nft(t, "-a", "list", "table", "inet", "hostler")
		for _, want := range []string{
			"fib daddr type local", "tcp dport 8080 dnat ip to 10.213.78.2:80", `comment "hostler me port ct-web 8080:80/tcp 10.213.78.2"`,
			"ip saddr 127.0.0.0/8 oifname \"hlt-br\" masquerade", "ip daddr 127.0.0.0/8 drop", "ct status ! dnat drop",
		} {
			if !strings.Contains(first, want) {
				t.Errorf("no %q in\n%s", want, first)
			}
		}
		// As it should be, it is not touched: the handles are the old ones.
		must(t, network.Apply(rules("me", false, web)))
		if diff := cmp.Diff(first, nft(t, "-a", "list", "table", "inet", "hostler")); diff != "" {
			t.Errorf("applied again (-first +now):\n%s", diff)
		}
		for _, setting := range []string{"ip_forward", "conf/hlt-br/route_localnet"} {
			if b, err := os.ReadFile("/proc/sys/net/ipv4/" + setting); err != nil || strings.TrimSpace(string(b)) != "1" {
				t.Errorf("%s is %q, %v", setting, b, err)
			}
		}

		// Another agent of the machine, and somebody who writes by hand.
		dns := network.Port{Owner: "ct-dns", Protocol: "udp", Host: 53, Container: 5353, Address: netip.MustParseAddr("10.213.78.3"), Bridge: "hlt-br"}
		must(t, network.Apply(rules("other", true, dns)))
		nft(t, "add rule inet hostler forward ip daddr 10.99.0.1 drop comment \"hand made\"")
		marked := func(mark string) (texts []string) {
			all, err := network.Marked(mark)
			must(t, err)
			for _, r := range all {
				if r.Owner != "" {
					texts = append(texts, r.Chain+": "+r.Text)
				}
			}
			return texts
		}
		if diff := cmp.Diff([]string{"output: port ct-web 8080:80/tcp 10.213.78.2", "prerouting: port ct-web 8080:80/tcp 10.213.78.2"}, marked("me")); diff != "" {
			t.Errorf("rules of me (-want +got):\n%s", diff)
		}
		// It has moved, and its old rules were flushed by somebody.
		moved := web
		moved.Address = netip.MustParseAddr("10.213.78.9")
		nft(t, "flush", "chain", "inet", "hostler", "output")
		must(t, network.Apply(rules("me", false, moved)))
		if diff := cmp.Diff([]string{"output: port ct-web 8080:80/tcp 10.213.78.9", "prerouting: port ct-web 8080:80/tcp 10.213.78.9"}, marked("me")); diff != "" {
			t.Errorf("moved (-want +got):\n%s", diff)
		}
		must(t, network.Apply(rules("me", false)))
		if got := marked("me"); got != nil {
			t.Errorf("left are %q", got)
		}
		if got := marked("other"); len(got) != 1 { // the one in the chain that was flushed is gone
			t.Errorf("of another agent %q is left", got)
		}
		if got := nft(t, "list", "ruleset"); !strings.Contains(got, "hand made") || !strings.Contains(got, "table inet theirs") || !strings.Contains(got, "goes out") {
			t.Errorf("what others have made is gone:\n%s", got)
		}
		nft(t, "delete", "rule", "inet", "hostler", "forward", "handle", handleOf(t, "hand made"))
		must(t, network.Apply(rules("other", false)))
		// Without the rule that keeps containers from it, the host's loopback is not theirs.
		if b, err := os.ReadFile("/proc/sys/net/ipv4/conf/hlt-br/route_localnet"); err != nil || strings.TrimSpace(string(b)) != "0" {
			t.Errorf("route_localnet stays %q, %v", b, err)
		}
		if got := nft(t, "list", "tables"); strings.Contains(got, "inet hostler") {
			t.Errorf("the table is left: %s", got)
		}
	})
}

// TestFound: what was found as it should be is made again when somebody has changed it, and
// when something else is wanted.
func TestFound(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		other := web
		other.Host = 8081
		var found network.Found
		apply := func(ports ...network.Port) {
			r := rules("me", false, ports...)
			r.Found = &found
			must(t, network.Apply(r))
		}
		has := func(when string, ports ...string) {
			t.Helper()
			got := nft(t, "list", "ruleset")
			for _, port := range []string{"8080", "8081"} {
				if strings.Contains(got, "dport "+port) != slices.Contains(ports, port) {
					t.Errorf("%s, for ports %q there is\n%s", when, ports, got)
				}
			}
		}
		for range 3 {
			apply(web)
			has("applied", "8080")
		}
		if found == (network.Found{}) {
			t.Error("nothing was found")
		}
		nft(t, "flush", "ruleset")
		apply(web)
		has("flushed", "8080")
		apply(web)
		apply(web, other)
		has("with another", "8080", "8081")
		apply(web, other)
		nft(t, "delete", "rule", "inet", "hostler", "prerouting", "handle", handleOf(t, "8081:80"))
		apply(web, other)
		if n := strings.Count(nft(t, "list", "ruleset"), "dport 8081"); n != 2 {
			t.Errorf("a rule that was removed is back %d times of 2", n)
		}
		apply()
		has("without any")
	})
}

// handleOf finds the handle of a rule by its comment.
func handleOf(t *testing.T, comment string) string {
	t.Helper()
	for line := range strings.Lines(nft(t, "-a", "list", "table", "inet", "hostler")) {
		if strings.Contains(line, comment) {
			_, handle, _ := strings.Cut(strings.TrimSpace(line), "# handle ")
			return handle
		}
	}
	t.Errorf("there is no rule %q", comment)
	return ""
}

// TestListener: a port that a process has is told with the process.
func TestListener(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.Configure("lo", netip.Prefix{}))
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		must(t, unix.Bind(fd, &unix.SockaddrInet6{Port: 8080}))
		udp, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(udp)
		must(t, unix.Bind(udp, &unix.SockaddrInet4{Port: 53}))
		check := func(protocol string, port uint16, taken bool) {
			t.Helper()
			who, err := network.Listener(protocol, port)
			if err != nil || strings.Contains(who, strconv.Itoa(os.Getpid())) != taken || (who != "") != taken {
				t.Errorf("port %d/%s is had by %q, %v", port, protocol, who, err)
			}
		}
		check("tcp", 8080, false) // it is bound, and nobody listens
		must(t, unix.Listen(fd, 1))
		check("tcp", 8080, true)
		check("udp", 8080, false)
		check("tcp", 53, false)
		check("udp", 53, true)
	})
}
