package conn

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
)

// Config is the file config.toml. Only its owner may read it: it holds tokens.
type Config struct {
	// Current is the context that is used if none is named.
	Current  string             `toml:"current"`
	Contexts map[string]*Target `toml:"contexts"`
}

// Target is a coordinator and how to be let in there.
type Target struct {
	Address string `toml:"address"` // https://HOST:PORT
	Token   string `toml:"token,omitempty"`
	CA      string `toml:"ca,multiline,omitempty"` // certificate of the fleet's authority, PEM
	Fleet   string `toml:"fleet,omitempty"`        // its name, where the rings are kept

	name string // of the context that it comes from; empty if from none
}

// MaxFile bounds every file that is read or written, in bytes.
const MaxFile = 1 << 20

// Home is the directory of the configuration.
func (a *Env) Home() (string, error) {
	dir := a.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		if a.Getenv("HOME") == "" {
			return "", &term.Failure{
				Code: term.ExitFailed, What: "cannot find the configuration", Why: "neither XDG_CONFIG_HOME nor HOME is set",
				Next: "export XDG_CONFIG_HOME=DIR",
			}
		}
		dir = filepath.Join(a.Getenv("HOME"), ".config")
	}
	return filepath.Join(dir, "hostler"), nil
}

// LoadConfig reads the configuration; without a file it is empty.
func (a *Env) LoadConfig() (*Config, error) {
	c := &Config{Contexts: map[string]*Target{}}
	dir, err := a.Home()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "config.toml")
	b, err := ReadSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, term.Cannot("read the configuration", err)
	}
	d := toml.NewDecoder(strings.NewReader(string(b))).DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		why := err.Error()
		if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			line, _ := strict.Errors[0].Position()
			why = fmt.Sprintf("line %d: unknown setting: %s", line, strings.Join(strict.Errors[0].Key(), "."))
		} else if bad, ok := errors.AsType[*toml.DecodeError](err); ok && len(bad.Key()) > 0 { // its text names types of this program
			line, _ := bad.Position()
			why = fmt.Sprintf("line %d: %s has a value of the wrong type", line, strings.Join(bad.Key(), "."))
		}
		return nil, &term.Failure{Code: term.ExitUsage, What: "cannot read the configuration " + path, Why: why}
	}
	return c, nil
}

// SaveConfig writes the configuration.
func (a *Env) SaveConfig(c *Config) error {
	dir, err := a.Home()
	if err != nil {
		return err
	}
	b, err := toml.Marshal(c)
	if err != nil {
		return term.Cannot("write the configuration", err)
	}
	return term.Cannot("write the configuration", ReplaceFile(filepath.Join(dir, "config.toml"), b, 0o600))
}

// ReplaceFile writes a file of at most [MaxFile] bytes in one step: it is the old
// one or the new one. Its directory is made if need be.
func ReplaceFile(path string, b []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, b, mode, MaxFile)
}

// ReadSmall reads a file that may not be large.
func ReadSmall(path string) ([]byte, error) { return durable.ReadFile(path, MaxFile) }

// ReadAll reads a stream of at most limit bytes; errors call it name.
func ReadAll(r io.Reader, name string, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return b, err
}

// target returns whom to speak to: what the options say, else the
// environment, else the context.
func (a *Env) target() (Target, error) {
	c, err := a.LoadConfig()
	if err != nil {
		return Target{}, err
	}
	name := cmp.Or(a.ContextName, a.Getenv("HOSTLER_CONTEXT"))
	address := cmp.Or(a.Address, a.Getenv("HOSTLER_ADDRESS"))
	var t Target
	if known, ok := c.Contexts[cmp.Or(name, c.Current)]; ok {
		t = *known
		t.name = cmp.Or(name, c.Current)
	} else if name != "" {
		return Target{}, &term.Failure{
			Code: term.ExitNotFound, What: fmt.Sprintf("there is no context %q", name), Why: "contexts are made by hostler login",
			Next: "hostler context ls",
		}
	}
	if address != "" && address != t.Address {
		// A token goes to the coordinator that it was given for, and to no other.
		t.Address, t.Token = address, ""
	}
	t.Token = cmp.Or(a.Getenv("HOSTLER_TOKEN"), t.Token)
	if a.TokenFile != "" {
		if t.Token, err = ReadToken(a.TokenFile); err != nil {
			return Target{}, err
		}
	}
	if a.CAFile != "" {
		if t.CA, err = ReadCA(a.CAFile); err != nil {
			return Target{}, err
		}
	}
	return t, nil
}

// ReadCA reads a file that holds the certificate of a fleet's authority, PEM.
func ReadCA(path string) (string, error) {
	b, err := ReadSmall(path)
	if err != nil {
		return "", term.Cannot("read the certificate", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return "", term.Usage("", "%s is empty: --ca wants the ca.crt of the coordinator", path)
	}
	_, err = DecodeCA(string(b))
	return string(b), err
}

// ReadToken reads a file that holds one token.
func ReadToken(path string) (string, error) {
	b, err := ReadSmall(path)
	if err != nil {
		return "", term.Cannot("read the token", err)
	}
	return CheckToken(string(b), path)
}

// CheckToken returns the token that a text from somewhere is.
func CheckToken(text, from string) (string, error) {
	token := strings.TrimSpace(text)
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", term.Usage("", "%s does not hold a token: a token is one word", from)
	}
	return token, nil
}

// DecodeCA reads a PEM certificate and returns it as DER.
func DecodeCA(text string) ([]byte, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, term.Usage("", "the certificate of the authority is not PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, term.Usage("", "the certificate of the authority cannot be read: %s", err)
	}
	return block.Bytes, nil
}

// EncodeCA writes a certificate as PEM.
func EncodeCA(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// ContextWord is what a context may be called: what a fleet may be.
func ContextWord(s string) error {
	if _, err := protocol.ParseFleetName(s); err != nil {
		return term.Usage("", "%q is not a valid context name: %s", s, err)
	}
	return nil
}
