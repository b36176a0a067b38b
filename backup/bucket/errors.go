package bucket

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/hostler-io/hostler/container"
)

// fail says why a request failed, and what to do: container.ErrNotFound if there is no object
// of that name, container.ErrExists if there is one, and container.ErrUnavailable for all that
// may pass or be mended.
func (b *Bucket) fail(ctx context.Context, name string, err error) error {
	said := minio.ToErrorResponse(err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSilent):
		return context.Cause(ctx)
	case isCode(said, minio.NoSuchKey):
		return fmt.Errorf("%w: %s has no object %s", container.ErrNotFound, b, b.prefix+name)
	case isCode(said, minio.PreconditionFailed):
		return fmt.Errorf("%w: %s has an object %s already", container.ErrExists, b, b.prefix+name)
	case isCode(said, minio.NoSuchBucket):
		return fmt.Errorf("%w: store %s has no bucket %s; make it there, or correct backups.targets", container.ErrUnavailable, b.host, b.bucket)
	}
	return fmt.Errorf("%w: %s", container.ErrUnavailable, b.why(ctx, said, err))
}

// why tells people what is wrong with a store.
func (b *Bucket) why(ctx context.Context, said minio.ErrorResponse, err error) string {
	var authority x509.UnknownAuthorityError
	switch {
	case isCode(said, "RequestTimeTooSkewed"):
		return fmt.Sprintf("store %s refuses this host, whose clock differs from its own; set the clock", b.host)
	case isCode(said, "InvalidAccessKeyId", "SignatureDoesNotMatch"):
		return fmt.Sprintf("store %s does not know the key of this host (%s); correct the file that backups.s3_credentials names", b.host, said.Code)
	case said.StatusCode == http.StatusForbidden || isCode(said, minio.AccessDenied):
		return fmt.Sprintf("store %s refuses what this host asks of bucket %s (%s); allow the key of backups.s3_credentials to list the bucket, and to read, write and delete objects below %q", b.host, b.bucket, quoted(said.Code), b.prefix)
	case said.StatusCode >= 300 && said.StatusCode < 400 || isCode(said, "AuthorizationHeaderMalformed", "InvalidRegion"):
		return fmt.Sprintf("bucket %s is not where this host asks for it (%s); say ?region= and ?style= in backups.targets as store %s has them", b.bucket, quoted(said.Code), b.host)
	case errors.As(err, &authority):
		return fmt.Sprintf("the certificate of store %s is signed by an authority that this host does not know; name the certificate of the authority in backups.s3_ca_file", b.host)
	case errors.Is(err, errTooLong), errors.Is(err, errNoStore):
		return fmt.Sprintf("what answers at %s is no store that speaks S3; correct backups.targets", b.host)
	case errors.Is(err, errSilent) || errors.Is(context.Cause(ctx), errSilent):
		return fmt.Sprintf("store %s: %v; is it overloaded, or the network?", b.host, errSilent)
	case said.StatusCode >= 500:
		return fmt.Sprintf("store %s has failed (%s: %s)", b.host, quoted(said.Code), quoted(said.Message))
	case said.StatusCode != 0:
		return fmt.Sprintf("store %s refuses (%s: %s)", b.host, quoted(said.Code), quoted(said.Message))
	}
	return fmt.Sprintf("store %s cannot be asked: %s; is it on, and the address right?", b.host, quoted(err.Error()))
}

func isCode(said minio.ErrorResponse, codes ...string) bool {
	for _, c := range codes {
		if said.Code == c {
			return true
		}
	}
	return false
}

// maxSaid is how much of a store's words an error repeats, in bytes.
const maxSaid = 300

// quoted is what a store has said, without what could disturb a terminal.
func quoted(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxSaid)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
