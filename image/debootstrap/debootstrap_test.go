package debootstrap_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/debootstrap"
	"github.com/hostler-io/hostler/image/imagetest"
)

// TestMake shows what is asked of the program, and tidies up behind it.
func TestMake(t *testing.T) {
	imagetest.Debootstrap(t, `set -e
echo "I: $*"
echo "I: proxies $http_proxy $https_proxy, process $$"
mkdir -p "$5/etc" "$5/var/cache/apt/archives" "$5/var/lib/apt/lists"
touch "$5/etc/hostname" "$5/etc/resolv.conf" "$5/etc/passwd" "$5/var/cache/apt/archives/a_1.deb" "$5/var/lib/apt/lists/mirror_Packages" "$5/var/lib/apt/lists/lock"
`)
	dir := filepath.Join(t.TempDir(), "root")
	var told []string
	err := debootstrap.Make(t.Context(), debootstrap.Request{Suite: "bookworm", Mirror: "http://mirror.example/debian", Proxy: "http://proxy.example:3128", Dir: dir}, func(s string) { told = append(told, s) })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--variant=minbase --force-check-gpg --include=init bookworm " + dir + " http://mirror.example/debian",
		"proxies http://proxy.example:3128 http://proxy.example:3128, process 1",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	for name, stays := range map[string]bool{
		"etc/passwd": true, "var/lib/apt/lists/lock": true,
		"etc/hostname": false, "etc/resolv.conf": false, "var/cache/apt/archives/a_1.deb": false, "var/lib/apt/lists/mirror_Packages": false,
	} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMakeFails says what the program said last, also into its log, and what may help.
func TestMakeFails(t *testing.T) {
	for script, want := range map[string][]string{
		`mkdir -p "$5/debootstrap"
for i in 1 2 3 4 5 6; do echo "log $i"; done >"$5/debootstrap/debootstrap.log"
echo "E: Failed getting release file http://mirror.example/debian/dists/x/Release"
exit 1
`: {"exit status 1", "log 6; E: Failed getting release", "images.debootstrap"},
		"echo 'E: No such script: /usr/share/debootstrap/scripts/x'; exit 1\n":        {"check the name of the suite"},
		"echo 'E: Keyring-based check was requested; aborting accordingly'; exit 1\n": {"debian-archive-keyring"},
		"echo 'E: Cannot install into target mounted with noexec or nodev'; exit 1\n": {"without these options"},
		"exit 3\n": {"exit status 3", "it said nothing"},
		"head -c 100000 /dev/zero | tr '\\0' a\nexit 1\n": {strings.Repeat("a", 10)},
	} {
		imagetest.Debootstrap(t, script)
		dir := filepath.Join(t.TempDir(), "root")
		err := debootstrap.Make(t.Context(), debootstrap.Request{Suite: "x", Mirror: "http://mirror.example/debian", Dir: dir}, nil)
		failed, ok := errors.AsType[*debootstrap.Error](err)
		if !ok {
			t.Fatalf("%s: %v", script, err)
		}
		said := err.Error() + "; " + failed.Hint
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("it says %q, want %q", said, w)
			}
		}
		if len(said) > 4000 || strings.Contains(said, "log 2") {
			t.Errorf("it says %d bytes: %s", len(said), said)
		}
	}
}

// TestMakeMissing names the package that has to be installed.
func TestMakeMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := debootstrap.Make(t.Context(), debootstrap.Request{}, nil)
	failed, ok := errors.AsType[*debootstrap.Error](err)
	if !ok || !errors.Is(err, container.ErrUnsupported) || !strings.Contains(failed.Hint, "install the package debootstrap") {
		t.Errorf("%v", err)
	}
}

// asleep puts a script in the place of debootstrap that sleeps in a process of its own. All
// of it has ended when the pipe ends.
func asleep(t *testing.T) (pipe string) {
	t.Helper()
	pipe = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	imagetest.Debootstrap(t, "exec 3>"+pipe+"\nsleep 1000000 &\necho I: sleeps\nwait\n")
	return pipe
}

// TestMakeEnds: when the context ends, no process of the program is left.
func TestMakeEnds(t *testing.T) {
	pipe, err := os.OpenFile(asleep(t), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	err = debootstrap.Make(ctx, debootstrap.Request{Suite: "x", Dir: t.TempDir()}, func(string) { cancel(over) })
	if !errors.Is(err, over) {
		t.Errorf("%v", err)
	}
	if _, err := io.ReadAll(pipe); err != nil { // waits for what still runs
		t.Error(err)
	}
}

// killed has a process of this test make a directory, until it is killed.
const killed = "HOSTLER_TEST_MAKES"

// TestMakeKilled: the program ends with a process that was killed.
func TestMakeKilled(t *testing.T) {
	if dir := os.Getenv(killed); dir != "" {
		t.Error(debootstrap.Make(t.Context(), debootstrap.Request{Suite: "x", Dir: dir}, nil))
		return
	}
	name := asleep(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestMakeKilled$")
	cmd.Env = append(os.Environ(), killed+"="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(name) // when the program runs
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if _, err := io.ReadAll(pipe); err != nil {
		t.Error(err)
	}
}

// TestIsSuite takes names that lead nowhere else and are no options.
func TestIsSuite(t *testing.T) {
	for name, want := range map[string]bool{
		"bookworm": true, "sid": true, "trixie-backports": true, "": false, "-x": false, "../x": false, "a/b": false, "Bookworm": false,
		"bookworm@sha256:12": false, "a b": false, "a\n": false, strings.Repeat("a", 64): false,
	} {
		if debootstrap.IsSuite(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}
