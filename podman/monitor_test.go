package podman_test

import (
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
)

// TestStopWaitsForTheMonitor: a container is stopped when podman has tidied up after it, which
// ends later than podman's answer to the stop.
func TestStopWaitsForTheMonitor(t *testing.T) {
	monitor := exec.Command("/bin/sh", "-c", "read end; sleep 0.3")
	end, err := monitor.StdinPipe()
	if err == nil {
		err = monitor.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = monitor.Process.Kill(); _ = monitor.Wait() })
	runs := func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", monitor.Process.Pid))
		return err == nil && !strings.Contains(string(b), ") Z ")
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false // by one request after the other
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case strings.HasSuffix(req.URL.Path, "/stop"):
			stopped = true
			w.WriteHeader(http.StatusNoContent)
			if err := end.Close(); err != nil {
				t.Error(err)
			}
		case stopped:
			if runs() {
				t.Error("the container was looked at again while its monitor runs")
			}
			fmt.Fprintf(w, `{"Id":"%s","Name":"web","State":{"Status":"exited"}}`, strings.Repeat("a", 64))
		default:
			fmt.Fprintf(w, `{"Id":"%s","Name":"web","State":{"Status":"running","Pid":%d,"ConmonPid":%d}}`, strings.Repeat("a", 64), os.Getppid(), monitor.Process.Pid)
		}
	}))
	service.Listener.Close()
	service.Listener = l
	service.Start()
	t.Cleanup(service.Close)
	r, err := podman.New(podman.Config{Socket: l.Addr().String(), Supervisor: []string{"/supervisor"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if info, err := r.Stop(t.Context(), "web", 0); err != nil || info.State != container.StateStopped {
		t.Errorf("it is %v, %v", info.State, err)
	}
}
