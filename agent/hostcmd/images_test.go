package hostcmd_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/agent/hostcmd"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
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
