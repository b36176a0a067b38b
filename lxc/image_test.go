//go:build linux && cgo

package lxc_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/internal/podmantest"
	"github.com/hostler-io/hostler/lxc"
)

// withImages is a machine that fetches images from a registry of its own; share has new
// containers share files where that can be.
func withImages(t *testing.T, share ...bool) (m *machine, registry string) {
	t.Helper()
	registry = podmantest.Registry(t)
	images, err := image.Open(image.Config{Dir: t.TempDir(), Registries: image.Registries{Insecure: []string{registry}}})
	if err != nil {
		t.Fatal(err)
	}
	return newMachine(t, func(c *lxc.Config) { c.Images, c.Share = images, slices.Contains(share, true) }), registry
}

// busybox is a layer that is a whole small system.
func busybox(t *testing.T) []byte {
	t.Helper()
	r, err := podmantest.Rootfs()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestImage makes containers of an image: what the image says is what runs, as users that
// no other container has.
func TestImage(t *testing.T) {
	m, registry := withImages(t)
	img := imagetest.Make(t, imagetest.Config{
		Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{`echo "$COLOUR" 'as' $(id -u):$(id -g) $PWD >/home/said; exec sleep 1000000`},
		Env: []string{"PATH=/bin", "COLOUR=dark blue"}, User: "nobody:staff", WorkingDir: "/home", StopSignal: "SIGKILL",
	}, busybox(t), imagetest.Layer(t, imagetest.Entry{Header: tarHeader("tmp/", 0o1777)}, imagetest.Entry{Header: fifo("home/said")}, imagetest.Entry{Header: tarHeader("bin/su", 0o4755), Content: "x"}))
	ref := img.Push(t, registry, "site/web", "1")
	spec := m.specs()
	spec.Template = ref
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	info := m.start(t, spec.Name)
	if info.Digest != img.Digest || info.Template != ref || info.Privileged || len(info.Addresses) != 1 {
		t.Errorf("it is %+v, want the image %s with an address", info, img.Digest)
	}
	root := filepath.Join(m.cfg.LXCPath, spec.Name, "rootfs")
	heard(t, filepath.Join(root, "home/said"), "dark blue as 65534:50 /home\n")
	su, err := os.Stat(filepath.Join(root, "bin/su"))
	if err != nil || su.Mode()&os.ModeSetuid == 0 {
		t.Errorf("bin/su: %v, %v; want a set-user-id file", su, err)
	}
	if uid := owner(t, filepath.Join(root, "bin/su")); uid < m.firstID() {
		t.Errorf("bin/su belongs to %d, a user of the host", uid)
	}
	// The same container again is nothing, and its image is not asked for again.
	if err := m.Create(t.Context(), spec); err != nil {
		t.Error(err)
	}
}

// TestImageShaped: a command, variables and a host name that were asked for go before
// those of the image, and the host name stays when the container is renamed.
func TestImageShaped(t *testing.T) {
	m, registry := withImages(t)
	img := imagetest.Make(t, imagetest.Config{
		Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"exit 1"}, Env: []string{"PATH=/bin", "COLOUR=dark blue", "SIZE=large"},
	}, busybox(t), imagetest.Layer(t, imagetest.Entry{Header: fifo("home/said")}))
	spec := m.specs()
	spec.Template, spec.Hostname = img.Push(t, registry, "site/shaped", "1"), "shaped"
	spec.Env = []string{"COLOUR=light = green", "SHAPE=round"}
	spec.Command = []string{`echo "$COLOUR, $SIZE, $SHAPE on $(hostname)" >/home/said; exec sleep 1000000`}
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	said := func(name string) {
		t.Helper()
		m.start(t, name)
		heard(t, filepath.Join(m.cfg.LXCPath, name, "rootfs/home/said"), "light = green, large, round on shaped\n")
		if _, err := m.Stop(t.Context(), name, 0); err != nil {
			t.Fatal(err)
		}
	}
	said(spec.Name)
	if err := m.Rename(t.Context(), spec.Name, spec.Name+"-b", spec.CTID); err != nil {
		t.Fatal(err)
	}
	said(spec.Name + "-b")
	if err := m.Destroy(t.Context(), spec.Name+"-b"); err != nil {
		t.Error(err)
	}
}

