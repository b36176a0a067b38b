package main

import (
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

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
)

// config is the file config.toml. Only its owner may read it: it holds tokens.
type config struct {
	// Current is the context that is used if none is named.
	Current  string             `toml:"current"`
	Contexts map[string]*target `toml:"contexts"`
}

// target is a coordinator and how to be let in there.
type target struct {
	Address string `toml:"address"` // https://HOST:PORT
	Token   string `toml:"token,omitempty"`
	CA      string `toml:"ca,multiline,omitempty"` // certificate of the fleet's authority, PEM
	Fleet   string `toml:"fleet,omitempty"`        // its name, where the rings are kept
}

// maxFile bounds every file that is read, in bytes.
const maxFile = 1 << 20

// home is the directory of the configuration.
func (a *app) home() (string, error) {
	dir := a.env("XDG_CONFIG_HOME")
	if dir == "" {
		if a.env("HOME") == "" {
			return "", &failure{
				code: exitFailed, what: "cannot find the configuration", why: "neither XDG_CONFIG_HOME nor HOME is set",
				next: "export XDG_CONFIG_HOME=DIR",
			}
		}
		dir = filepath.Join(a.env("HOME"), ".config")
	}
	return filepath.Join(dir, "hostler"), nil
}

func (a *app) loadConfig() (*config, error) {
	c := &config{Contexts: map[string]*target{}}
	dir, err := a.home()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "config.toml")
	b, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, cannot("read the configuration", err)
	}
	d := toml.NewDecoder(strings.NewReader(string(b))).DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		why := err.Error()
		if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			line, _ := strict.Errors[0].Position()
			why = fmt.Sprintf("line %d: unknown setting: %s", line, strings.Join(strict.Errors[0].Key(), "."))
		}
		return nil, &failure{code: exitUsage, what: "cannot read the configuration " + path, why: why}
	}
	return c, nil
}

func (a *app) saveConfig(c *config) error {
	dir, err := a.home()
	if err != nil {
		return err
	}
	b, err := toml.Marshal(c)
	if err != nil {
		return cannot("write the configuration", err)
	}
	return cannot("write the configuration", replaceFile(filepath.Join(dir, "config.toml"), b, 0o600))
}

// replaceFile writes a file in one step: it is the old one or the new one. Its
// directory is made if need be.
func replaceFile(path string, b []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, b, mode)
}

// readSmall reads a file that may not be large.
func readSmall(path string) ([]byte, error) { return durable.ReadFile(path, maxFile) }

func readAll(r io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return b, err
}

// target returns whom to speak to: what the options say, else the
// environment, else the context.
func (a *app) target() (target, error) {
	c, err := a.loadConfig()
	if err != nil {
		return target{}, err
	}
	name := cmp.Or(a.contextName, a.env("HOSTLER_CONTEXT"))
	address := cmp.Or(a.address, a.env("HOSTLER_ADDRESS"))
	var t target
	if known, ok := c.Contexts[cmp.Or(name, c.Current)]; ok {
		t = *known
	} else if name != "" {
		return target{}, &failure{
			code: exitNotFound, what: fmt.Sprintf("there is no context %q", name), why: "no login has made it",
			next: "hostler context ls",
		}
	}
	if address != "" && address != t.Address {
		// A token goes to the coordinator that it was given for, and to no other.
		t.Address, t.Token = address, ""
	}
	t.Token = cmp.Or(a.env("HOSTLER_TOKEN"), t.Token)
	if a.tokenFile != "" {
		if t.Token, err = readToken(a.tokenFile); err != nil {
			return target{}, err
		}
	}
	if a.caFile != "" {
		b, err := readSmall(a.caFile)
		if err != nil {
			return target{}, cannot("read the certificate", err)
		}
		t.CA = string(b)
	}
	return t, nil
}

func readToken(path string) (string, error) {
	b, err := readSmall(path)
	if err != nil {
		return "", cannot("read the token", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", usage("", "%s holds no token: want one word", path)
	}
	return token, nil
}

// decodeCA reads a PEM certificate and returns it as DER.
func decodeCA(text string) ([]byte, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, usage("", "the authority is no certificate in PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, usage("", "the authority is no certificate: %s", err)
	}
	return block.Bytes, nil
}

func encodeCA(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// contextWord is what a context may be called: what a fleet may be.
func contextWord(s string) error {
	if _, err := protocol.ParseFleetName(s); err != nil {
		return usage("", "%q is no name for a context: %s", s, err)
	}
	return nil
}
