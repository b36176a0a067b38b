package data_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol/data"
)

// TestBackupOf: whatever the name of a container, its backup may be called so, and no other
// container's backup of the same second is.
func TestBackupOf(t *testing.T) {
	at := time.Date(2026, 11, 24, 18, 9, 29, 0, time.FixedZone("", 3600))
	long := strings.Repeat("web-", 10) // 40 characters
	of := make(map[string]string)
	for _, name := range []string{"web", long, long + "a", long + "b", long + "1234567", long + "12345678", long + "12345679", long + strings.Repeat("x", 23), long + strings.Repeat("x", 22) + "y"} {
		got := data.BackupOf(name, at)
		if err := (&data.BackupName{Backup: got}).Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if other := of[got]; other != "" {
			t.Errorf("backups of %s and %s are both called %s", name, other, got)
		}
		of[got] = name
		if !strings.HasPrefix(got, name[:min(len(name), 38)]) || !strings.HasSuffix(got, "-20261124-170929") {
			t.Errorf("of %s: %s", name, got)
		}
	}
	if of["web-20261124-170929"] != "web" || of[long+"1234567-20261124-170929"] == "" {
		t.Errorf("names that fit are changed: %q", of)
	}
}