// TestTemplateShaped: a template takes variables and a host name, and no command.
func TestTemplateShaped(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.specs()
	spec.Command = []string{"/bin/true"}
	if err := m.Create(t.Context(), spec); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("a command for a template: %v, want ErrUnsupported", err)
	}
	spec.Command, spec.Env, spec.Hostname = nil, []string{"COLOUR=dark blue"}, "shaped"
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	info := m.start(t, spec.Name)
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", info.InitPID))
	if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), "COLOUR=dark blue") {
		t.Errorf("the variables of its first process are %q, %v", env, err)
	}
	raw, err := os.ReadFile(filepath.Join(m.cfg.LXCPath, spec.Name, "config"))
	for _, line := range []string{"lxc.uts.name = shaped\n", "lxc.start.auto = 0\n"} { // LXC's own service starts nothing
		key, _, _ := strings.Cut(line, " ")
		if err != nil || !strings.Contains(string(raw), line) || strings.Count(string(raw), key) != 1 {
			t.Errorf("its configuration is %s, %v, want %s", raw, err, line)
		}
	}
}

// TestImageWithInit boots a system from an image that has one and names only a shell.
func TestImageWithInit(t *testing.T) {
	m, registry := withImages(t)
	system := imagetest.Layer(t,
		imagetest.Entry{Header: tarHeader("sbin/", 0o755)}, imagetest.Entry{Header: link("sbin/init", "../bin/busybox")},
		imagetest.Entry{Header: fifo("root/said")},
		imagetest.Entry{Header: tarHeader("etc/inittab", 0o644), Content: "::sysinit:/bin/sh -c 'echo booted >/root/said'\n::respawn:/bin/sleep 1000000\n"})
	spec := m.specs()
	spec.Template = imagetest.Make(t, imagetest.Config{Cmd: []string{"bash"}}, busybox(t), system).Push(t, registry, "system", "1")
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	m.start(t, spec.Name)
	heard(t, filepath.Join(m.cfg.LXCPath, spec.Name, "rootfs/root/said"), "booted\n")
}

// TestImageRefused: what no image can be, says why and what to do, and leaves nothing.
func TestImageRefused(t *testing.T) {
	m, registry := withImages(t)
	other := imagetest.Config{Cmd: []string{"/bin/true"}}
	for name, tc := range map[string]struct {
		template string
		want     []string
	}{
		"no such tag":    {registry + "/nobody:1", []string{"check the name and the tag"}},
		"short":          {"debian:12", []string{"docker.io/library/debian:12"}},
		"not insecure":   {strings.Replace(registry, "127.0.0.1", "localhost", 1) + "/nobody:1", []string{"images.insecure"}},
		"damaged layer":  {imagetest.Make(t, other, []byte(strings.Repeat("no archive", 1000))).Push(t, registry, "damaged", "1"), []string{"layer 1 of 1"}},
		"nothing to run": {imagetest.Make(t, imagetest.Config{}, busybox(t)).Push(t, registry, "idle", "1"), []string{"it says no command"}},
		"upwards":        {imagetest.Make(t, other, imagetest.Layer(t, imagetest.Entry{Header: tarHeader("../evil", 0o644)})).Push(t, registry, "evil", "1"), []string{"leads upwards"}},
		"no such user":   {imagetest.Make(t, imagetest.Config{Cmd: []string{"/bin/true"}, User: "app"}, busybox(t)).Push(t, registry, "user", "1"), []string{"/etc/passwd does not have"}},
		"no template":    {"nothing-of-the-kind", []string{"is not installed", "name an image"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := m.specs()
			spec.Template = tc.template
			err := m.Create(t.Context(), spec)
			if err == nil {
				t.Fatal("it was made")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q: %v", w, err)
				}
			}
			if left, err := filepath.Glob(filepath.Join(m.cfg.LXCPath, "*")); err != nil || len(left) > 0 {
				t.Errorf("left: %q, %v", left, err)
			}
		})
	}
}

var _ container.Images = (*image.Store)(nil)
