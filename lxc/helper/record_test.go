//go:build linux && cgo

package helper

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
)

// TestOneBit turns each bit of a record: it is refused, and is nobody's.
func TestOneBit(t *testing.T) {
	dir := t.TempDir()
	want := record{CTID: container.CTID("0192f0c1-2b3c-7d4e-8f50-0123456789ab"), Template: "busybox", State: recordReady}
	if err := writeRecord(dir, want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, recordFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * (len(raw) - 1) {
		raw[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := readRecord(dir); err == nil {
			t.Fatalf("bit %d turned: it is taken as %+v", bit, r)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

// FuzzReadRecord reads bytes as the file that makes a container ours: what is
// taken is written and read as the same.
func FuzzReadRecord(f *testing.F) {
	for _, seed := range []string{
		`{"Version":1,"CTID":"0192f0c1-2b3c-7d4e-8f50-0123456789ab","Template":"busybox","State":"ready"}`,
		`{"Version":1,"CTID":"0192f0c1-2b3c-7d4e-8f50-0123456789ab","State":"asleep"}`, `{"Version":9}`, `{"Version":1,"CTID":"../x","State":"ready"}`, `null`, `{`, ``,
	} {
		f.Add([]byte(seed))
		if strings.HasSuffix(seed, "}") {
			f.Add(rundir.AppendSum([]byte(seed)))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, recordFile), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := readRecord(dir)
		if err != nil {
			return
		}
		if err := writeRecord(dir, r); err != nil {
			t.Fatal(err)
		}
		if again, err := readRecord(dir); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%q is taken as %+v, and then as %+v: %v", raw, r, again, err)
		}
	})
}
