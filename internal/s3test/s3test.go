// Package s3test starts a store that speaks S3 for tests: the gateway of Versity, over a
// directory.
package s3test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/builttest"
)

// Bucket is the name of the one that Start makes.
const Bucket = "backups"

// Server is a store with one bucket.
type Server struct {
	Address     string // HOST:PORT, without TLS
	Credentials string // the file with its key
	Dir         string // of the objects of the bucket

	dir string
	cmd *exec.Cmd
}

// Key and Secret are who may do all.
const (
	Key    = "hostler"
	Secret = "only-for-tests"
)

// Start starts a store, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{Address: free(t), Credentials: filepath.Join(dir, "key"), Dir: filepath.Join(dir, "files", Bucket), dir: dir}
	for _, d := range []string{s.Dir, filepath.Join(dir, "meta")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.Credentials, []byte(Key+":"+Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Down)
	s.Up(t)
	return s
}

// URL is that of the bucket, or of a part of it.
func (s *Server) URL(prefix string) string {
	return fmt.Sprintf("s3+http://%s/%s/%s", s.Address, Bucket, prefix)
}

// Up starts a store that is down, with the objects that it had.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(builttest.Program(t, builttest.S3Server), "--quiet", "--access", Key, "--secret", Secret, "--port", s.Address,
		"posix", "--sidecar", filepath.Join(s.dir, "meta"), filepath.Join(s.dir, "files"))
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for until := time.Now().Add(20 * time.Second); ; <-look.C {
		c, err := net.Dial("tcp", s.Address)
		if err == nil {
			_ = c.Close() // it is there
			return
		}
		if time.Now().After(until) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the store does not answer: %v: %s", err, text)
		}
	}
}

// Down kills the store.
func (s *Server) Down() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // killed
	s.cmd = nil
}

// free is an address at which nothing listens.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
