// Package devices asks the fence devices that a host reaches and the coordinator does not.
// What a device is told stands in a file of the host that root has written, and its secrets
// in files beside it: of what the coordinator says, only the name of the device, the verb
// and the plug count. So no coordinator, stolen or not, can have this host speak to a
// device that its owner has not named, nor read a secret.
package devices

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/protocol/data"
)

// maxFile is the longest file that is read, in bytes.
const maxFile = 16 << 10

// Dir is the directory of a host's fence devices: NAME.toml describes the device NAME.
// Its methods may be called from any goroutine.
type Dir struct {
	Path string
	Run  agents.Runner
}

// file is what describes a device.
type file struct {
	Agent   string            `toml:"agent"`
	Params  map[string]string `toml:"params"`
	Secrets map[string]string `toml:"secrets"` // parameter → name of the file in the directory that holds the value
	Plugs   []string          `toml:"plugs"`   // what may be switched; empty: every plug
}

// Ask asks a device. answer is an [agents.Result.Answer], and ok tells that it is one that
// the device has given: anything else is why nothing was asked, or a failure.
func (d Dir) Ask(ctx context.Context, a data.Fence) (answer string, ok bool) {
	res := d.ask(ctx, a)
	return res.Answer(), res.Outcome == fence.OutcomeOK || res.Outcome == fence.OutcomeOff
}

func (d Dir) ask(ctx context.Context, a data.Fence) agents.Result {
	failed := func(err error) agents.Result {
		return agents.Result{Outcome: fence.OutcomeFailed, Text: err.Error()}
	}
	f, err := d.read(a.Device)
	if err != nil {
		return failed(err)
	}
	m, err := d.Run.Describe(ctx, f.Agent)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return agents.Result{Outcome: fence.OutcomeMissing, Text: err.Error()}
	case err != nil:
		return failed(err)
	case a.Verb == "describe":
		about := agents.Description{Agent: f.Agent, Plug: m.Plug, On: m.On, Status: m.Status}
		return agents.Result{Outcome: fence.OutcomeOK, Text: about.String()}
	case len(f.Plugs) > 0 && !slices.Contains(f.Plugs, a.Plug):
		return failed(fmt.Errorf("plug %.63q of device %s is not among plugs in %s", a.Plug, a.Device, d.name(a.Device)))
	case m.Plug == "" && a.Plug != "":
		return failed(fmt.Errorf("%s knows no plugs", f.Agent))
	}
	call := agents.Call{Agent: f.Agent, Verb: a.Verb, Host: a.Host, Params: maps.Clone(f.Params), PlugKey: m.Plug, Plug: a.Plug, Limit: a.Limit()}
	if call.Params == nil {
		call.Params = make(map[string]string)
	}
	for key, name := range f.Secrets {
		value, err := d.secret(name)
		if err != nil {
			return failed(fmt.Errorf("secret %s of device %s: %w", key, a.Device, err))
		}
		call.Params[key] = value
		call.Hide = append(call.Hide, value)
	}
	return d.Run.Run(ctx, call)
}

func (d Dir) name(device string) string { return filepath.Join(d.Path, device+".toml") }

// read reads the file of a device.
func (d Dir) read(device string) (f file, err error) {
	if err := fence.CheckName(device); err != nil {
		return f, err
	}
	text, err := owned(d.name(device))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, fmt.Errorf("this host has no fence device %s: %s is not there", device, d.name(device))
	case err != nil:
		return f, err
	}
	if err := settings.Strict(d.name(device), text, &f); err != nil {
		return f, err
	}
	whole := fence.Device{Name: device, Agent: f.Agent, Params: f.Params, Secrets: f.Secrets, Targets: []fence.Target{{Host: "any"}}}
	if err := whole.Check(); err != nil {
		return f, fmt.Errorf("%s: %w", d.name(device), err)
	}
	return f, nil
}

// secret reads the value of a parameter, without the line end behind it.
func (d Dir) secret(name string) (string, error) {
	if strings.Contains(name, ":") {
		return "", fmt.Errorf("%.63q: name a file in %s", name, d.Path)
	}
	path := filepath.Join(d.Path, name)
	if i, err := os.Stat(path); err == nil && i.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others than its owner: chmod 600 %s", path, path)
	}
	b, err := owned(path)
	return string(bytes.TrimRight(b, "\r\n")), err
}

// owned reads a small file that only root, or the user of this process, can change or
// replace.
func owned(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe holds nothing up
	if err != nil {
		return nil, err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !agents.Owned(i) {
		return nil, fmt.Errorf("%s can be changed by others than root, or is no regular file; it is not read", path)
	}
	if err := durable.CheckDirectory(path); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return b, err
}
