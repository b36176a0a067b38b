package protocol

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// FileArgs says which files are moved. Paths are those of the host, or of the
// container as it sees itself.
//
// What is pushed is the payload of the spec: the bytes of one file, of which none
// are an empty file, or an archive. A pull writes an archive to its stdout.
type FileArgs struct {
	// Paths are absolute and in their shortest form. A push has one, a pull 1 to
	// MaxPaths.
	Paths []string `json:"paths"`
	// Name is that of the pushed file if the path is a directory that is there.
	Name string `json:"name,omitzero"`
	// Archive tells that the payload is a tar archive, to be unpacked in the
	// directory Paths[0]. Modes and owners are then its own.
	Archive bool `json:"archive,omitzero"`
	// Mode is that of a pushed file, in octal: "0644".
	Mode string `json:"mode,omitzero"`
	// Owner is to whom a pushed file will belong: a user's name, or UID:GID. Empty
	// is root, and for an archive what it says itself.
	Owner string `json:"owner,omitzero"`
}

// Limits of FileArgs.
const (
	// MaxPaths is how many paths one pull may name.
	MaxPaths = 64
	maxPath  = 4096 // PATH_MAX of Linux
)

// FileMode returns the mode of a pushed file.
func (f *FileArgs) FileMode() (uint32, error) {
	m, err := strconv.ParseUint(f.Mode, 8, 32)
	if err != nil || len(f.Mode) < 3 || len(f.Mode) > 4 {
		return 0, fmt.Errorf("mode: %.20q is not of three or four octal digits", f.Mode)
	}
	return uint32(m), nil
}

func (s *Spec) validateFiles() error {
	f, push := s.Files, s.Kind == KindHostPush || s.Kind == KindContainerPush
	switch {
	case f == nil:
		return fmt.Errorf("files: they are missing")
	case s.Argv != nil || s.User != "" || s.Cwd != "" || s.Env != nil || s.Exclusive || s.Daemon || s.SecretEnv != nil:
		return fmt.Errorf("argv, user, cwd, env, secret_env, exclusive and daemon belong to other commands")
	case len(f.Paths) == 0 || len(f.Paths) > MaxPaths || push && len(f.Paths) != 1:
		return fmt.Errorf("paths: %d, where a push has 1 and a pull 1 to %d", len(f.Paths), MaxPaths)
	case !push && (s.HasPayload() || f.Name != "" || f.Archive || f.Mode != "" || f.Owner != ""):
		return fmt.Errorf("stdin, name, archive, mode and owner belong to a push")
	case f.Archive && (f.Name != "" || f.Mode != "" || f.Owner != ""):
		return fmt.Errorf("name, mode and owner belong to a push of one file")
	case f.Archive && !s.HasPayload():
		return fmt.Errorf("stdin: the archive is missing")
	case push && s.Output != "", s.Output != "" && s.Output != OutputKeep && s.Output != OutputStream:
		return fmt.Errorf("output: %.40q is not for this kind", s.Output)
	case f.Name != "" && (len(f.Name) > maxName || f.Name == "." || f.Name == ".." || strings.ContainsAny(f.Name, "/\x00")):
		return fmt.Errorf("name: %.100q is not that of a file", f.Name)
	}
	for _, p := range f.Paths {
		if !path.IsAbs(p) || path.Clean(p) != p || len(p) > maxPath {
			return fmt.Errorf("paths: %.100q is no absolute path in its shortest form", p)
		}
		if err := checkText(p); err != nil {
			return fmt.Errorf("paths: %w", err)
		}
	}
	if push && !f.Archive {
		if _, err := f.FileMode(); err != nil {
			return err
		}
	}
	if err := checkText(f.Owner + f.Name); err != nil {
		return err
	}
	return s.checkStart()
}
