// Package podmantest starts podman's service for tests, with images and containers of
// its own. It needs root, podman and runc, and busybox as a static program.
package podmantest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Image is what Start puts into the service's store: busybox, and an init that obeys.
const Image = "localhost/hostler-test:1"

// Service is podman with a store of its own.
type Service struct {
	Socket string
	dir    string
	cmd    *exec.Cmd
}

// conf is what a root user without CAP_SYS_RESOURCE on a hybrid hierarchy of control
// groups needs, where crun does not work.
const conf = `[containers]
default_ulimits=["nofile=1024:1024","nproc=4096:4096"]
[network]
dns_bind_port=0
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
`

// Start starts the service, which ends with the test and takes its containers along. It
// takes images of these registries without TLS.
func Start(t testing.TB, registries ...string) *Service {
	t.Helper()
	dir, err := os.MkdirTemp("", "hpt") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Socket: filepath.Join(dir, "podman.sock"), dir: dir}
	if err := os.WriteFile(filepath.Join(dir, "containers.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	insecure := ""
	for _, r := range registries {
		insecure += fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", r)
	}
	if err := os.WriteFile(filepath.Join(dir, "registries.conf"), []byte(insecure), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.remove(t) })
	s.Up(t)
	// The kernel keeps signals from a first process that has no handler for them yet, so
	// only one that needs none obeys from its first moment on.
	s.Image(t, Image, `CMD ["/bin/sleep","1000000"]`, "STOPSIGNAL SIGKILL")
	return s
}

// Podman runs podman's own command line on the store of the service.
func (s *Service) Podman(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("podman %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Try is Podman for what may fail.
func (s *Service) Try(args ...string) error {
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (s *Service) command(args ...string) *exec.Cmd {
	cmd := exec.Command("podman", append([]string{"--root", filepath.Join(s.dir, "root"), "--runroot", filepath.Join(s.dir, "runroot"), "--storage-driver", "overlay"}, args...)...)
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(s.dir, "containers.conf"), "CONTAINERS_REGISTRIES_CONF="+filepath.Join(s.dir, "registries.conf"))
	return cmd
}

// Next returns what waits for the next event of a container.
func (s *Service) Next(t testing.TB, event, name string) (wait func()) {
	t.Helper()
	since := time.Now().Format(time.RFC3339Nano)
	return func() {
		t.Helper()
		cmd := s.command("events", "--since", since, "--filter", "event="+event, "--filter", "container="+name)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill() // it goes on for ever
			_ = cmd.Wait()         // killed
		}()
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("waiting for the %s of %s: %v", event, name, err)
		}
	}
}

// Up starts the service after Down. It takes over a socket that listens already, so
// whoever asks from now on is answered.
func (s *Service) Up(t testing.TB) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := os.OpenFile(filepath.Join(s.dir, "service.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	podman := s.command("system", "service", "--time=0")
	s.cmd = exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"`, "sh"}, podman.Args...)...)
	s.cmd.Env, s.cmd.ExtraFiles = podman.Env, []*os.File{f}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// Ends waits until a service that cannot run has ended. Its socket stays.
func (s *Service) Ends() { _ = s.cmd.Wait() } // it fails

// Down kills the service and takes its socket away. Its containers go on.
func (s *Service) Down(t testing.TB) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // killed
	s.cmd = nil
	if err := os.Remove(s.Socket); err != nil {
		t.Error(err)
	}
}

// Database is the file in which podman keeps what it knows of its containers.
func (s *Service) Database(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"libpod/bolt_state.db", "db.sql"} { // the second since podman 5
		path := filepath.Join(s.dir, "root", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("podman has no database")
	return ""
}

// remove takes everything away.
func (s *Service) remove(t testing.TB) {
	s.Down(t)
	if t.Failed() {
		if log, err := os.ReadFile(filepath.Join(s.dir, "service.log")); err == nil {
			t.Logf("podman said: %s", log[max(0, len(log)-4096):])
		}
	}
	// What podman starts to tidy up after a container may still be at work, and holds its
	// mounts busy meanwhile.
	out, err := s.command("rm", "--all", "--force", "--time", "0").CombinedOutput()
	for tries := 0; err != nil && tries < 50; tries++ {
		out, err = s.command("rm", "--all", "--force", "--time", "0").CombinedOutput()
	}
	if err != nil {
		t.Errorf("podman rm --all: %v: %s", err, out)
	}
	for tries := 0; tries < 1000; tries++ {
		// The store is mounted on itself, and again by any podman that still tidies up.
		err = syscall.Unmount(filepath.Join(s.dir, "root", "overlay"), syscall.MNT_DETACH)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
			err = nil
		}
		if err = errors.Join(err, os.RemoveAll(s.dir)); err == nil {
			return
		}
	}
	t.Error(err)
}

// Registry starts Debian's docker-registry, which ends with the test, and returns its
// address.
func Registry(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %q\nhttp:\n  addr: 127.0.0.1:0\n", filepath.Join(dir, "images"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker-registry", "serve", config)
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() { // it ends with the registry
		defer close(address)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
				at, _, _ = strings.Cut(at, "\"")
				select {
				case address <- strings.TrimSpace(at):
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
	at, ok := <-address
	if !ok {
		t.Fatal("the registry does not listen")
	}
	return at
}

// Image puts busybox into the store under a name, with changes to its configuration,
// and returns the name.
func (s *Service) Image(t testing.TB, name string, changes ...string) string {
	t.Helper()
	if !strings.Contains(name, "/") {
		name = "localhost/" + name + ":1"
	}
	rootfs, err := Rootfs()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.Socket)
	}}}
	query := url.Values{"reference": {name}, "changes": changes}
	resp, err := client.Post("http://podman/v4.0.0/libpod/images/import?"+query.Encode(), "application/x-tar", rootfs)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)); resp.StatusCode != http.StatusOK {
		t.Fatalf("importing an image: %s", b)
	}
	return name
}

// Rootfs is the root directory of an image as a tar archive: busybox with its links.
func Rootfs() (io.Reader, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	names, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its names: %w", path, err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	when := time.Unix(1, 0)
	add := func(h tar.Header, content string) {
		h.ModTime, h.Size = when, int64(len(content))
		err = errors.Join(err, w.WriteHeader(&h))
		_, e := io.WriteString(w, content)
		err = errors.Join(err, e)
	}
	for _, dir := range []string{"bin", "etc", "root", "home", "tmp", "dev", "proc", "sys"} {
		add(tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}, "")
	}
	add(tar.Header{Name: "bin/busybox", Mode: 0o755}, string(program))
	for name := range strings.FieldsSeq(string(names)) {
		if name != "busybox" {
			add(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, "")
		}
	}
	add(tar.Header{Name: "etc/passwd", Mode: 0o644}, "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/sh\n")
	add(tar.Header{Name: "etc/group", Mode: 0o644}, "root:x:0:\nnogroup:x:65534:\nstaff:x:50:nobody\n")
	return &b, errors.Join(err, w.Close())
}
