// Package mount has the one form of what a container has from outside of its root
// directory: volumes of the host, which have names and stay when the container goes, and
// files and directories of the host itself. It is pure.
package mount

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Bounds of mounts.
const (
	Max     = 32  // of one container
	maxPath = 512 // bytes
)

// Mount is one of them. Either Volume or Source is set.
type Mount struct {
	// Volume is the name of a volume.
	Volume string `json:"volume,omitzero"`
	// Source is a file or a directory of the host, as an absolute path.
	Source string `json:"source,omitzero"`
	// Path is where it is in the container, as an absolute path.
	Path string `json:"path"`
	// ReadOnly tells that the container cannot change it.
	ReadOnly bool `json:"read_only,omitzero"`
}

// String returns the mount as people write it.
func (m Mount) String() string {
	text := m.Volume + m.Source + ":" + m.Path
	if m.ReadOnly {
		text += ":ro"
	}
	return text
}

var wellFormedName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckName reports what is wrong with the name of a volume, if anything.
func CheckName(name string) error {
	if !wellFormedName.MatchString(name) {
		return fmt.Errorf("%.80q is no name of a volume: use 1 to 63 of a-z, 0-9 and inner hyphens", name)
	}
	return nil
}

// within are the directories that the kernel and the runtime fill, in which nothing is
// mounted.
var within = []string{"/dev", "/proc", "/sys"}

func checkPath(what, p string) error {
	switch {
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/":
		return fmt.Errorf("%s: %.120q is no absolute path without . and .., other than /", what, p)
	case len(p) > maxPath:
		return fmt.Errorf("%s: the path has %d bytes, want at most %d", what, len(p), maxPath)
	case strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0xFFFD || strings.ContainsRune(`:\#,`, r) }):
		return fmt.Errorf("%s: %.120q has a character that a mount cannot have: a space, a control character, or one of : \\ # ,", what, p)
	}
	return nil
}

// parse reads FROM:/path, FROM:/path:ro or FROM:/path:rw.
func parse(text string) (from string, m Mount, err error) {
	w := strings.Split(text, ":")
	switch {
	case len(w) == 3 && w[2] == "ro":
		m.ReadOnly = true
	case len(w) == 3 && w[2] == "rw", len(w) == 2:
	default:
		return "", m, fmt.Errorf("%.200q is not of the form FROM:/path, FROM:/path:ro or FROM:/path:rw", text)
	}
	m.Path = w[1]
	if err := checkPath("the path in the container", m.Path); err != nil {
		return "", m, err
	}
	for _, d := range within {
		if m.Path == d || strings.HasPrefix(m.Path, d+"/") {
			return "", m, fmt.Errorf("the path in the container: nothing is mounted in %s", d)
		}
	}
	return w[0], m, nil
}

// Parse reads the volumes and the mounts of a container, and returns them in the order in
// which they are mounted: what is in another one comes after it.
func Parse(volumes, hosts []string) (all []Mount, err error) {
	for _, text := range volumes {
		name, m, err := parse(text)
		if err == nil {
			err = CheckName(name)
		}
		if err != nil {
			return nil, fmt.Errorf("volume %.200q: %w", text, err)
		}
		m.Volume = name
		all = append(all, m)
	}
	for _, text := range hosts {
		source, m, err := parse(text)
		if err == nil {
			err = checkPath("the path of the host", source)
		}
		if err != nil {
			return nil, fmt.Errorf("mount %.200q: %w", text, err)
		}
		m.Source = source
		all = append(all, m)
	}
	if len(all) > Max {
		return nil, fmt.Errorf("there are %d volumes and mounts, at most %d are taken", len(all), Max)
	}
	slices.SortFunc(all, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	for i, m := range all {
		if i > 0 && all[i-1].Path == m.Path {
			return nil, fmt.Errorf("two of them are mounted at %s", m.Path)
		}
		if m.Volume != "" && slices.ContainsFunc(all[:i], func(o Mount) bool { return o.Volume == m.Volume }) {
			return nil, errors.New("volume " + m.Volume + " is mounted twice")
		}
	}
	return all, nil
}

// Split returns volumes and mounts of the host as people write them.
func Split(all []Mount) (volumes, hosts []string) {
	for _, m := range all {
		if m.Volume != "" {
			volumes = append(volumes, m.String())
		} else {
			hosts = append(hosts, m.String())
		}
	}
	return volumes, hosts
}
