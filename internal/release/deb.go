package release

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
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

// Deb is a Debian package.
type Deb struct {
	Name, Version, Architecture string
	data                        *io.SectionReader // compressed
}

// OpenDeb reads what a package says of itself. r must stay open while the Deb is used.
func OpenDeb(r io.ReaderAt, size int64) (*Deb, error) {
	members, err := readAr(r, size)
	if err != nil {
		return nil, err
	}
	if len(members) < 3 || members[0].name != "debian-binary" {
		return nil, bad("it is no Debian package")
	}
	d := &Deb{}
	var control *io.SectionReader
	for _, m := range members[1:] {
		switch {
		case m.name == "control.tar.gz":
			control = m.SectionReader
		case m.name == "data.tar.gz":
			d.data = m.SectionReader
		case strings.HasPrefix(m.name, "control.tar") || strings.HasPrefix(m.name, "data.tar"):
			return nil, bad("its part %s is not compressed by gzip; build it with dpkg-deb -Zgzip", m.name)
		}
	}
	if control == nil || d.data == nil {
		return nil, bad("it lacks control.tar.gz or data.tar.gz")
	}
	if err := d.readControl(control); err != nil {
		return nil, err
	}
	if d.Name == "" || d.Version == "" || d.Architecture == "" {
		return nil, bad("it does not say its name, version and architecture")
	}
	return d, nil
}

type arMember struct {
	name string
	*io.SectionReader
}

// readAr lists the members of an ar archive, at most 16.
func readAr(r io.ReaderAt, size int64) (all []arMember, err error) {
	const magic, head = "!<arch>\n", 60
	buf := make([]byte, head)
	if _, err := r.ReadAt(buf[:len(magic)], 0); err != nil || string(buf[:len(magic)]) != magic {
		return nil, bad("it is no Debian package")
	}
	for at := int64(len(magic)); at < size && len(all) < 16; {
		if _, err := r.ReadAt(buf, at); err != nil || string(buf[58:]) != "`\n" {
			return nil, bad("its archive is damaged at byte %d", at)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(buf[48:58])), 10, 64)
		if at += head; err != nil || n < 0 || n > size-at {
			return nil, bad("its archive is damaged at byte %d", at)
		}
		name := strings.TrimSuffix(strings.TrimSpace(string(buf[:16])), "/")
		all = append(all, arMember{name, io.NewSectionReader(r, at, n)})
		at += n + n%2
	}
	return all, nil
}

func (d *Deb) readControl(part io.Reader) error {
	return walk(part, maxControl, func(h *tar.Header, content io.Reader) error {
		if path.Clean("/"+h.Name) != "/control" {
			return nil
		}
		lines := bufio.NewScanner(content)
		for lines.Scan() {
			name, value, ok := strings.Cut(lines.Text(), ":")
			value = strings.TrimSpace(value)
			switch {
			case !ok:
			case name == "Package":
				d.Name = value
			case name == "Version":
				d.Version = value
			case name == "Architecture":
				d.Architecture = value
			}
		}
		return lines.Err()
	})
}

// Files calls put for every regular file of the package, with its absolute path.
func (d *Deb) Files(put func(path string, content io.Reader) error) error {
	if _, err := d.data.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return walk(d.data, maxData, func(h *tar.Header, content io.Reader) error {
		return put(path.Clean("/"+h.Name), content)
	})
}

// walk calls see for the regular files of a compressed archive.
func walk(part io.Reader, most int64, see func(h *tar.Header, content io.Reader) error) error {
	z, err := gzip.NewReader(part)
	if err != nil {
		return bad("it cannot be unpacked: %w", err)
	}
	limited := &io.LimitedReader{R: z, N: most}
	t := tar.NewReader(limited)
	for range maxEntries {
		h, err := t.Next()
		switch {
		case limited.N <= 0:
			return bad("unpacked it has more than %d bytes", most)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return bad("it cannot be unpacked: %w", err)
		case h.Typeflag != tar.TypeReg:
			continue
		}
		if err := see(h, t); err != nil {
			return err
		}
	}
	return bad("it has more than %d files", maxEntries)
}
