package upgrade

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/release"
)

// packages are what was named by --package: of one version, for some architectures.
type packages struct {
	version string
	parts   map[string][]release.Package // by architecture
	files   []*os.File
}

func (p *packages) close() {
	for _, f := range p.files {
		_ = f.Close() // they were only read
	}
}

// openPackages reads packages, and their signatures beside them.
func openPackages(names []string) (*packages, error) {
	p := &packages{parts: map[string][]release.Package{}}
	for _, name := range names {
		if err := p.add(name); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *packages) add(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return &term.Failure{Code: term.ExitNotFound, What: "cannot read " + name, Why: err.Error()}
	}
	p.files = append(p.files, f)
	i, err := f.Stat()
	if err != nil {
		return term.Cannot("read "+name, err)
	}
	d, err := release.Open(f, i.Size())
	if err != nil {
		return term.Cannot("read "+name, err)
	}
	switch {
	case d.Name != release.Agent && d.Name != release.AgentLXC:
		return term.Usage("hostler host upgrade --help", "%s is the package %s; hosts are upgraded by %s and %s", name, term.Printable(d.Name), release.Agent, release.AgentLXC)
	case p.version != "" && d.Version != p.version:
		return term.Usage("", "%s is version %s, and the package before it %s; all must be the same", name, term.Printable(d.Version), term.Printable(p.version))
	}
	sig, err := readSignature(name)
	if err != nil {
		return err
	}
	p.version = d.Version
	p.parts[d.Architecture] = append(p.parts[d.Architecture], release.Package{
		Name: filepath.Base(name), Signature: sig, Size: i.Size(), Content: io.NewSectionReader(f, 0, i.Size()),
	})
	return nil
}

func readSignature(name string) ([]byte, error) {
	for _, suffix := range []string{".sig", ".asc"} {
		b, err := conn.ReadSmall(name + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			b, err = certs.ReadSignature(b)
		}
		return b, term.Cannot("read the signature "+name+suffix, err)
	}
	return nil, &term.Failure{
		Code: term.ExitNotFound, What: "there is no signature of " + name, Why: fmt.Sprintf("neither %s.sig nor %[1]s.asc exists", name),
		Next: "gpg --detach-sign " + name + ", or hostler key sign " + name,
	}
}

// bundle makes the payload for an architecture.
func (p *packages) bundle(a *term.UI, arch string) (*dispatch.Payload, error) {
	out, err := os.CreateTemp("", "hostler-upgrade-")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(out.Name()), release.Write(out, p.parts[arch])); err != nil {
		_ = out.Close() // it has no name any more
		return nil, term.Cannot("bundle the packages for "+arch, err)
	}
	return dispatch.NewPayload(a, out, "the packages")
}
