package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/durable"
)

// Registries say how registries are reached.
type Registries struct {
	// Insecure are registries, HOST[:PORT], that may be asked without TLS.
	Insecure []string
	// Mirrors are asked before a registry itself: REGISTRY=MIRROR, in order.
	Mirrors []string
	// Proxy is the URL of the proxy; empty is that of the agent's environment.
	Proxy string
	// Servers are the image servers for LXC: NAME=URL.
	Servers []string
	// Logins are what registries and mirrors are shown: REGISTRY=FILE, where the file
	// holds USER:PASSWORD.
	Logins []string
	// Debootstrap is the URL of a mirror of Debian, of whose packages images are made; empty
	// is none.
	Debootstrap string
}

// maxLogin bounds the file of a login, in bytes.
const maxLogin = 64 << 10

// login is what a registry is shown.
func (r *Registries) login(reg name.Registry) (authn.Authenticator, error) {
	for _, l := range r.Logins {
		of, file, _ := strings.Cut(l, "=")
		if want, err := name.NewRegistry(of); err != nil || want.Name() != reg.Name() {
			continue
		}
		raw, err := durable.ReadFile(file, maxLogin)
		if err != nil {
			return nil, fmt.Errorf("the login for %s: %w", reg.Name(), err)
		}
		user, password, ok := strings.Cut(strings.TrimSpace(string(raw)), ":")
		if !ok {
			return nil, fmt.Errorf("the login for %s: %s does not hold USER:PASSWORD", reg.Name(), file)
		}
		return &authn.Basic{Username: user, Password: password}, nil
	}
	return authn.Anonymous, nil
}

// Check reports what is wrong with them, in the words of the configuration.
func (r Registries) Check() error {
	for _, m := range r.Mirrors {
		of, by, ok := strings.Cut(m, "=")
		if _, err := name.NewRegistry(by); !ok || of == "" || err != nil {
			return fmt.Errorf("images.mirrors: %q is no REGISTRY=MIRROR", m)
		}
	}
	for _, i := range r.Insecure {
		if _, err := name.NewRegistry(i); err != nil || i == "" {
			return fmt.Errorf("images.insecure: %q is no HOST[:PORT]", i)
		}
	}
	for _, l := range r.Logins {
		of, file, _ := strings.Cut(l, "=")
		if _, err := name.NewRegistry(of); of == "" || err != nil || !filepath.IsAbs(file) {
			return fmt.Errorf("images.logins: %q is no REGISTRY=FILE with an absolute path", l)
		}
	}
	for _, s := range r.Servers {
		of, address, _ := strings.Cut(s, "=")
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || !isServerName(of) {
			return fmt.Errorf("images.servers: %q is no NAME=URL such as images=https://images.example", s)
		}
	}
	if u, err := url.Parse(r.Debootstrap); err != nil || r.Debootstrap != "" && (u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.String() != r.Debootstrap) {
		return fmt.Errorf("images.debootstrap: %q is no URL such as http://deb.debian.org/debian", r.Debootstrap)
	}
	if u, err := url.Parse(r.Proxy); err != nil || r.Proxy != "" && u.Host == "" {
		return fmt.Errorf("images.proxy: %q is no URL such as http://proxy.example:3128", r.Proxy)
	}
	return nil
}

// places are where a repository may be found, the mirrors before its registry.
func (r *Registries) places(repo name.Repository) (all []name.Repository) {
	for _, m := range r.Mirrors {
		of, by, _ := strings.Cut(m, "=")
		if reg, err := name.NewRegistry(of); err == nil && reg.Name() == repo.RegistryStr() {
			if mirror, err := name.NewRegistry(by); err == nil { // it was checked
				all = append(all, mirror.Repo(repo.RepositoryStr()))
			}
		}
	}
	return append(all, repo)
}

// Times of a conversation with a registry.
const (
	dialTime   = 20 * time.Second
	answerTime = time.Minute
	// stallTime is after how long without a byte a part is asked for again.
	stallTime = 30 * time.Second
	// tries of a part, and the pause before the second one; it doubles.
	tries     = 5
	firstWait = 500 * time.Millisecond
)

// guard keeps requests from leaving TLS for a registry for which that was not allowed.
type guard struct {
	http.RoundTripper
	insecure []string
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !slices.Contains(g.insecure, r.URL.Host) {
		return nil, fmt.Errorf("%s is asked for without TLS, which images.insecure does not allow", r.URL.Host)
	}
	answer, err := g.RoundTripper.RoundTrip(r)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices { // its text is read whole
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxRefusal), answer.Body}
	}
	return answer, err
}

// maxRefusal bounds what is read of an answer that refuses, in bytes.
const maxRefusal = 64 << 10

// source is a repository as it is reached.
type source struct {
	repo name.Repository
	http *http.Client
}

// transport is how all that is far away is reached.
func (r *Registries) transport() *http.Transport {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext,
		TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: answerTime, MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives: false, MaxIdleConnsPerHost: parallel, DisableCompression: true,
	}
	if u, err := url.Parse(r.Proxy); err == nil && r.Proxy != "" {
		t.Proxy = http.ProxyURL(u)
	}
	return t
}

