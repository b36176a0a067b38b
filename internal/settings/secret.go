package settings

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/internal/durable"
)

// credential begins the value of a setting that names a credential of systemd instead
// of a file.
const credential = "credential:"

// maxSecret bounds the file of a secret, in bytes.
const maxSecret = 64 << 10

// Secret reads the file that a setting names, without the line's end. A value
// credential:NAME names what systemd gives the service as the credential NAME
// (LoadCredential= or LoadCredentialEncrypted= of the unit): it lies in the directory of
// the variable CREDENTIALS_DIRECTORY, which only the service can read. An empty value is
// no secret, and no error.
func Secret(setting, value string, getenv func(string) string) ([]byte, error) {
	if value == "" {
		return nil, nil
	}
	path := value
	if name, ok := strings.CutPrefix(value, credential); ok {
		dir := getenv("CREDENTIALS_DIRECTORY")
		switch {
		case name == "" || name != filepath.Base(name) || strings.HasPrefix(name, "."):
			return nil, fmt.Errorf("%s: %q names no credential: want credential:NAME", setting, value)
		case dir == "":
			return nil, fmt.Errorf("%s: systemd gave this program no credentials; add LoadCredential=%s:/path/to/file to the unit, or name a file", setting, name)
		}
		path = filepath.Join(dir, name)
	}
	b, err := durable.ReadFile(path, maxSecret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	if b = bytes.TrimRight(b, "\r\n"); len(b) == 0 {
		return nil, fmt.Errorf("%s: %w", setting, errors.New(path+" is empty"))
	}
	return b, nil
}
