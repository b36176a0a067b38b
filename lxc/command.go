package lxc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
)

// record is what the helper has written down of a container, as far as this package reads it.
type record struct {
	Template, Digest, Tree string
	Argv                   []string
	IDs                    container.IDRange
}

func readRecord(dir string) (rec record, err error) {
	raw, err := rundir.ReadCapped(filepath.Join(dir, "hostler.json"), maxConfig)
	if err == nil {
		raw, err = rundir.CheckSum(raw)
	}
	if err == nil {
		err = json.Unmarshal(raw, &rec)
	}
	return rec, err
}

// Describe returns what runs in a container, and how, as an image says it.
func (r *Runtime) Describe(_ context.Context, name string) (img container.Image, err error) {
	if err := container.CheckReference(name); err != nil {
		return img, fmt.Errorf("lxc describe: %w: %w", container.ErrNotFound, err)
	}
	dir := filepath.Join(r.cfg.LXCPath, name)
	record, err := readRecord(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return img, fmt.Errorf("lxc describe %q: %w, or not made by Hostler", name, container.ErrNotFound)
	}
	if err != nil {
		return img, fmt.Errorf("lxc describe %q: its record: %w", name, err)
	}
	config, err := rundir.ReadCapped(filepath.Join(dir, "config"), maxConfig)
	if err != nil {
		return img, fmt.Errorf("lxc describe %q: %w", name, err)
	}
	img.Entrypoint = record.Argv
	if len(record.Argv) == 0 {
		return img, nil // its init knows the rest
	}
	var uid, gid string
	for line := range strings.Lines(string(config)) {
		key, value, _ := strings.Cut(line, "=")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "lxc.environment":
			img.Env = append(img.Env, value)
		case "lxc.init.cwd":
			img.WorkingDir = value
		case "lxc.init.uid":
			uid = value
		case "lxc.init.gid":
			gid = value
		case "lxc.signal.halt":
			img.StopSignal = value
		}
	}
	if uid != "" {
		img.User = uid + ":" + gid
	}
	return img, nil
}
