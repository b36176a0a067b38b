// Package btrfstest gives tests a file system of btrfs. It needs root, a loop device and
// Debian's btrfs-progs.
package btrfstest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// size is that of the file system in bytes; its file takes what is written to it.
const size = 1 << 30

// Mount returns the directory of a new file system, which every user may pass through.
// It goes at the end of the test.
func Mount(t *testing.T) string {
	t.Helper()
	// Not t.TempDir: its length would not fit into the names of liblxc's sockets.
	top, err := os.MkdirTemp("", "hbt")
	if err != nil {
		t.Fatal(err)
	}
	image, dir := filepath.Join(top, "image"), filepath.Join(top, "fs")
	t.Cleanup(func() {
		run(t, "umount", dir)
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	})
	for _, err := range []error{os.Chmod(top, 0o711), os.WriteFile(image, nil, 0o600), os.Truncate(image, size), os.Mkdir(dir, 0o711)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run(t, "mkfs.btrfs", "-q", image)
	run(t, "mount", "-o", "loop", image, dir)
	return dir
}

func run(t *testing.T, argv ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%q: %v: %s", argv, err, out)
	}
}
