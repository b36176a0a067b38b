package podman_test

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestShaped: the host name, the variables and the command that were asked for are those
// of the container.
func TestShaped(t *testing.T) {
	m := newMachine(t)
	spec := m.specs()
	spec.Hostname, spec.Env = "shaped", []string{"COLOUR=light = green"}
	spec.Command = []string{"/bin/sh", "-c", `echo "$COLOUR on $(hostname)"; exec sleep 1000000`}
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Start(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	go func() {
		write.CloseWithError(m.Log(t.Context(), spec.Name, container.LogQuery{Tail: 10, Follow: true}, write, io.Discard))
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	read.Close()
	if err != nil || line != "light = green on shaped\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
		t.Error(err)
	}
	if err := m.Destroy(t.Context(), spec.Name); err != nil {
		t.Error(err)
	}
}

// TestImages: podman's images are listed, pulled anew, and removed unless a container has
// them.
func TestImages(t *testing.T) {
	registry := podmantest.Registry(t)
	m := newMachine(t, registry)
	name := registry + "/web:12"
	m.service.Podman(t, "push", "--quiet", podmantest.Image, name)
	digest := ""
	has := func(want string) (found bool) {
		t.Helper()
		all, err := m.Images().List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range all {
			for _, r := range i.References {
				if r == want && i.Bytes > 0 && len(i.Digest) > 60 {
					found, digest = true, i.Digest
				}
			}
		}
		return found
	}
	if has(name) {
		t.Errorf("%s is there before it was pulled", name)
	}
	if err := m.Images().Pull(t.Context(), name); err != nil || !has(name) {
		t.Fatalf("%s was pulled: %v, and is not there", name, err)
	}
	if err := m.Images().Pull(t.Context(), registry+"/none:1"); err == nil {
		t.Error("what is not there was pulled")
	}
	for _, lxcs := range []string{"images:debian/12", "debootstrap:bookworm"} {
		if err := m.Images().Pull(t.Context(), lxcs); !errors.Is(err, container.ErrUnsupported) || !strings.Contains(err.Error(), "use LXC") {
			t.Errorf("%s: %v", lxcs, err)
		}
	}
	spec := m.specs()
	spec.Template = name
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if info, err := m.Inspect(t.Context(), spec.Name); err != nil || info.Digest != digest {
		t.Errorf("it is made of %q, %v, want %q", info.Digest, err, digest)
	}
	m.service.Podman(t, "untag", podmantest.Image, podmantest.Image) // else it only loses a name
	if err := m.Images().Remove(t.Context(), name); !errors.Is(err, container.ErrBusy) {
		t.Errorf("removing what a container has: %v, want ErrBusy", err)
	}
	if err := m.Destroy(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Images().Prune(t.Context(), time.Hour*24*365*100); err != nil || !has(name) {
		t.Errorf("a young image was pruned: %v", err)
	}
	if err := m.Images().Remove(t.Context(), name); err != nil || has(name) {
		t.Errorf("removing it: %v", err)
	}
	if err := m.Images().Remove(t.Context(), name); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("removing it again: %v, want ErrNotFound", err)
	}
}
