//go:build heavy

package main

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSameBytes builds once more, from a copy in another place if the tree is that of a
// commit, and compares every byte. Secrets in the environment, and in files that git
// ignores, change none of them: they are in no package.
func TestSameBytes(t *testing.T) {
	const secret = "sesame-of-who-builds"
	t.Setenv("HOSTLER_TOKEN", secret)
	t.Setenv("GIT_AUTHOR_NAME", secret)
	root := ".."
	if output(t, "git", "status", "--porcelain") == "" {
		root = filepath.Join(t.TempDir(), "another", "place")
		output(t, "git", "clone", "-q", "--no-hardlinks", "..", root)
		if err := os.Mkdir(filepath.Join(root, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "bin/owner.key"), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	if err := run(t.Context(), root, out, []string{"amd64", "arm64"}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" {
			continue
		}
		second, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		first, err := os.ReadFile(filepath.Join(dist, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s has other bytes when it is built again", e.Name())
		}
		same++
	}
	if same != 24 { // a deb, an rpm and a list of each, for two architectures
		t.Errorf("%d files, want 24: %v", same, entries)
	}
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--quiet", "--check", "SHA256SUMS")
	cmd.Dir = dist
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the sums: %v\n%s", err, out)
	}
}

// TestMachines: the packages for each architecture are there, the one with cgo included,
// and what is in them is for that architecture.
func TestMachines(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		found, err := filepath.Glob(filepath.Join(dist, "*_"+arch+".deb"))
		rpms, e := filepath.Glob(filepath.Join(dist, "*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]+".rpm"))
		if err != nil || e != nil || len(found) != 4 || len(rpms) != 4 {
			t.Errorf("%s has %d debs and %d rpms, want 4 and 4; make package says which could not be built: %v, %v", arch, len(found), len(rpms), err, e)
		}
		root := t.TempDir()
		for _, deb := range found {
			output(t, "dpkg-deb", "-x", deb, root)
		}
		programs := 0
		for _, pattern := range []string{"usr/bin/*", "usr/libexec/hostler/*"} {
			all, err := filepath.Glob(filepath.Join(root, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range all {
				f, err := elf.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				if f.Machine != machine {
					t.Errorf("%s of %s is for %s", filepath.Base(path), arch, f.Machine)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				programs++
			}
		}
		if programs != 5 {
			t.Errorf("%s has %d programs, want 5", arch, programs)
		}
	}
}
