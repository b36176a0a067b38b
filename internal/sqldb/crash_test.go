package sqldb_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/internal/sqldb"
)

// The tests of this file run a second process: this binary again, with a part to
// play in the environment.
const partVariable, pathVariable = "SQLDB_TEST_PART", "SQLDB_TEST_PATH"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(partVariable) {
	case "":
		os.Exit(m.Run())
	case "writer":
		err = playWriter(os.Getenv(pathVariable))
	case "full":
		err = playFullDisk(os.Getenv(pathVariable))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func part(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), partVariable+"="+name, pathVariable+"="+path)
	return cmd
}

func childConfig(path string) sqldb.Config {
	return sqldb.Config{Path: path, ApplicationID: 7, Migrations: migrations(schema1)}
}

// playWriter creates or opens the database and writes until it is killed. It
// prints an id when the update that wrote it was answered with nil.
func playWriter(path string) error {
	ctx, cfg := context.Background(), childConfig(path)
	db, err := sqldb.Open(ctx, cfg)
	if errors.Is(err, fs.ErrNotExist) {
		db, err = sqldb.Create(ctx, cfg)
	}
	if err != nil {
		return err
	}
	pid := os.Getpid()
	var out sync.Mutex
	var wg sync.WaitGroup
	failed := make(chan error, 8)
	for caller := range cap(failed) {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", pid, caller, i)
				if err := db.Update(ctx, put(id)); err != nil {
					failed <- err
					return
				}
				out.Lock()
				fmt.Println(id)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(<-failed, db.Close())
}

func TestAnsweredUpdatesSurviveSIGKILL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	answered := map[string]bool{}
	for round := range 12 {
		// Round 0 is killed before its first answer, so often inside Create.
		for _, id := range killAfter(t, part(t, "writer", path), round*40) {
			answered[id] = true
		}
		db, err := sqldb.Open(t.Context(), childConfig(path))
		if round == 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatalf("after kill %d: %v", round, err)
		}
		there := map[string]bool{}
		for _, id := range items(t, db) {
			there[id] = true
		}
		for id := range answered {
			if !there[id] {
				t.Errorf("after kill %d: %s was answered and is gone", round, id)
			}
		}
		closeDB(t, db)
	}
	if len(answered) < 12*11/2*40 {
		t.Errorf("only %d updates were answered", len(answered))
	}
}

// killAfter runs the writer, kills it after it has printed n ids, and returns all
// ids that it had printed.
func killAfter(t *testing.T, cmd *exec.Cmd, n int) []string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	lines := bufio.NewReader(out)
	for {
		if len(ids) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			n = -1 // what it printed until it was dead counts too
		}
		line, err := lines.ReadString('\n')
		if err != nil { // a line that was cut off was not printed
			break
		}
		ids = append(ids, strings.TrimSpace(line))
	}
	if err := cmd.Wait(); n != -1 {
		t.Fatalf("the writer ended by itself: %v: %s", err, stderr.String())
	}
	return ids
}

// TestFullDisk runs on a small file system of its own, in a mount namespace that
// ends with the process.
func TestFullDisk(t *testing.T) {
	cmd := part(t, "full", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

func playFullDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	ctx := context.Background()
	db, err := sqldb.Create(ctx, childConfig(filepath.Join(dir, "db")))
	if err != nil {
		return err
	}
	if err := db.Update(ctx, put("before")); err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if err := fillDisk(ballast); err != nil {
		return err
	}
	big := strings.Repeat("x", 200_000)
	for range 20 { // it fails each time and stays usable
		if err := db.Update(ctx, put(big)); !errors.Is(err, sqldb.ErrFull) {
			return fmt.Errorf("update on a full disk: %w, want ErrFull", err)
		}
		if err := expectRows(db, 1); err != nil {
			return fmt.Errorf("view on a full disk: %w", err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := db.Update(ctx, put(big)); err != nil {
		return fmt.Errorf("update with space again: %w", err)
	}
	if err := expectRows(db, 2); err != nil {
		return err
	}
	if s := db.Stats(); s.Lost != 20 || s.Updates != 2 {
		return fmt.Errorf("stats %+v", s)
	}
	if err := db.Close(); err != nil {
		return err
	}
	if db, err = sqldb.Open(ctx, childConfig(filepath.Join(dir, "db"))); err != nil {
		return err
	}
	return errors.Join(expectRows(db, 2), db.Close())
}

func fillDisk(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, zeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("filling the disk: %w", err)
	}
	return f.Close()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func expectRows(db *sqldb.DB, want int) error {
	return db.View(context.Background(), func(tx *sqldb.Tx) error {
		n, err := count(tx)
		if err == nil && n != want {
			err = fmt.Errorf("%d rows, want %d", n, want)
		}
		return err
	})
}
