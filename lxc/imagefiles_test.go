//go:build linux && cgo

package lxc_test

import (
	"archive/tar"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/lxc"
)

func tarHeader(name string, mode int64) tar.Header {
	h := tar.Header{Name: name, Mode: mode, ModTime: time.Unix(1, 0), Typeflag: tar.TypeReg}
	if strings.HasSuffix(name, "/") {
		h.Typeflag = tar.TypeDir
	}
	return h
}

func link(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
}

func fifo(name string) tar.Header {
	return tar.Header{Name: name, Mode: 0o666, Typeflag: tar.TypeFifo}
}

func (m *machine) firstID() uint32 { return lxc.DefaultIDs.First }

// heard waits until a container has written to a pipe of its own.
func heard(t *testing.T, pipe, want string) {
	t.Helper()
	f, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0) // so there is always one who writes
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(f, got); err != nil || string(got) != want {
		t.Errorf("%s says %q, %v; want %q", pipe, got[:n], err, want)
	}
}
