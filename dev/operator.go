//go:build linux

package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/internal/durable"
)

// operator is where the operator's program keeps what it knows.
type operator struct {
	// Home is the value of XDG_CONFIG_HOME, or what stands for it.
	Home string `json:"home"`
	// Previous is the context that was in use before; empty if there was none.
	Previous string `json:"previous,omitempty"`
	// Fresh: there was no configuration at all.
	Fresh bool `json:"fresh,omitempty"`
}

func (o operator) dir() string { return filepath.Join(o.Home, "hostler") }

// keys is where the owner's key of a fleet is.
func (o operator) keys(fleet string) string {
	return filepath.Join(o.dir(), "fleets", fleet)
}

// operator finds the operator's configuration, and refuses if the name of the
// fleet is in use there.
func (f *Fleet) operator(ctx context.Context) (operator, error) {
	o := operator{Home: f.env("XDG_CONFIG_HOME")}
	if o.Home == "" && f.env("HOME") != "" {
		o.Home = filepath.Join(f.env("HOME"), ".config")
	}
	if o.Home == "" {
		return o, errors.New("neither XDG_CONFIG_HOME nor HOME is set")
	}
	if _, err := os.Lstat(o.keys(f.cfg.Name)); err == nil {
		return o, fmt.Errorf("fleet %q: %w: its keys are in %s", f.cfg.Name, ErrTaken, o.keys(f.cfg.Name))
	}
	if _, err := os.Lstat(filepath.Join(o.dir(), "config.toml")); errors.Is(err, fs.ErrNotExist) {
		o.Fresh = true
	}
	all, err := f.contexts(ctx, o)
	for _, c := range all {
		if c.Name == f.cfg.Name {
			return o, fmt.Errorf("context %q: %w", c.Name, ErrTaken)
		}
		if c.Current {
			o.Previous = c.Name
		}
	}
	return o, err
}

// named is a context, as hostler context ls prints it.
type named struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
}

func (f *Fleet) contexts(ctx context.Context, o operator) ([]named, error) {
	printed, err := f.hostler(ctx, o, "context", "ls", "-o", "json")
	if err != nil {
		return nil, err
	}
	var all []named
	if err := json.Unmarshal([]byte(printed), &all); err != nil {
		return nil, fmt.Errorf("hostler context ls: %w", err)
	}
	return all, nil
}

// forgetOperator removes the context and the fleet that Up has made, and goes
// back to the context that was in use before.
func (f *Fleet) forgetOperator(ctx context.Context) error {
	r, err := f.load()
	if errors.Is(err, ErrNotUp) {
		return nil // it did not come that far
	}
	if err != nil {
		return err
	}
	all, err := f.contexts(ctx, r.Operator)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(c named) bool { return c.Name == f.cfg.Name })
	if i >= 0 {
		if _, err := f.hostler(ctx, r.Operator, "context", "rm", f.cfg.Name); err != nil {
			return err
		}
		back := slices.ContainsFunc(all, func(c named) bool { return c.Name == r.Operator.Previous })
		if all[i].Current && back {
			if _, err := f.hostler(ctx, r.Operator, "context", "use", r.Operator.Previous); err != nil {
				return err
			}
		}
	}
	if r.Operator.Fresh && len(all) <= 1 {
		if err := durable.Remove(filepath.Join(r.Operator.dir(), "config.toml")); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(r.Operator.keys(f.cfg.Name)); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(r.Operator.keys(f.cfg.Name))) // other fleets may be in it
	_ = os.Remove(r.Operator.dir())                          // and more
	return nil
}

func (f *Fleet) env(name string) string {
	for _, kv := range slices.Backward(f.cfg.Environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// hostler runs the operator's program with the operator's configuration, and
// nothing else of the environment, and returns what it printed.
func (f *Fleet) hostler(ctx context.Context, o operator, args ...string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(limited, f.program("hostler"), args...)
	cmd.Env = append(programEnv(f.cfg.Bin), "XDG_CONFIG_HOME="+o.Home)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("hostler %s: %w: %s", strings.Join(args[:2], " "), err, bytes.TrimSpace(talk.Bytes()))
	}
	return out.String(), nil
}
