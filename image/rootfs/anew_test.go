package rootfs_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
)

// host is a root directory whose keys and ids have other names, before and behind their own.
func host(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(root, "etc/ssh"), 0o755), os.MkdirAll(filepath.Join(root, "a"), 0o755),
		os.MkdirAll(filepath.Join(root, "srv"), 0o755), os.MkdirAll(filepath.Join(root, "var/lib/systemd"), 0o755))
	for name, content := range map[string]string{
		"etc/machine-id": "secret id", "var/lib/systemd/random-seed": "secret seed", "etc/motto": "known",
		"etc/ssh/ssh_host_rsa_key": "secret key", "etc/ssh/ssh_host_rsa_key.pub": "secret key", "srv/key": "secret key", "etc/ssh/sshd_config": "known",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	for _, l := range [][2]string{
		{"etc/ssh/ssh_host_rsa_key", "a/key"}, {"etc/ssh/ssh_host_rsa_key", "srv/old"}, {"etc/machine-id", "a/id"}, {"etc/machine-id", "srv/id"},
		{"var/lib/systemd/random-seed", "a/seed"}, {"etc/motto", "a/motto"},
	} {
		err = errors.Join(err, os.Link(filepath.Join(root, l[0]), filepath.Join(root, l[1])))
	}
	// A link leads to the key where it would lead in the container.
	if err := errors.Join(err, os.Symlink("/srv/key", filepath.Join(root, "etc/ssh/ssh_host_ed25519_key"))); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestArchiveAnew: what copies must not have in common with a container is in no archive of
// it, whatever other names it has, and what is like it stays.
func TestArchiveAnew(t *testing.T) {
	var b bytes.Buffer
	if _, err := rootfs.ArchiveAnew(t.Context(), host(t), container.IDRange{}, &b); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil || strings.Contains(string(content), "secret") {
			t.Errorf("%s holds %q, %v", h.Name, content, err)
		}
		got[h.Name] = true
	}
	for _, name := range []string{"etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_rsa_key.pub", "etc/ssh/ssh_host_ed25519_key", "a/key", "srv/old", "srv/key"} {
		if got[name] {
			t.Errorf("%s is in the archive", name)
		}
	}
	for _, name := range []string{"etc/machine-id", "a/id", "srv/id", "a/seed", "etc/motto", "a/motto", "etc/ssh/sshd_config"} {
		if !got[name] {
			t.Errorf("%s is not in the archive", name)
		}
	}
}

// TestRenew: so it is with a copy, of which no name of a key holds it.
func TestRenew(t *testing.T) {
	root := host(t)
	if err := rootfs.Renew(root); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if name, _ := filepath.Rel(root, path); strings.Contains(string(content), "secret") && name != "srv/key" {
			t.Errorf("%s holds %q", name, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(root, "etc/ssh/ssh_host_*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
