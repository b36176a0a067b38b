package container

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// CTID is a container's lasting identity: a UUID in its canonical lower-case
// form, given at creation or adoption.
type CTID string

// CheckCTID reports whether s is a UUID in canonical form.
func CheckCTID(s string) error {
	if len(s) != 36 {
		return fmt.Errorf("container id %.40q: want a UUID of 36 characters", s)
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return fmt.Errorf("container id %q: want '-' at position %d", s, i)
			}
		case !isDigit(c) && (c < 'a' || c > 'f'):
			return fmt.Errorf("container id %q: want lower-case hexadecimal digits", s)
		}
	}
	return nil
}

// maxName is the length of a DNS label.
const maxName = 63

// CheckName reports whether a new container may be called name: a DNS label in
// lower case (1 to 63 of a–z, 0–9 and '-', with no '-' at either end), because
// the name becomes the container's host name, a directory and a cgroup.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("container name %.80q: want 1 to %d characters", name, maxName)
	}
	for i := range len(name) {
		if c := name[i]; !isLower(c) && !isDigit(c) && c != '-' {
			return fmt.Errorf("container name %q: want only a-z, 0-9 and '-'", name)
		}
	}
	if name[0] == '-' || name[len(name)-1] == '-' {
		return fmt.Errorf("container name %q: '-' at an end", name)
	}
	return nil
}

// CheckReference reports whether name can address a container at all. It is
// wider than CheckName, for containers that others made: letters of either
// case, '.' and '_' too. No such name can leave the directory it is joined to.
func CheckReference(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("container name %.80q: want 1 to %d characters", name, maxName)
	}
	for i := range len(name) {
		c := name[i]
		if isLower(c) || isUpper(c) || isDigit(c) {
			continue
		}
		if i == 0 || !strings.ContainsRune("-._", rune(c)) {
			return fmt.Errorf("container name %q: character %d is not allowed", name, i)
		}
	}
	return nil
}

// maxDevice is what the kernel allows for the name of a network device.
const maxDevice = 15

// CheckBridge reports whether name can be a network device of the host.
func CheckBridge(name string) error {
	if name == "" || len(name) > maxDevice {
		return fmt.Errorf("bridge name %.40q: want 1 to %d characters", name, maxDevice)
	}
	for i := range len(name) {
		c := name[i]
		if isLower(c) || isUpper(c) || isDigit(c) || (i > 0 && strings.ContainsRune("-._", rune(c))) {
			continue
		}
		return fmt.Errorf("bridge name %q: character %d is not allowed", name, i)
	}
	return nil
}

func checkMAC(s string) error {
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || mac.String() != s {
		return fmt.Errorf("hardware address %.40q: want six lower-case octets", s)
	}
	if mac[0]&1 != 0 {
		return errors.New("hardware address is a group address")
	}
	return nil
}

// maxTemplate is the length of a reference to an image with a digest.
const maxTemplate = 255

// CheckTemplate reports whether s can name what a container is made from: a word, or
// a reference to an image (registry.example:5000/debian:12, …@sha256:…). No such name
// is an option of a program or leads out of a directory.
func CheckTemplate(s string) error {
	path := strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	if path == "" || len(s) > maxTemplate || strings.Contains(s, "..") || strings.Contains(path, "//") {
		return fmt.Errorf("template %.80q: want a word, or an image such as registry.example/debian:12", s)
	}
	for i := range len(s) {
		c := s[i]
		if isLower(c) || isUpper(c) || isDigit(c) || i > 0 && strings.ContainsRune("-_.:/@", rune(c)) {
			continue
		}
		return fmt.Errorf("template %q: character %d is not allowed; want letters, digits and, not at the beginning, any of -_.:/@", s, i)
	}
	return nil
}

// IsOCI reports whether a template is an image of a registry, which every runtime can
// use: no file, no address of a file, and none of an image server or of packages.
func IsOCI(template string) bool {
	if strings.HasPrefix(template, Debootstrap) {
		return false
	}
	word, rest, named := strings.Cut(template, ":")
	if !named || !IsWord(word) || rest == "" {
		return !IsWord(template)
	}
	return isDigit(rest[0]) || !strings.Contains(rest, "/") // a port, or a tag
}

// Debootstrap is what references of images begin with that are made of the packages of
// Debian; the name of a release follows.
const Debootstrap = "debootstrap:"

// IsWord reports whether a template is a word: it names no image.
func IsWord(template string) bool { return !strings.ContainsAny(template, ".:/@") }

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
