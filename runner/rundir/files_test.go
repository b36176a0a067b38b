package rundir

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockIsExclusive(t *testing.T) {
	d := Dir(t.TempDir())
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	want := Holder{PID: os.Getpid(), StartTicks: 5, Leaf: "/x/hostler.a.1"}
	if err := WriteHolder(lock, &want); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("second Lock: %v, want ErrLocked", err)
	}
	if got, err := d.Holder(); err != nil || *got != want {
		t.Errorf("Holder = %v, %v", got, err)
	}
	// A fork of this process has the open file, too, until its exec.
	fork, err := unix.Dup(int(lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fork)
	Unlock(lock)
	again, err := d.Lock()
	if err != nil {
		t.Fatalf("Lock after the release: %v", err)
	}
	Unlock(again)
}

func TestCreateStartIsExclusive(t *testing.T) {
	d := Dir(t.TempDir())
	s := &Start{Boot: "b", PID: 1, Keep: NewKeep(MinCap, true)}
	if err := d.CreateStart(s); err != nil {
		t.Fatal(err)
	}
	if err := d.CreateStart(s); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second: %v, want ErrExist", err)
	}
	if got, err := d.Start(); err != nil || *got != *s {
		t.Errorf("Start = %v, %v", got, err)
	}
}

// A shorter record over the reserved space leaves nothing of it behind.
func TestPublishExitAfterReserve(t *testing.T) {
	d := Dir(t.TempDir())
	if err := d.ReserveExit(); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(d.Path(exitTmp), &st); err != nil || st.Blocks == 0 {
		t.Errorf("no space reserved: %v, %d blocks", err, st.Blocks)
	}
	want := Exit{Code: 3, Detail: "x"}
	if err := d.PublishExit(&want); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Exit(); err != nil || *got != want {
		t.Errorf("Exit = %v, %v", got, err)
	}
	info, err := os.Stat(d.Path(ExitFile))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestReadsAreCapped(t *testing.T) {
	d := Dir(t.TempDir())
	if err := os.WriteFile(d.Path(ExitFile), []byte(strings.Repeat(" ", MaxRecord+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Exit(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("oversized exit.json: %v, want ErrTooLarge", err)
	}
	if err := os.Symlink("/etc/passwd", d.Path(StartFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(); !errors.Is(err, unix.ELOOP) {
		t.Errorf("symlink: %v, want ELOOP", err)
	}
}

// TestWhatIsWrittenCanBeRead: a record that its reader would refuse is not written.
func TestWhatIsWrittenCanBeRead(t *testing.T) {
	d := Dir(t.TempDir())
	long := strings.Repeat("x", MaxSpec)
	for name, err := range map[string]error{
		SpecFile:  d.CreateSpec(&Spec{Argv: []string{"true", long}, Dir: "/"}),
		StartFile: d.CreateStart(&Start{Leaf: long}),
		ExitFile:  d.PublishExit(&Exit{Detail: long}),
	} {
		if !errors.Is(err, ErrTooLarge) || d.Has(name) {
			t.Errorf("%s: %v, and it is there: %v; want ErrTooLarge", name, err, d.Has(name))
		}
	}
	path := d.Path("record")
	for _, size := range []int{10, 4} { // a shorter one leaves nothing of what stood there
		f, err := WriteCapped(path, make([]byte, size), 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if b, err := ReadCapped(path, 10); err != nil || len(b) != size {
			t.Errorf("%d bytes, %v; %d were written", len(b), err, size)
		}
	}
}

func TestBootNamesPID1(t *testing.T) {
	boot, err := Boot()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Boot(); boot != again || len(boot) < 38 {
		t.Errorf("boots %q and %q", boot, again)
	}
	if _, err := StartTicks(1 << 29); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent process: %v, want ErrNotExist", err)
	}
}
