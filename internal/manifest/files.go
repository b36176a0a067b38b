package manifest

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/protocol/mount"
)

// Bounds of the files of a container: how many, and how many bytes one and all of them have.
const (
	MaxFiles     = 64
	MaxFileBytes = 1 << 20
	MaxFilesSum  = 16 << 20
)

// File is a file in a container, as a manifest gives it.
type File struct {
	Path string `yaml:"path"` // absolute, in the container
	// Content is what is in it. Source is the file of the user's machine that has it instead;
	// nil is none.
	Content *string `yaml:"content"`
	Source  *string `yaml:"source"`
	Mode    string  `yaml:"mode"`  // in octal; empty is 0644
	Owner   string  `yaml:"owner"` // UID:GID, as the container counts; empty is 0:0
}

// Unix is its mode, and the user and the group that it belongs to.
func (f File) Unix() (mode, uid, gid uint32, err error) {
	if f.Mode == "" {
		f.Mode = "0644"
	}
	m, err := strconv.ParseUint(f.Mode, 8, 32)
	if err != nil || len(f.Mode) < 3 || len(f.Mode) > 4 {
		return 0, 0, 0, fmt.Errorf("mode: %.20q is not of three or four octal digits, such as \"0644\"", f.Mode)
	}
	if f.Owner == "" {
		f.Owner = "0:0"
	}
	u, g, _ := strings.Cut(f.Owner, ":")
	user, err := strconv.ParseUint(u, 10, 32)
	if err == nil {
		var group uint64
		group, err = strconv.ParseUint(g, 10, 32)
		gid = uint32(group)
	}
	if err != nil || user == math.MaxUint32 || gid == math.MaxUint32 { // which mean: leave it
		return 0, 0, 0, fmt.Errorf("owner: %.40q is not of the form UID:GID, as \"1000:1000\"", f.Owner)
	}
	return uint32(m), uint32(user), gid, nil
}

// notIn are the directories that the kernel and the runtime fill, and ofRuntime the files that
// some runtimes mount at each start: what is put there is not seen, or is gone with the
// next start.
var (
	notIn     = []string{"/dev", "/proc", "/sys"}
	ofRuntime = []string{"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"}
)

// maxPath is PATH_MAX of Linux.
const maxPath = 4096

// check tells what is wrong with a file, wherever it may be.
func (f File) check() error {
	switch p := f.Path; {
	case p == "":
		return fmt.Errorf("path is missing")
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("path: %.120q has a NUL", p)
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/" || len(p) > maxPath:
		return fmt.Errorf("path: %.120q is no absolute path of a file without . and .., of at most %d bytes", p, maxPath)
	case slices.ContainsFunc(notIn, func(d string) bool { return inDirectory(p, d) }):
		return fmt.Errorf("path: %.120q is in a directory that the kernel and the runtime fill", p)
	case slices.Contains(ofRuntime, p):
		return fmt.Errorf("path: the runtime makes %s itself", p)
	case (f.Content == nil) == (f.Source == nil):
		return fmt.Errorf("%.120q: want one of content and source", p)
	case f.Source != nil && (*f.Source == "" || strings.ContainsRune(*f.Source, 0)):
		return fmt.Errorf("%.120q: source: %.120q is no path of a file", p, *f.Source)
	}
	if _, _, _, err := f.Unix(); err != nil {
		return fmt.Errorf("%.120q: %w", f.Path, err)
	}
	return nil
}

// inDirectory reports whether a path is a directory, or in it.
func inDirectory(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// checkFiles tells what is wrong with the files of a container.
func (s Shape) checkFiles() error {
	if len(s.Files) > MaxFiles {
		return fmt.Errorf("files: there are %d, at most %d are taken", len(s.Files), MaxFiles)
	}
	for i, f := range s.Files {
		if err := f.check(); err != nil {
			return fmt.Errorf("files: %w", err)
		}
		for _, other := range s.Files[:i] {
			switch {
			case other.Path == f.Path:
				return fmt.Errorf("files: %.120q stands there twice", f.Path)
			case inDirectory(f.Path, other.Path) || inDirectory(other.Path, f.Path):
				return fmt.Errorf("files: of %.120q and %.120q one would be a directory", other.Path, f.Path)
			}
		}
	}
	return s.CheckPlaces(s.Volumes, s.Mounts)
}

// CheckPlaces tells which of the files would be in a volume or a mount of the container: while
// it is stopped, they would go below that.
func (s Shape) CheckPlaces(volumes, mounts []string) error {
	all, _ := mount.Parse(volumes, mounts) // they are checked as those of a new container
	for _, f := range s.Files {
		for _, m := range all {
			if inDirectory(f.Path, m.Path) {
				return fmt.Errorf("files: %.120q is in the volume or mount at %.120q, which hides the files of the container", f.Path, m.Path)
			}
		}
	}
	return nil
}
