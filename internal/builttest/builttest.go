// Package builttest gives tests the programs as they are shipped. make builds them once
// for all packages, in the directory that HOSTLER_BIN names; without it, a program is
// built when the first test asks, and kept for the next ones.
package builttest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// S3Server is a store that speaks S3, of a module of its own: only tests need it.
const S3Server = "s3server"

// Program returns the path of a program of cmd/, or of [S3Server].
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := program(name)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

func program(name string) (string, error) {
	if dir := os.Getenv("HOSTLER_BIN"); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("HOSTLER_BIN names a directory without the program: %w", err)
		}
		return path, nil
	}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	// One directory for each copy of the tree; go build leaves there what is up to date.
	path := filepath.Join(cache, "hostler-test", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16], name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	source, dir := "./cmd/"+name, root
	if name == S3Server {
		source, dir = "github.com/versity/versitygw/cmd/versitygw", filepath.Join(root, "integration", S3Server)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, source)
	cmd.Dir = dir
	if name != "hostler-lxc" {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", name, err, out)
	}
	return path, nil
}
