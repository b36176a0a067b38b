// Package buildinfo tells which build of Hostler this is.
package buildinfo

import (
	"path/filepath"
	"runtime/debug"
)

// Version is the version of the programs. It counts up with each release. What is
// packed has the whole version of its package instead, which the linker sets: so a
// host tells which package it runs, and two packages of one release differ.
var Version = "0.1.0"

// String returns version, revision and compiler as one line for people. It says when the
// tree was not the revision's.
func String() string {
	s := Version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	for _, kv := range info.Settings {
		switch {
		case kv.Key == "vcs.revision":
			s += " (" + kv.Value[:min(12, len(kv.Value))] + ")"
		case kv.Key == "vcs.modified" && kv.Value == "true":
			s += " with changes"
		}
	}
	return s + " " + info.GoVersion
}

// Helper returns the path of a program that people do not start, such as hostler-run, for
// the directory of those that they do start. They are beside each other, but for packages,
// which put the former into /usr/libexec/hostler.
func Helper(bin, name string) string {
	if bin == "/usr/bin" {
		bin = "/usr/libexec/hostler"
	}
	return filepath.Join(bin, name)
}
