package release

import (
	"cmp"
	"errors"
	"fmt"
	"io"
)

// ErrPackage tells that a file is no package that can be installed.
var ErrPackage = errors.New("not a usable package")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrPackage, fmt.Errorf(format, args...))
}

// Limits of what a package holds when it is unpacked, in bytes and members: many times
// what ours have.
const (
	maxControl = 1 << 20
	maxData    = 1 << 30
	maxEntries = 10_000
)

// Arch is Debian's name of an architecture of Go.
func Arch(goarch string) string {
	return cmp.Or(map[string]string{"386": "i386", "arm": "armhf", "mips64le": "mips64el", "ppc64le": "ppc64el"}[goarch], goarch)
}

// Format is a format of packages; the files of each end with a dot and its name.
type Format string

// The formats.
const (
	Deb Format = "deb"
	RPM Format = "rpm"
)

// File is a package that is open.
type File struct {
	Format        Format
	Name, Version string
	// Architecture is as Debian calls it, whatever the format.
	Architecture string
	data         *io.SectionReader // compressed
}

// Open reads what a package says of itself. r must stay open while the File is used.
func Open(r io.ReaderAt, size int64) (*File, error) {
	var magic [len(rpmMagic)]byte
	f, open := &File{Format: Deb}, (*File).openDeb
	if _, err := r.ReadAt(magic[:], 0); err == nil && string(magic[:]) == rpmMagic {
		f.Format, open = RPM, (*File).openRPM
	}
	if err := open(f, r, size); err != nil {
		return nil, err
	}
	if f.Name == "" || f.Version == "" || f.Architecture == "" {
		return nil, bad("it does not say its name, version and architecture")
	}
	return f, nil
}

// Files calls put for every regular file of the package, with its absolute path.
func (f *File) Files(put func(path string, content io.Reader) error) error {
	if _, err := f.data.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if f.Format == RPM {
		return walkRPM(f.data, put)
	}
	return walk(f.data, maxData, put)
}
