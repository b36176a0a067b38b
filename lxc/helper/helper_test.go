//go:build linux && cgo

package helper

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner/rundir"
)

const testID = container.CTID("0192f0c1-2b3c-7d4e-8f50-0123456789ab")

func TestPayload(t *testing.T) {
	for dir, want := range map[string]string{
		"/sys/fs/cgroup/unified/lxc.payload.web":                  "/sys/fs/cgroup/unified/lxc.payload.web",
		"/sys/fs/cgroup/lxc.payload.web/init.scope":               "/sys/fs/cgroup/lxc.payload.web",
		"/sys/fs/cgroup/lxc.payload.web-1/system.slice/x.service": "/sys/fs/cgroup/lxc.payload.web-1",
		"/sys/fs/cgroup/grid/web/init.scope":                      "/sys/fs/cgroup/grid/web",
		"":                                                        "",
	} {
		if got := payload(dir); got != want {
			t.Errorf("payload(%q) = %q, want %q", dir, got, want)
		}
	}
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	if _, err := readRecord(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a record: %v, want fs.ErrNotExist", err)
	}
	want := record{Version: recordVersion, CTID: testID, Template: "busybox", State: recordCreating}
	for _, want.State = range []recordState{recordCreating, recordReady, recordDestroying} {
		if err := writeRecord(dir, want); err != nil {
			t.Fatal(err)
		}
		if got, err := readRecord(dir); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("writing left %v, %v", entries, err)
	}
	for _, bad := range []string{
		``, `{}`, `null`, `{"Version":2,"CTID":"` + string(testID) + `","State":"ready"}`,
		`{"Version":2,"CTID":"../x","State":"ready"}`, `{"Version":2,"CTID":"` + string(testID) + `","State":"odd"}`,
		`{"Version":2,"CTID":"` + string(testID) + `","State":"ready","Template":"` + strings.Repeat("x", maxRecord) + `"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := readRecord(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%.60q read as %+v, %v", bad, r, err)
		}
	}
	long := record{CTID: testID, State: recordReady, Argv: []string{strings.Repeat("x", maxRecord)}}
	if err := writeRecord(dir, long); !errors.Is(err, rundir.ErrTooLarge) {
		t.Errorf("a record that cannot be read is written: %v", err)
	}
}

// lockDir is a directory of which something may be left: who was too late for a lock waits
// on, as it would until its process ends, and may make the file anew.
func lockDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "hlt-lock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestLockIsExclusive(t *testing.T) {
	dir := filepath.Join(lockDir(t), "ct")
	first, err := lock(dir, "web", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := lock(dir, "db", time.Second); err != nil {
		t.Errorf("another lock: %v", err)
	} else {
		other.release()
	}
	if _, err := lock(dir, "web", 50*time.Millisecond); !errors.Is(err, container.ErrBusy) {
		t.Errorf("a second holder: %v, want ErrBusy", err)
	}
	first.release()
}

// TestRemovedLockIsNotTwoLocks: who waited for a lock that was removed must not
// hold the old file beside somebody with the new one.
func TestRemovedLockIsNotTwoLocks(t *testing.T) {
	dir := lockDir(t)
	first, err := lock(dir, "web", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *locked)
	go func() {
		l, err := lock(dir, "web", 10*time.Second)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	first.remove()
	second := <-got
	if _, err := lock(dir, "web", 50*time.Millisecond); !errors.Is(err, container.ErrBusy) {
		t.Errorf("a third beside the second: %v, want ErrBusy", err)
	}
	second.release()
}

func TestKeepAddress(t *testing.T) {
	rootfs := t.TempDir()
	script := filepath.Join(rootfs, "etc/init.d/rcS")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\n/bin/syslogd\n/bin/udhcpc\n/bin/mount -a\n"), 0o744); err != nil {
		t.Fatal(err)
	}
	if err := keepAddress(rootfs); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(script)
	if diff := cmp.Diff("#!/bin/sh\n/bin/syslogd\n/bin/mount -a\n", string(raw)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	// A link out of the container's files is not followed.
	outside := filepath.Join(t.TempDir(), "rcS")
	if err := os.WriteFile(outside, []byte("/bin/udhcpc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(script), os.Symlink(outside, script)); err != nil {
		t.Fatal(err)
	}
	if err := keepAddress(rootfs); err == nil {
		t.Error("a link to a file of the host was followed")
	}
}

func TestAddresses(t *testing.T) {
	var all []netip.Addr
	for _, text := range []string{"10.70.0.2", "127.0.0.1", "fe80::1", "::1", "fd00::2", "10.70.0.2", "::ffff:10.70.0.1"} {
		all = append(all, netip.MustParseAddr(text))
	}
	got := reachable(all)
	want := []netip.Addr{netip.MustParseAddr("10.70.0.1"), netip.MustParseAddr("10.70.0.2"), netip.MustParseAddr("fd00::2")}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, raw := range map[string]string{
		"no request": ``,
		"no timeout": `{"Version":11,"LXCPath":"/x","LockDir":"/y"}`,
		"a shell":    `{"Version":11,"LXCPath":"/x","LockDir":"/y","Timeout":1000000000,"Shell":"sh"}`,
	} {
		var out strings.Builder
		if err := Run(wire.OpList, strings.NewReader(raw), &out); err == nil || out.Len() > 0 {
			t.Errorf("%s: Run = %v with answer %q", name, err, out.String())
		}
	}
	for op, raw := range map[string]string{
		wire.OpStart:  `{"Version":11,"LXCPath":"/x","LockDir":"/y","Timeout":1000000000,"Name":"../x"}`,
		wire.OpList:   `{"Version":11,"LXCPath":"relative","LockDir":"/y","Timeout":1000000000}`,
		wire.OpCreate: `{"Version":11,"LXCPath":"/x","LockDir":"/y","Timeout":1000000000}`,
		"frobnicate":  `{"Version":11,"LXCPath":"/x","LockDir":"/y","Timeout":1000000000,"Name":"web"}`,
	} {
		var out strings.Builder
		if err := Run(op, strings.NewReader(raw), &out); err != nil {
			t.Fatal(err)
		}
		a, err := wire.DecodeAnswer([]byte(out.String()))
		if err != nil || a.Code != wire.CodeFailed {
			t.Errorf("%s: answer %q, %v; want code failed", op, out.String(), err)
		}
	}
}
