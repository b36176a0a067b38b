package hostcmd_test

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/agent/hostcmd"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/protocol"
)

// TestImagesAreBounded: a host tells its commands how large an image may be, whichever
// runtimes it has; without it they would take none.
func TestImagesAreBounded(t *testing.T) {
	h := hostcmd.Host{Podman: "/run/podman.sock", Images: hostcmd.ImageSetup{Dir: "/images", MaxBytes: 7}}
	for _, kinds := range [][]container.Kind{{container.KindLXC}, {container.KindPodman}, {container.KindLXC, container.KindPodman}} {
		var runtimes []container.Runtime
		for _, k := range kinds {
			runtimes = append(runtimes, containertest.NewFake(k))
		}
		all, err := h.Printers(runtimes)
		if err != nil {
			t.Fatal(err)
		}
		var setup struct {
			Dir, Podman string
			MaxBytes    int64
		}
		raw := ""
		for _, a := range all[protocol.KindImageImport] {
			if rest, ok := strings.CutPrefix(a, "--setup="); ok {
				raw = rest
			}
		}
		if err := json.Unmarshal([]byte(raw), &setup); err != nil {
			t.Fatalf("%v: %q: %v", kinds, raw, err)
		}
		if setup.MaxBytes != 7 {
			t.Errorf("%v: an image may have %d bytes, want 7", kinds, setup.MaxBytes)
		}
		if lxc, podman := setup.Dir != "", setup.Podman != ""; lxc != slices.Contains(kinds, container.KindLXC) || podman != slices.Contains(kinds, container.KindPodman) {
			t.Errorf("%v: the commands are told of %+v", kinds, setup)
		}
	}
}

// TestSigningIsForArchives: the key of a host is needed for archives, and for nothing else
// that is done with images.
func TestSigningIsForArchives(t *testing.T) {
	lost := errors.New("the key of the host is lost")
	c := hostcmd.Config{Signing: func(string) (hostcmd.Signing, error) { return hostcmd.Signing{}, lost }}
	all, err := hostcmd.Host{Program: "agent", State: t.TempDir(), Images: hostcmd.ImageSetup{Dir: t.TempDir(), MaxBytes: 1}}.Printers([]container.Runtime{containertest.NewFake(container.KindLXC)})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[protocol.Kind]error{
		protocol.KindImageList: nil, protocol.KindImagePrune: nil, protocol.KindImageRemove: image.ErrNotFound, protocol.KindImagePull: image.ErrReference,
		protocol.KindImageExport: lost, protocol.KindImageImport: lost, protocol.KindImageImportUnsigned: lost,
	} {
		argv := all[kind][1:]
		if kind == protocol.KindImageRemove || kind == protocol.KindImagePull {
			argv = append(slices.Clone(argv), "--image=localhost/web:1")
		}
		for _, cmd := range c.Commands() {
			if cmd.Name() != argv[0] {
				continue
			}
			cmd.SetArgs(argv[1:])
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", kind, err, want)
			}
		}
	}
}

// TestPullGoesWhereItCan: an image that podman cannot have is one for LXC, without a word
// about the runtime.
func TestPullGoesWhereItCan(t *testing.T) {
	c := hostcmd.Config{Podman: func(socket string) (*podman.Runtime, error) { return podman.New(podman.Config{Socket: socket}) }}
	host := hostcmd.Host{Program: "agent", Podman: filepath.Join(t.TempDir(), "none.sock"), Images: hostcmd.ImageSetup{Dir: t.TempDir(), MaxBytes: 1}}
	all, err := host.Printers([]container.Runtime{containertest.NewFake(container.KindLXC), containertest.NewFake(container.KindPodman)})
	if err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]error{"images:debian/12": image.ErrReference, "registry.example/debian:12": container.ErrUnavailable} {
		argv := append(slices.Clone(all[protocol.KindImagePull][1:]), "--image="+reference)
		for _, cmd := range c.Commands() {
			if cmd.Name() != argv[0] {
				continue
			}
			cmd.SetArgs(argv[1:])
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", reference, err, want)
			}
		}
	}
}
