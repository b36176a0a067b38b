package podman_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/runner/rundir"
)

// TestFirstProcessIsOfTheContainer: a process that is younger than the question for the
// container's first process is not taken for it, neither for the container's files nor for
// a command. Its root directory may be the host's.
func TestFirstProcessIsOfTheContainer(t *testing.T) {
	ticks, err := rundir.StartTicks(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	for _, young := range []int{1, 1000} {
		r := answering(t, young)
		f, err := r.Files(t.Context(), "web")
		if young == 1 && (err != nil || f.InitPID != os.Getppid() || f.InitTicks != ticks) {
			t.Errorf("after one restart: %+v, %v; want process %d of %d", f, err, os.Getppid(), ticks)
		}
		if young > 1 && !errors.Is(err, container.ErrNotRunning) {
			t.Errorf("with another process each time: %+v, %v", f, err)
		}
		r = answering(t, young)
		s, err := r.Exec(t.Context(), "web")
		if young == 1 && (err != nil || s.Target["init_pid"] != fmt.Sprint(os.Getppid()) || s.Target["init_ticks"] != fmt.Sprint(ticks)) {
			t.Errorf("a command after one restart: %+v, %v", s, err)
		}
		if young > 1 && !errors.Is(err, container.ErrNotRunning) {
			t.Errorf("a command with another process each time: %+v, %v", s, err)
		}
	}
}

// answering is podman with one container that runs. It answers, so many times, with the
// number of a process that has begun only after the question, then with an older one.
func answering(t *testing.T, young int) *podman.Runtime {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0 // by one request after the other
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasSuffix(req.URL.Path, "/containers/web/json") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		pid := os.Getppid()
		if asked++; asked <= young {
			cmd := exec.Command("/bin/sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			pid = cmd.Process.Pid
		}
		fmt.Fprintf(w, `{"Id":"%s","Name":"web","OCIRuntime":"/usr/bin/crun","State":{"Status":"running","Pid":%d}}`, strings.Repeat("a", 64), pid)
	}))
	service.Listener.Close()
	service.Listener = l
	service.Start()
	t.Cleanup(service.Close)
	r, err := podman.New(podman.Config{Socket: socket, Supervisor: []string{"/supervisor"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
