//go:build integration

package integration

import (
	"archive/tar"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// pageWorld is the fleet on which pages are played: edge-07 has LXC and podman, edge-01 and
// edge-02 hold unique containers. A registry and a server have images, and fence devices are
// files.
type pageWorld struct {
	*world
	first    *host // edge-07
	podman   *podmantest.Service
	registry string
	server   string // has archives of root directories
	listen   string // of edge-01, for other machines
}

// pageSystem is the root directory of a system.
func pageSystem(t *testing.T) []byte {
	t.Helper()
	rootfs, err := podmantest.Rootfs()
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(rootfs)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// pageLayer lets LXC boot such a system.
func pageLayer(t *testing.T, motto string) []byte {
	t.Helper()
	return imagetest.Layer(t, imagetest.Entry{Header: tar.Header{Name: "etc/motto", Mode: 0o644}, Content: motto},
		imagetest.Entry{Header: tar.Header{Name: "etc/app/", Typeflag: tar.TypeDir, Mode: 0o755}},
		imagetest.Entry{Header: tar.Header{Name: "sbin/", Typeflag: tar.TypeDir, Mode: 0o755}},
		imagetest.Entry{Header: tar.Header{Name: "sbin/init", Mode: 0o755}, Content: "#!/bin/sh\nexec /bin/sleep 1000000\n"})
}

// imageServer serves an archive, as an image server and by its own address.
func imageServer(t *testing.T, archive []byte) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/streams/v1/index.json":
			fmt.Fprint(rw, `{"format":"index:1.0","index":{"images":{"datatype":"image-downloads","format":"products:1.0","path":"streams/v1/images.json"}}}`)
		case "/streams/v1/images.json":
			fmt.Fprintf(rw, `{"format":"products:1.0","products":{"d":{"aliases":"debian/bookworm,debian/12","arch":%q,"versions":{"20240101_05:24":{"items":{"r":{"ftype":"root.tar.xz","path":"images/rootfs.tar.xz","sha256":"%x","size":%d}}}}}}}`,
				runtime.GOARCH, sha256.Sum256(archive), len(archive))
		case "/images/rootfs.tar.xz", "/web.tar.xz":
			_, _ = rw.Write(archive) // a host that goes away asks again
		default:
			http.NotFound(rw, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// pageSwitch is a program of fence-agents whose device is a file beside it, and which leaves
// the power to the processes of the host.
const pageSwitch = `#!/bin/sh
while IFS='=' read -r key value; do
	case $key in
	action) action=$value ;;
	plug) plug=$value ;;
	esac
done
file=$0.state$plug
case $action in
metadata) echo '<resource-agent name="x"><parameters><parameter name="ip"/><parameter name="username"/><parameter name="password"/><parameter name="plug"/></parameters><actions><action name="on"/><action name="off"/><action name="status"/><action name="monitor"/></actions></resource-agent>' ;;
on | off) printf %s "$action" >"$file" ;;
status) [ "$(cat "$file" 2>/dev/null)" != off ] || exit 2 ;;
monitor) ;;
*) exit 1 ;;
esac
`

func newPageWorld(t *testing.T) *pageWorld {
	t.Helper()
	w := &pageWorld{world: newWorld(t), registry: podmantest.Registry(t), listen: freeAddress(t)}
	w.givesImages(t)
	w.hasFenceDevices(t)

	w.podman = podmantest.Start(t, w.registry)
	site := strings.TrimPrefix(w.server, "http://")
	targets := fmt.Sprintf("[backups]\ntargets = [\"nas=%s\", \"away=%s\"]\n", w.path("nas"), w.path("away/mount"))
	w.first = w.newHost(t, "edge-07", true)
	mkdir(t, w.first.path("fence"))
	write(t, w.first.path("fence/pdu-2.secret"), "secret\n")
	w.joins(t, w.first, "", targets+fmt.Sprintf("[podman]\nuse = \"on\"\nsocket = %q\n[images]\nservers = [\"images=%s\"]\ninsecure = [%q, %q]\n[fence]\ndevices_dir = %q\nagents_dir = %q\n",
		w.podman.Socket, w.server, site, w.registry, w.first.path("fence"), w.path("agents")))
	for name, top := range map[string]string{"edge-01": fmt.Sprintf("http.listen = %q\n", w.listen), "edge-02": ""} {
		w.joins(t, w.newHost(t, name, true), top, "[unique]\nguard = true\n"+targets)
	}
	w.must(t, "alert", "rule", "set", "full", "disk=1%/15s:critical", "edge-07") // it is raised when the page about it is played
	return w
}

// joins lets a host in whose configuration has more at its beginning and at its end.
func (w *pageWorld) joins(t *testing.T, h *host, top, more string) {
	t.Helper()
	write(t, h.config(), top+read(t, h.config())+more)
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", h.name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
}

// givesImages fills the registry and the server.
func (w *pageWorld) givesImages(t *testing.T) {
	t.Helper()
	system := pageSystem(t)
	for _, name := range []string{"web:2", "web:3", "web:4", "db:16", "tools:3", "debian:12"} {
		repository, tag, _ := strings.Cut(name, ":")
		imagetest.Make(t, imagetest.Config{Cmd: []string{"/bin/sleep", "1000000"}, StopSignal: "SIGKILL"}, system, pageLayer(t, name)).Push(t, w.registry, repository, tag)
	}
	file := w.path("root.tar")
	if err := os.WriteFile(file, append(system[:len(system)-1024], pageLayer(t, "of a file")...), 0o600); err != nil {
		t.Fatal(err)
	}
	packed, err := exec.Command("xz", "-c", "-1", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	w.server = imageServer(t, packed).URL
	mkdir(t, w.path("app"))
}

// hasFenceDevices makes the programs of fence devices, and has the coordinator use them.
func (w *pageWorld) hasFenceDevices(t *testing.T) {
	t.Helper()
	mkdir(t, w.path("agents"))
	for _, name := range []string{"fence_ipmilan", "fence_apc"} {
		if err := builttest.Write(w.path("agents/"+name), pageSwitch); err != nil {
			t.Fatal(err)
		}
	}
	write(t, w.path("agents/bmc-07"), "secret\n")
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+
		"[lease]\nmin_self_fence = \"guard\"\nttl_seconds = 12\nkill_seconds = 2\nmargin_seconds = 1\n"+fmt.Sprintf("[fence]\ngrace_seconds = 1\nreconnect_seconds = 2\nagents_dir = %q\nsecrets_dir = %q\n", w.path("agents"), w.path("agents")))
	w.coordinator.end(t, term)
	w.startCoordinator(t)
}

// byHand are lines of pages that people type on a host of their own, and what stands in
// comments and no program does.
func (w *pageWorld) byHand(t *testing.T) map[string]func() {
	return map[string]func(){
		"systemctl stop hostler-agent":  func() { w.first.agent.end(t, term) },
		"systemctl start hostler-agent": func() { w.first.start(t) },
		"edge-07 is off": func() {
			w.first.agent.end(t, kill)
			elapse(t, 13*time.Second) // a host that was heard within the time of a lease is not off
		},
		"edge-07 is on": func() { w.first.start(t) },
		"strangers": func() {
			w.strangerOf(t, w.first, "old-web")
			w.podman.Podman(t, "run", "--detach", "--name", "db", "--network", "none", podmantest.Image)
			w.sees(t, "edge-07", "old-web", "stopped")
			w.sees(t, "edge-07", "db", "running")
		},
	}
}

// here puts what this machine has in place of what pages name.
func (w *pageWorld) here(t *testing.T) *strings.Replacer {
	t.Helper()
	port := func() string {
		_, port, _ := strings.Cut(freeAddress(t), ":")
		return port
	}
	own := fmt.Sprint(os.Getpid()) // the bridges of networks are those of the whole machine
	key := publicKeySum(t, w.path("edge-01/tls.key"))
	return strings.NewReplacer(
		"/bin/job --all", "/bin/sleep 1000000", "/bin/web, --all", "/bin/sleep, '1000000'", "registry.example/", w.registry+"/",
		" IMAGE ", " "+w.registry+"/web:3 ", "https://site.example", w.server, "file:/srv/web", "file:"+w.path("root.tar"), "layout.tar", "web.image", " /etc/app:", " "+w.path("app")+":",
		"apt-get -y upgrade", "sleep 1", "systemctl restart nginx", "true",
		"8080", port(), "53:53", port()+":53", "edge-01:7070", w.listen, "sha256//…", "sha256//"+key,
		"edge-08", "edge-01", "edge-09", "edge-02", "edge-10", "edge-01", "gw-01", "edge-07",
		"edge-07 hostler0", "edge-07 "+w.first.bridge, "edge-07# hostler --local", "hostler --socket "+w.first.socket(), "/run/hostler/agent.sock", w.first.socket(),
		"hostler-agent fsck", "hostler-agent --config "+w.first.config()+" fsck",
		"10.71.0.0/24", freeSubnet(t).String(), "edge-07 lab", "edge-07 l"+own, "edge-07 back", "edge-07 b"+own, "--network back", "--network b"+own,
		"key generate releases", "key generate releases --no-passphrase", "partition edge-07 --for 2m", "partition edge-07 --for 10s",
	)
}

// publicKeySum is the checksum of the public key of a private one, as curl --pinnedpubkey takes it.
func publicKeySum(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		t.Fatalf("%s is no PEM", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.(crypto.Signer).Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	return base64.StdEncoding.EncodeToString(sum[:])
}
