package hostcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/protocol"
)

// TestKeysAreForNewBackups: a file of keys that cannot be used fails a backup that is made,
// and none of the other commands about backups.
func TestKeysAreForNewBackups(t *testing.T) {
	all, err := Host{Program: "hostler-agent", EncryptTo: "/etc/hostler/backup.pub"}.Printers(nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, argv := range all {
		if got := slices.Contains(argv, "--encrypt-to=/etc/hostler/backup.pub"); got != (kind == protocol.KindBackup) {
			t.Errorf("%s is given the keys: %t", kind, got)
		}
	}
}

// TestMeasured: a measure tells how much the files of a container and of its volumes take, and
// a directory that is missing fails it.
func TestMeasured(t *testing.T) {
	root, volume := t.TempDir(), t.TempDir()
	for _, dir := range []string{root, volume} {
		if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := measured(t.Context(), api.Backup{Container: "web"}, []backup.Tree{{Root: volume}, {Root: root}}, &out); err != nil {
		t.Fatal(err)
	}
	var b api.Backup
	if err := json.Unmarshal(out.Bytes(), &b); err != nil || b.Container != "web" || b.Bytes < 2<<20 || b.Bytes > 3<<20 || b.Entries != 4 {
		t.Errorf("two files of 1 MiB are measured as %+v, %v", b, err)
	}
	if err := measured(t.Context(), b, []backup.Tree{{Root: filepath.Join(root, "none")}}, &out); err == nil {
		t.Error("a directory that is missing is measured")
	}
}
