package bucket_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/backup/bucket"
)

// TestLogin: a key is one line of a file that others neither read nor write, and no error
// repeats it.
func TestLogin(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode))
		return path
	}
	good := put("good", "key:s3cret\n", 0o600)
	for path, says := range map[string]string{
		good:                                                  "",
		put("group", "key:s3cret", 0o440):                     "", // as systemd has it
		put("read", "key:s3cret", 0o604):                      "chmod 600",
		put("written", "key:s3cret", 0o620):                   "chmod go-w",
		put("lines", "key:s3cret\nmore", 0o600):               "ACCESS_KEY:SECRET_KEY",
		put("no-key", ":s3cret", 0o600):                       "ACCESS_KEY:SECRET_KEY",
		put("large", strings.Repeat("s3cret:", 1<<10), 0o600): "large",
		filepath.Join(dir, "none"):                            "no such file",
		"credential":                                          "LoadCredential=credential:PATH",
	} {
		_, err := bucket.Open(bucket.Config{URL: "s3://s3.example/backups", Credentials: path})
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	for name, text := range map[string]string{"none": "", "no certificate": put("text", "no certificate", 0o600)} {
		path := text
		if path == "" {
			path = filepath.Join(dir, "no-ca")
		}
		if _, err := bucket.Open(bucket.Config{URL: "s3://s3.example/backups", Credentials: good, CAFile: path}); err == nil || !strings.Contains(err.Error(), "s3_ca_file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