// reach makes the first contact with a registry, which says what it wants to be shown.
func (r *Registries) reach(ctx context.Context, repo name.Repository) (*source, error) {
	t := r.transport()
	var options []name.Option
	if slices.Contains(r.Insecure, repo.RegistryStr()) {
		options = append(options, name.Insecure)
	}
	reg, err := name.NewRegistry(repo.RegistryStr(), options...)
	if err != nil {
		return nil, err
	}
	repo.Registry = reg
	who, err := r.login(reg)
	if err != nil {
		return nil, err
	}
	rt, err := transport.NewWithContext(ctx, reg, who, guard{t, r.Insecure}, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		t.CloseIdleConnections()
		return nil, err
	}
	return &source{repo, &http.Client{Transport: closing{rt, t}}}, nil
}

// closing lets the client let go of the connections.
type closing struct {
	http.RoundTripper
	idle interface{ CloseIdleConnections() }
}

func (c closing) CloseIdleConnections() { c.idle.CloseIdleConnections() }

func (s *source) close() { s.http.CloseIdleConnections() }

func (s *source) get(ctx context.Context, path string, header http.Header, codes ...int) (*http.Response, error) {
	u := url.URL{Scheme: s.repo.Scheme(), Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + path}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, codes...); err != nil {
		_ = resp.Body.Close() // the error is what counts
		return nil, err
	}
	return resp, nil
}

// manifest returns the manifest of that tag or digest, and its own digest.
func (s *source) manifest(ctx context.Context, identifier string) (raw []byte, kind types.MediaType, d v1.Hash, err error) {
	accept := []string{string(types.OCIImageIndex), string(types.OCIManifestSchema1), string(types.DockerManifestList), string(types.DockerManifestSchema2)}
	resp, err := s.get(ctx, "/manifests/"+identifier, http.Header{"Accept": {strings.Join(accept, ", ")}}, http.StatusOK)
	if err != nil {
		return nil, "", d, err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, "", d, err
	}
	if len(raw) > maxManifest {
		return nil, "", d, fmt.Errorf("%w: its manifest has more than %d bytes", ErrImage, maxManifest)
	}
	d = v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sha256.Sum256(raw))}
	if strings.HasPrefix(identifier, "sha256:") && identifier != d.String() {
		return nil, "", d, fmt.Errorf("%w: the registry sent a manifest of the digest %s for %s", ErrImage, d, identifier)
	}
	return raw, types.MediaType(resp.Header.Get("Content-Type")), d, nil
}

// part fetches a part of an image into the store.
func (s *source) part(ctx context.Context, store *blob.Store, part v1.Descriptor, came func(int64)) error {
	return fetchPart(ctx, store, part, came, func(ctx context.Context, header http.Header) (*http.Response, error) {
		return s.get(ctx, "/blobs/"+part.Digest.String(), header, http.StatusOK, http.StatusPartialContent)
	})
}

// getter asks for a part, or for what of it is missing.
type getter func(ctx context.Context, header http.Header) (*http.Response, error)

// fetchPart fetches what is known by its digest and size. came is called with the bytes
// that have come, a negative number if they came in vain.
func fetchPart(ctx context.Context, store *blob.Store, part v1.Descriptor, came func(int64), get getter) error {
	d, err := digestOf(part.Digest)
	if err != nil {
		return err
	}
	for try, wait := 1, firstWait; ; try, wait = try+1, 2*wait {
		if size, _, err := store.Size(d); err == nil {
			came(size)
			return nil
		}
		f, err := store.Fill(d, part.Size)
		if errors.Is(err, blob.ErrBusy) {
			if err := store.Await(ctx, d); err != nil {
				return err
			}
			try--
			continue
		}
		if err != nil {
			return err
		}
		had := f.Offset()
		came(had)
		if err = fill(ctx, f, part, came, get); err == nil {
			_, err = f.Finish()
		}
		if err == nil {
			return nil
		}
		came(-f.Offset())
		_ = f.Close() // what has come is kept for the next try
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		if try == tries || final(err, had) {
			return err
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// final reports whether an error would be the same at another try, of a part of which so
// much was there before.
func final(err error, had int64) bool {
	refused, answered := errors.AsType[*transport.Error](err)
	return answered && !refused.Temporary() || errors.Is(err, blob.ErrSpace) || errors.Is(err, blob.ErrSize) || errors.Is(err, blob.ErrDigest) && had == 0
}

// errStalled ends a transfer in which nothing comes any more.
var errStalled = errors.New("nothing has come for a while")

// fill fetches what is missing of a part.
func fill(ctx context.Context, f *blob.File, part v1.Descriptor, came func(int64), get getter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTime+answerTime, func() { cancel(errStalled) })
	defer stalled.Stop()
	header := make(http.Header)
	if f.Offset() > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", f.Offset()))
	}
	if f.Offset() == part.Size {
		return nil // all of it was there, and its digest was not yet looked at
	}
	resp, err := get(ctx, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if f.Offset() > 0 && !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", f.Offset())) {
		came(-f.Offset()) // it sends all of it again
		if err := f.Restart(); err != nil {
			return err
		}
	}
	return copyTo(ctx, f, resp.Body, came, func() { stalled.Reset(stallTime) })
}

// copyTo takes what comes.
func copyTo(ctx context.Context, f io.Writer, body io.Reader, came func(int64), alive func()) error {
	buffer := make([]byte, 256<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			alive()
			if _, err := f.Write(buffer[:n]); err != nil {
				return err
			}
			came(int64(n))
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && context.Cause(ctx) == errStalled:
			return errStalled
		case err != nil:
			return err
		}
	}
}
