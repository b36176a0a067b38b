package volume_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/volume"
)

// TestFill: a volume is made with the files of an archive, all of them or none; made again
// it is the same, until a container has it. Others are made meanwhile.
func TestFill(t *testing.T) {
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "row"), []byte("one"), 0o640); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "archive")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if _, err := rootfs.Archive(t.Context(), from, container.IDRange{}, io.MultiWriter(f, sum)); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	s := &volume.Store{Dir: filepath.Join(t.TempDir(), "volumes")}
	if err := s.Fill("data", 1, container.Layer{Path: path, Plain: true, DiffID: "sha256:00"}); !errors.Is(err, rootfs.ErrLayer) {
		t.Errorf("with another digest: %v", err)
	}
	if all, err := os.ReadDir(s.Dir); err != nil || len(all) > 0 {
		t.Fatalf("it has left %v, %v", all, err)
	}
	part := container.Layer{Path: path, Plain: true, DiffID: "sha256:" + hex.EncodeToString(sum.Sum(nil))}
	for range 2 {
		if err := s.Fill("data", 7, part); err != nil {
			t.Fatal(err)
		}
	}
	dir, ids, err := s.Files("data")
	raw, err2 := os.ReadFile(filepath.Join(dir, "row"))
	if err != nil || err2 != nil || ids.Count != 0 || string(raw) != "one" {
		t.Errorf("%v, %v, %+v: %q", err, err2, ids, raw)
	}
	if err := s.Fill("data", 7, container.Layer{Path: path, Plain: true, DiffID: "sha256:11"}); !errors.Is(err, container.ErrExists) {
		t.Errorf("other files: %v", err)
	}
	if err := s.Own(context.Background(), "data", container.IDRange{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fill("data", 7, part); !errors.Is(err, container.ErrExists) {
		t.Errorf("after a container had it: %v", err)
	}
}
