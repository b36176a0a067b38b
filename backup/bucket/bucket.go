// Package bucket keeps files as objects in a bucket of a store that speaks S3. It knows bytes
// and names, and nothing of what is in a file.
//
// A store is on another machine, and may be anybody's: what it answers has a size limit, what
// does not go on ends, and no request is made again without an end. An object appears when all
// of it is there, and replaces none of the same name.
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/hostler-io/hostler/internal/durable"
)

// Config says where a bucket is, and who this host is to its store.
type Config struct {
	// URL is s3://HOST[:PORT]/BUCKET[/PREFIX][?region=REGION&style=path|dns]; s3+http:// in
	// place of s3:// is without TLS, to this machine alone. The names of objects begin with the
	// prefix and a slash. Region is the one in the name of a store of Amazon, or us-east-1, if none
	// is said. Style says where in requests the
	// name of the bucket stands; if it is not said, the address of the store decides.
	URL string
	// Credentials is the file with ACCESS_KEY:SECRET_KEY, which is read by Open.
	Credentials string
	// CAFile has certificates in PEM that the store's may be signed by; empty: those of the
	// system.
	CAFile string
	// PartBytes is how long a file may be that is sent as one; a longer one is sent in parts of
	// that size, or of a larger one where there would be too many. Default: 16 MiB.
	PartBytes int64
}

const (
	defaultRegion = "us-east-1"
	defaultPart   = 16 << 20
	maxSecret     = 4 << 10
	maxCA         = 1 << 20
	// tries is how often a request is made; between two the library waits up to a second.
	tries = 3
)

// location is a URL that was read.
type location struct {
	host, bucket, prefix, region string
	plain                        bool
	style                        minio.BucketLookupType
}

// Check reports what is wrong with the URL.
func (c Config) Check() error {
	_, err := parse(c.URL)
	return err
}

const form = "want s3://HOST[:PORT]/BUCKET[/PREFIX]"

func parse(text string) (p location, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%q is no URL: %s", text, form)
	}
	p.host, p.plain = u.Host, u.Scheme == "s3+http"
	p.bucket, p.prefix, _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	p.prefix = strings.Trim(p.prefix, "/")
	switch {
	case u.Scheme != "s3" && !p.plain:
		return p, fmt.Errorf("%q does not begin with s3://: %s", text, form)
	case u.User != nil:
		return p, fmt.Errorf("a key is in the URL of store %s; put ACCESS_KEY:SECRET_KEY into a file, and name it in backups.s3_credentials", u.Host)
	case u.Hostname() == "" || u.Fragment != "" || strings.ContainsAny(p.host, " ,"):
		return p, fmt.Errorf("%q names no store: %s", text, form)
	case p.plain && !loopback(u.Hostname()):
		return p, fmt.Errorf("%q is not encrypted on its way, and does not lead to this machine: want s3://", text)
	case p.bucket == "":
		return p, fmt.Errorf("%q names no bucket: %s", text, form)
	case len(p.bucket) < 3 || len(p.bucket) > 63 || strings.Trim(p.bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "":
		return p, fmt.Errorf("no bucket can be called %q: its name has 3 to 63 lower-case letters, digits, dots and hyphens", p.bucket)
	case len(p.prefix) > 256 || strings.Contains(p.prefix, "//") || strings.ContainsFunc(p.prefix, func(r rune) bool { return r <= ' ' || r > '~' }) || dots(p.prefix):
		return p, fmt.Errorf("the prefix %q has characters that no name of an object should have", p.prefix)
	}
	if p.prefix != "" {
		p.prefix += "/"
	}
	return p, p.options(u)
}

// options reads what stands behind the question mark.
func (p *location) options(u *url.URL) error {
	all, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("the options of %q cannot be read: %w", u.Redacted(), err)
	}
	for name, values := range all {
		switch value := values[0]; {
		case len(values) > 1 || value == "":
			return fmt.Errorf("the option %q of store %s wants one value", name, p.host)
		case name == "region":
			p.region = value
		case name == "style" && value == "path":
			p.style = minio.BucketLookupPath
		case name == "style" && value == "dns":
			p.style = minio.BucketLookupDNS
		default:
			return fmt.Errorf("%s=%q is no option of a store: want region=REGION, style=path or style=dns", name, value)
		}
	}
	return nil
}

// dots reports whether a part of a path is . or .., which some stores take for directories.
func dots(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// Bucket is a bucket, or a part of one whose names begin alike. It is safe for concurrent use.
type Bucket struct {
	location
	client minio.Core
	part   int64
}

// Open reads the credentials. It asks the store for nothing.
func Open(c Config) (*Bucket, error) {
	p, err := parse(c.URL)
	if err != nil {
		return nil, err
	}
	id, secret, err := login(c.Credentials)
	if err != nil {
		return nil, err
	}
	carry, err := transport(c.CAFile)
	if err != nil {
		return nil, err
	}
	client, err := minio.NewCore(p.host, &minio.Options{
		Creds: credentials.NewStaticV4(id, secret, ""), Secure: !p.plain, Region: cmp.Or(p.region, s3utils.GetRegionFromURL(url.URL{Host: p.host}), defaultRegion), BucketLookup: p.style,
		Transport: carry, MaxRetries: tries,
	})
	if err != nil {
		return nil, fmt.Errorf("the store %s: %w", p.host, err)
	}
	return &Bucket{location: p, client: *client, part: cmp.Or(c.PartBytes, defaultPart)}, nil
}

// String tells people where it is.
func (b *Bucket) String() string { return b.host + "/" + b.bucket }

// login reads who this host is to the store.
func login(path string) (id, secret string, err error) {
	if !strings.Contains(path, "/") {
		return "", "", fmt.Errorf("the credentials of the store: systemd has given no credentials; add LoadCredential=%s:PATH to the unit, or name a file with its path", path)
	}
	info, err := os.Stat(path)
	if err == nil {
		err = durable.CheckOwner(path)
	}
	if err != nil {
		return "", "", fmt.Errorf("the credentials of the store: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return "", "", fmt.Errorf("the credentials of the store: all users can read %s: chmod 600 %s", path, path)
	}
	text, err := durable.ReadFile(path, maxSecret)
	if err != nil {
		return "", "", fmt.Errorf("the credentials of the store: %w", err)
	}
	id, secret, ok := strings.Cut(string(bytes.TrimSpace(text)), ":")
	if !ok || id == "" || secret == "" || strings.ContainsFunc(id+secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", "", fmt.Errorf("the credentials of the store: %s does not hold one line with ACCESS_KEY:SECRET_KEY", path)
	}
	return id, secret, nil
}

// transport carries requests, and believes the certificates of a file.
func transport(caFile string) (http.RoundTripper, error) {
	t := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 2,
		MaxResponseHeaderBytes: 64 << 10, DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if caFile != "" {
		pem, err := durable.ReadFile(caFile, maxCA)
		if err != nil {
			return nil, fmt.Errorf("backups.s3_ca_file: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("backups.s3_ca_file: %s has no certificate in PEM", caFile)
		}
	}
	return &patient{carry: t, every: patience}, nil
}

// brief bounds a request that moves little.
func brief(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Minute, errSilent)
}

// errSilent says that a store has stopped to speak.
var errSilent = errors.New("it has not answered in time")
