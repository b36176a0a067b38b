// Package release reads and writes what an upgrade brings to a host: packages of
// Hostler for one architecture, each with the signature of who made it.
//
// A bundle is a tar archive of pairs: NAME.deb.sig or NAME.rpm.sig, an OpenPGP
// signature, and right behind it NAME.deb or NAME.rpm, the file that it is over, as it
// is. So the signature is verified before a byte of the package is looked at. A bundle
// for a fleet of both sorts of hosts has both formats; each host takes its own.
package release

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/internal/durable"
)

// Limits of a bundle.
const (
	MaxPackages  = 4
	MaxPackage   = 256 << 20 // bytes
	MaxSignature = 4 << 10   // bytes
)

// The packages that a bundle may hold, and the programs that count in them.
const (
	Agent    = "hostler-agent"     // the package, and its program
	AgentLXC = "hostler-agent-lxc" // holds hostler-lxc
	LXC      = "hostler-lxc"
	Run      = "hostler-run"
)

// Package is a package with its signature.
type Package struct {
	Name      string // of the file, without directory
	Signature []byte
	Size      int64
	Content   io.Reader
}

const signed = ".sig"

// isName accepts the name of a file that is a package, and no path.
func isName(s string) bool {
	ok := len(s) <= 200 && (strings.HasSuffix(s, ".deb") || strings.HasSuffix(s, ".rpm")) && s[0] != '.'
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || strings.IndexByte(".+~_-", c) >= 0
	}
	return ok
}

// Write writes a bundle. The same parts make the same bytes.
func Write(w io.Writer, parts []Package) error {
	t := tar.NewWriter(w)
	for _, p := range parts {
		if !isName(p.Name) {
			return bad("%.100q is no name of a package", p.Name)
		}
		for _, f := range []Package{{Name: p.Name + signed, Size: int64(len(p.Signature)), Content: bytes.NewReader(p.Signature)}, p} {
			if err := t.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o644, Size: f.Size, Format: tar.FormatPAX}); err != nil {
				return err
			}
			if _, err := io.Copy(t, f.Content); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

// Release is a bundle that was verified and unpacked.
type Release struct {
	Version  string
	Signer   string   // the name of the key
	Format   Format   // of the packages that were kept
	Packages []string // names of packages, whose files are DIR/packages/NAME.FORMAT
	Programs []string // names of programs, which are DIR/programs/NAME
}

// Unpack verifies a bundle and writes what it holds into dir, which must be new: all
// of it is synced. verify says whose signature stands over the bytes, and refuses
// anything else. A package that is not ours, or for another architecture, is refused.
// One of another format is left out; where take is empty, the format of the first
// package is taken.
func Unpack(dir, arch string, take Format, bundle io.Reader, verify func(sig []byte, content io.Reader) (signer string, err error)) (Release, error) {
	for _, d := range []string{dir, filepath.Join(dir, "packages"), filepath.Join(dir, "programs")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return Release{}, err
		}
	}
	u := unpacker{dir: dir, arch: arch, take: take, verify: verify}
	t := tar.NewReader(bundle)
	for {
		sig, err := u.signature(t)
		if errors.Is(err, io.EOF) {
			return u.all, u.complete()
		}
		if err == nil {
			err = u.part(t, sig)
		}
		if err != nil {
			return Release{}, err
		}
	}
}

type unpacker struct {
	dir, arch string
	take      Format
	verify    func([]byte, io.Reader) (string, error)
	all       Release
	seen      int    // packages, those left out included
	name      string // of the file whose signature was read
}

// signature reads the next signature; io.EOF if the bundle ends before it.
func (u *unpacker) signature(t *tar.Reader) ([]byte, error) {
	h, err := t.Next()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, bad("the bundle is damaged: %w", err)
	}
	u.name = strings.TrimSuffix(h.Name, signed)
	switch {
	case h.Typeflag != tar.TypeReg || u.name == h.Name || !isName(u.name):
		return nil, bad("%.100q stands where the signature of a package should", h.Name)
	case h.Size > MaxSignature:
		return nil, bad("the signature of %s has %d bytes, at most %d are taken", u.name, h.Size, MaxSignature)
	case u.seen == MaxPackages:
		return nil, bad("the bundle has more than %d packages", MaxPackages)
	}
	sig, err := io.ReadAll(t)
	if err != nil {
		return nil, bad("the bundle is damaged: %w", err)
	}
	return sig, nil
}

func (u *unpacker) part(t *tar.Reader, sig []byte) error {
	h, err := t.Next()
	if err != nil || h.Typeflag != tar.TypeReg || h.Name != u.name {
		return bad("the package %s does not follow its signature", u.name)
	}
	if h.Size > MaxPackage {
		return bad("%s has %d bytes, at most %d are taken", u.name, h.Size, MaxPackage)
	}
	kept := filepath.Join(u.dir, "packages", "unverified")
	if err := write(kept, t, 0o600); err != nil {
		return err
	}
	f, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer f.Close()
	signer, err := u.verify(sig, f)
	if err != nil {
		return fmt.Errorf("%s: %w", u.name, err)
	}
	u.seen++
	d, err := Open(f, h.Size)
	if err == nil && u.take == "" {
		u.take = d.Format
	}
	if err == nil && d.Format != u.take {
		return os.Remove(kept)
	}
	if err == nil {
		err = u.check(d)
	}
	if err == nil {
		err = d.Files(u.program)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", u.name, err)
	}
	u.all.Version, u.all.Signer, u.all.Format = d.Version, signer, d.Format
	u.all.Packages = append(u.all.Packages, d.Name)
	return os.Rename(kept, filepath.Join(u.dir, "packages", d.Name+"."+string(d.Format)))
}

func (u *unpacker) check(d *File) error {
	switch {
	case d.Name != Agent && d.Name != AgentLXC:
		return bad("it is the package %.60q; an upgrade takes %s and %s", d.Name, Agent, AgentLXC)
	case slices.Contains(u.all.Packages, d.Name):
		return bad("the bundle has %s twice", d.Name)
	case d.Architecture != u.arch:
		return bad("it is for %.30q, and this host is %s", d.Architecture, u.arch)
	case u.all.Version != "" && d.Version != u.all.Version:
		return bad("it is version %.60q, and the package before it %.60q; all must be the same", d.Version, u.all.Version)
	}
	return nil
}

// program keeps the programs that count.
func (u *unpacker) program(name string, content io.Reader) error {
	base := path.Base(name)
	dir := path.Dir(name)
	ours := base == Agent && dir == "/usr/bin" || (base == Run || base == LXC) && dir == "/usr/libexec/hostler"
	if !ours || slices.Contains(u.all.Programs, base) {
		return nil
	}
	u.all.Programs = append(u.all.Programs, base)
	return write(filepath.Join(u.dir, "programs", base), content, 0o755)
}

func (u *unpacker) complete() error {
	if u.seen > 0 && len(u.all.Packages) == 0 {
		return bad("the bundle has no %s package, and an %[1]s package brought this host its programs; name those with --package too", u.take)
	}
	for _, p := range []string{Agent, Run} {
		if !slices.Contains(u.all.Programs, p) {
			return bad("the bundle has no program %s", p)
		}
	}
	for _, d := range []string{"packages", "programs", "."} {
		if err := durable.Sync(filepath.Join(u.dir, d)); err != nil {
			return err
		}
	}
	return nil
}

func write(name string, content io.Reader, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
