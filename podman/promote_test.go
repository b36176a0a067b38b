package podman_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// TestPromoteChrooted: the image of a container has all its files, also if its first process
// has taken another directory for its root; and nothing stays mounted.
func TestPromoteChrooted(t *testing.T) {
	m := newMachine(t)
	spec := m.specs()
	spec.Command = []string{"/bin/sh", "-c", `touch /outside; mkdir /jail; cp -a /bin /jail/; exec chroot /jail /bin/sh -c "echo caged; exec sleep 1000000"`}
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
	if err != nil || line != "caged\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	for _, ref := range []string{"localhost/running:1", "localhost/stopped:1"} {
		if ref == "localhost/stopped:1" {
			m.service.Podman(t, "stop", "--time", "0", spec.Name)
			m.service.Podman(t, "mount", spec.Name) // as an agent leaves it that is killed
		}
		if err := m.Promote(t.Context(), spec.Name, container.Promotion{Reference: ref, Key: ref, Kept: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if files := m.service.Podman(t, "run", "--rm", "--network", "none", ref, "/bin/ls", "/"); !strings.Contains(files, "outside") || !strings.Contains(files, "jail") {
			t.Errorf("%s has %q", ref, files)
		}
	}
	if mounts := m.service.Podman(t, "mount"); mounts != "" {
		t.Errorf("mounted: %q", mounts)
	}
	if err := m.Destroy(t.Context(), spec.Name); err != nil {
		t.Error(err)
	}
}
