package image

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/debootstrap"
	"github.com/hostler-io/hostler/protocol"
)

// origin is where an image comes from: one of its fields besides key, or none of an image
// that was made on this host.
type origin struct {
	// key is the same for the same image, however it was written.
	key string
	ref name.Reference // of a registry
	// server is the URL of an image server, and alias what is asked of it. version is
	// empty for the newest.
	server         *url.URL
	alias, version string
	file           string   // a path of this host
	url            *url.URL // of a file
	// suite is a release of Debian, and mirror the URL of its packages.
	suite, mirror string
	sum           *protocol.Digest
}

// place is who is asked.
func (o *origin) place() string {
	switch {
	case o.server != nil:
		return o.server.Host
	case o.url != nil:
		return o.url.Host
	case o.ref != nil:
		return o.ref.Context().RegistryStr()
	}
	return o.file
}

// serverName is what an image server is called by: no scheme and no registry.
var serverName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

func isServerName(s string) bool {
	return serverName.MatchString(s) && !slices.Contains([]string{"file", "http", "https", "localhost", "debootstrap"}, s)
}

// where reads a reference.
func (r *Registries) where(reference string) (o origin, err error) {
	o.key = reference
	if container.IsLocalImage(reference) {
		parsed, err := name.ParseReference("host.local/" + strings.TrimPrefix(reference, container.LocalImage)) // a registry has a dot
		if err != nil {
			return o, fmt.Errorf("%w: %w; want %sNAME:VERSION", ErrReference, err, container.LocalImage)
		}
		o.key = container.LocalImage + strings.TrimPrefix(parsed.Name(), "host.local/")
		return o, nil
	}
	if suite, ok := strings.CutPrefix(reference, container.Debootstrap); ok {
		o.suite, o.mirror = suite, r.Debootstrap
		switch {
		case !debootstrap.IsSuite(suite):
			err = fmt.Errorf("%w: %.100q is no release of Debian: write it as %sbookworm", ErrReference, suite, container.Debootstrap)
		case r.Debootstrap == "":
			err = fmt.Errorf("%w: %w: this host makes no images of packages; its images.debootstrap names no mirror", container.ErrUnsupported, ErrReference)
		}
		return o, err
	}
	if container.IsOCI(reference) || container.IsWord(reference) {
		if o.ref, err = parse(reference); err == nil {
			o.key = o.ref.Name()
		}
		return o, err
	}
	text, sum, pinned := strings.Cut(reference, "@sha256:")
	if pinned {
		o.sum = new(protocol.Digest)
		if err := o.sum.UnmarshalText([]byte(sum)); err != nil {
			return o, fmt.Errorf("%w: %q is no digest: want 64 hexadecimal digits", ErrReference, sum)
		}
	}
	scheme, rest, _ := strings.Cut(text, ":")
	switch scheme {
	case "file":
		if !filepath.IsAbs(rest) || filepath.Clean(rest) != rest {
			return o, fmt.Errorf("%w: %q is no absolute path: write it as file:/srv/debian.tar", ErrReference, rest)
		}
		o.file = rest
		return o, nil
	case "http", "https":
		if o.url, err = url.Parse(text); err != nil || o.url.Host == "" || o.url.Path == "" {
			return o, fmt.Errorf("%w: %q is no address of a file: write it as https://site.example/debian.tar", ErrReference, text)
		}
		return o, nil
	}
	for _, s := range r.Servers {
		if of, address, _ := strings.Cut(s, "="); of == scheme {
			o.server, err = url.Parse(strings.TrimSuffix(address, "/"))
			o.alias, o.version, _ = strings.Cut(rest, "@")
			if pinned {
				err = errors.Join(err, fmt.Errorf("%w: an image server knows versions, and no digests: write %s@VERSION", ErrReference, text))
			}
			return o, err
		}
	}
	return o, fmt.Errorf("%w: this host knows no image server %q; add \"%s=URL\" to images.servers in its agent.toml", ErrReference, scheme, scheme)
}
