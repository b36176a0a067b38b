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
	Paths   []string `json:"paths" example:"[\"/etc/motd\"]" doc:"Absolute paths in their shortest form: one of a push, 1 to 64 of a pull."`
	Name    string   `json:"name,omitzero" example:"\"motd\"" doc:"The name of the pushed file, if the path is a directory that exists."`
	Archive bool     `json:"archive,omitzero" doc:"The payload is a tar archive, to be unpacked in the directory of the path. Modes and owners are its own."`
	Mode    string   `json:"mode,omitzero" example:"\"0644\"" doc:"The mode of a pushed file, in octal, as 0644."`
	Owner   string   `json:"owner,omitzero" example:"\"www-data\"" doc:"The owner of a pushed file, a user's name or UID:GID. Empty is root, and for an archive its own."`
	// Have is how many bytes of the archive the requester of a pull has already, and
	// HaveSHA256 the digest of these. They are made again and left out, if they are
	// still the same; else the pull ends with [ExitChanged] and writes nothing.
	Have       int64    `json:"have,omitzero" example:"5" doc:"How many bytes of the archive a pull leaves out, because the requester has them."`
	HaveSHA256 Digest   `json:"have_sha256,omitzero" example:"\"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\"" doc:"The SHA-256 of these bytes."`
	_          struct{} `required:"paths"`
}

// ExitChanged is the exit code of a pull whose archive does not begin with what
// the requester has.
const ExitChanged = 3

// ExitAbsent is the exit code of a pull of what is not there.
const ExitAbsent = 5

// Archive is what the archive of a pull holds.
type Archive struct {
	SHA256 Digest `json:"sha256"` // of all of its bytes, those that were left out included
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"` // of its files
	// List is the digest of a line for each file, in their order and as sha256sum
	// prints it: digest, two spaces, name, LF.
	List Digest `json:"list"`
	// Sums are those of its first files, as many as there is room for.
	Sums []FileSum `json:"sums,omitempty"`
}

// FileSum is the digest of a file of an archive.
type FileSum struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 Digest `json:"sha256"`
}

// MaxSums is how many files an [Archive] names, and MaxSumNames how many bytes
// their names have together: a report of it fits into one message, and the record
// of it into the audit log.
const (
	MaxSums     = 16
	MaxSumNames = 2 << 10
)

func (a *Archive) check() error {
	names := 0
	for _, f := range a.Sums {
		names += len(f.Name)
		if f.Bytes < 0 {
			return fmt.Errorf("archive: a file of %d bytes", f.Bytes)
		}
	}
	switch {
	case a.Files < 0 || a.Bytes < 0 || int64(len(a.Sums)) > a.Files:
		return fmt.Errorf("archive: %d files of %d bytes, but %d names", a.Files, a.Bytes, len(a.Sums))
	case len(a.Sums) > MaxSums || names > MaxSumNames:
		return fmt.Errorf("archive: %d files are named with %d bytes, at most %d with %d may be", len(a.Sums), names, MaxSums, MaxSumNames)
	}
	return nil
}

// DecodeArchive reads what a pull has left of its archive.
func DecodeArchive(b []byte) (Archive, error) {
	var a Archive
	if err := DecodeJSON(b, &a, false); err != nil {
		return a, err
	}
	return a, a.check()
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

func (f *FileArgs) check() error {
	if f.Name != "" && (len(f.Name) > maxName || f.Name == "." || f.Name == ".." || strings.ContainsAny(f.Name, "/\x00")) {
		return fmt.Errorf("name: %.100q is not that of a file", f.Name)
	}
	for _, p := range f.Paths {
		if !path.IsAbs(p) || path.Clean(p) != p || len(p) > maxPath {
			return fmt.Errorf("paths: %.100q is no absolute path in its shortest form", p)
		}
	}
	return nil
}

// Files returns which files the spec moves; nil if its kind moves none.
func (s *Spec) Files() *FileArgs {
	if f, ok := s.Args.(interface{ files() *FileArgs }); ok {
		return f.files()
	}
	return nil
}
