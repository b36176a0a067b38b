package release

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
)

func (f *File) openDeb(r io.ReaderAt, size int64) error {
	members, err := readAr(r, size)
	if err != nil {
		return err
	}
	if len(members) < 3 || members[0].name != "debian-binary" {
		return bad("it is no Debian package")
	}
	var control *io.SectionReader
	for _, m := range members[1:] {
		switch {
		case m.name == "control.tar.gz":
			control = m.SectionReader
		case m.name == "data.tar.gz":
			f.data = m.SectionReader
		case strings.HasPrefix(m.name, "control.tar") || strings.HasPrefix(m.name, "data.tar"):
			return bad("its part %s is not compressed by gzip; build it with dpkg-deb -Zgzip", m.name)
		}
	}
	if control == nil || f.data == nil {
		return bad("it lacks control.tar.gz or data.tar.gz")
	}
	return f.readControl(control)
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
		return nil, bad("it is neither a Debian package nor an rpm package")
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

func (f *File) readControl(part io.Reader) error {
	return walk(part, maxControl, func(name string, content io.Reader) error {
		if name != "/control" {
			return nil
		}
		lines := bufio.NewScanner(content)
		for lines.Scan() {
			name, value, ok := strings.Cut(lines.Text(), ":")
			value = strings.TrimSpace(value)
			switch {
			case !ok:
			case name == "Package":
				f.Name = value
			case name == "Version":
				f.Version = value
			case name == "Architecture":
				f.Architecture = value
			}
		}
		if err := lines.Err(); err != nil {
			return bad("its control file cannot be read: %w", err)
		}
		return nil
	})
}

// walk calls see for the regular files of a compressed archive.
func walk(part io.Reader, most int64, see func(path string, content io.Reader) error) error {
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
		if err := see(path.Clean("/"+h.Name), t); err != nil {
			return err
		}
	}
	return bad("it has more than %d files", maxEntries)
}
