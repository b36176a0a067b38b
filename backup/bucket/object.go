package bucket

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/hostler-io/hostler/container"
)

// maxObjects bounds what is looked at to list a bucket.
const maxObjects = 10_000

// Names are those of the objects, without the prefix. Objects below further slashes are not
// among them.
func (b *Bucket) Names(ctx context.Context) (all []string, err error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	for o := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if o.Err != nil {
			return nil, b.fail(ctx, "", o.Err)
		}
		if len(all) == maxObjects {
			return nil, fmt.Errorf("%w: bucket %s has more than %d objects below %q; give the target a prefix of its own", container.ErrUnavailable, b.bucket, maxObjects, b.prefix)
		}
		all = append(all, strings.TrimPrefix(o.Key, b.prefix))
	}
	if ctx.Err() != nil { // the list may end without a word
		return nil, b.fail(ctx, "", context.Cause(ctx))
	}
	return all, nil
}

// Remove removes an object. One that is not there is container.ErrNotFound.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	ctx, cancel := brief(ctx)
	defer cancel()
	if _, _, err := b.stat(ctx, name); err != nil {
		return err
	}
	return b.fail(ctx, name, b.client.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{}))
}

// stat looks at an object by reading its first byte: to a question for its head alone a store
// cannot say why it does not answer.
func (b *Bucket) stat(ctx context.Context, name string) (mark string, size int64, err error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	var opts minio.GetObjectOptions
	if err := opts.SetRange(0, 0); err != nil {
		return "", 0, err
	}
	body, info, head, err := b.client.GetObject(ctx, b.bucket, b.prefix+name, opts)
	if isEmpty(err) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, b.fail(ctx, name, err)
	}
	_, _, size, err = ranged(head)
	if err = errors.Join(err, body.Close()); err != nil {
		return "", 0, b.another(err)
	}
	return info.UserMetadata[uploadMark], size, nil
}

// isEmpty reports whether a part was refused because the object has nothing in it.
func isEmpty(err error) bool {
	return err != nil && isCode(minio.ToErrorResponse(err), minio.InvalidRange)
}

// uploadMark is the piece of metadata by which an object is known to be of one upload.
const uploadMark = "Hostler-Upload"

// Put makes an object of a file. It appears when all of it is there. One of that name is
// container.ErrExists, and stays as it is; a store that does not know the condition by which it
// refuses is asked before for the name alone. If the file is sent in parts, begun is told the
// upload first: the parts take room until the upload is done, or [Bucket.Abort] ends it.
func (b *Bucket) Put(ctx context.Context, name string, file io.ReaderAt, size int64, begun func(upload string) error) error {
	if _, _, err := b.stat(ctx, name); !errors.Is(err, container.ErrNotFound) {
		if err == nil {
			err = fmt.Errorf("%w: %s has an object %s already", container.ErrExists, b, b.prefix+name)
		}
		return err
	}
	token := rand.Text()
	err := b.send(ctx, name, token, io.NewSectionReader(file, 0, size), begun)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The answer may have been lost, and not the object: what was asked for once more is refused
	// because it is there.
	if mark, there, bad := b.stat(ctx, name); bad == nil && there == size && mark == token {
		return nil
	}
	return err
}

func (b *Bucket) send(ctx context.Context, name, token string, file *io.SectionReader, begun func(string) error) error {
	var upload string
	var parts []minio.CompletePart
	whole := file.Size() <= b.part
	marked := minio.PutObjectOptions{ContentType: "application/octet-stream", UserMetadata: map[string]string{uploadMark: token}}
	if !whole {
		var err error
		if upload, err = b.begin(ctx, name, marked); err == nil {
			err = begun(upload)
		}
		if err != nil {
			return err
		}
		if parts, err = b.parts(ctx, name, upload, file); err != nil {
			return err
		}
		marked = minio.PutObjectOptions{} // the upload has it
	}
	finish := func(o minio.PutObjectOptions) (err error) {
		if whole {
			var sum string
			if sum, err = digest(file); err == nil {
				_, err = b.client.PutObject(ctx, b.bucket, b.prefix+name, file, file.Size(), "", sum, o)
			}
		} else {
			_, err = b.client.CompleteMultipartUpload(ctx, b.bucket, b.prefix+name, upload, parts, o)
		}
		return err
	}
	never := marked
	never.SetMatchETagExcept("*")
	err := finish(never)
	if said := minio.ToErrorResponse(err); said.StatusCode == http.StatusNotImplemented || isCode(said, minio.NotImplemented) {
		err = finish(marked)
	}
	return b.fail(ctx, name, err)
}

func (b *Bucket) begin(ctx context.Context, name string, o minio.PutObjectOptions) (string, error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	upload, err := b.client.NewMultipartUpload(ctx, b.bucket, b.prefix+name, o)
	if err == nil && (upload == "" || len(upload) > maxUpload) {
		err = errors.New("it has named no upload")
	}
	return upload, b.fail(ctx, name, err)
}

const (
	maxParts  = 10_000
	maxUpload = 1 << 10 // bytes of the name of an upload
)

// parts sends a file in parts, one after the other: that takes the memory of none, and leaves
// room on the line for others.
func (b *Bucket) parts(ctx context.Context, name, upload string, file *io.SectionReader) (all []minio.CompletePart, err error) {
	size := b.part
	for size*maxParts < file.Size() {
		size *= 2
	}
	for at := int64(0); at < file.Size(); at += size {
		part := io.NewSectionReader(file, at, min(size, file.Size()-at))
		sum, err := digest(part)
		if err != nil {
			return nil, err
		}
		p, err := b.client.PutObjectPart(ctx, b.bucket, b.prefix+name, upload, len(all)+1, part, part.Size(), minio.PutObjectPartOptions{Sha256Hex: sum})
		if err != nil {
			return nil, b.fail(ctx, "", err)
		}
		all = append(all, minio.CompletePart{PartNumber: p.PartNumber, ETag: p.ETag})
	}
	return all, nil
}

// digest is what the store compares with what came.
func digest(part *io.SectionReader) (string, error) {
	sum := sha256.New()
	_, err := io.Copy(sum, io.NewSectionReader(part, 0, part.Size()))
	return hex.EncodeToString(sum.Sum(nil)), err
}

// Abort ends an upload whose object never appeared, and frees its parts. One that is done or
// aborted is no error.
func (b *Bucket) Abort(ctx context.Context, name, upload string) error {
	ctx, cancel := brief(ctx)
	defer cancel()
	err := b.client.AbortMultipartUpload(ctx, b.bucket, b.prefix+name, upload)
	if isCode(minio.ToErrorResponse(err), minio.NoSuchUpload) {
		return nil
	}
	return b.fail(ctx, "", err)
}

// Object is an object that is read. It is not safe for concurrent use: who reads on where
// the last read has ended gets what one request brings.
type Object struct {
	Size     int64
	Modified time.Time
	ETag     string

	b    *Bucket
	ctx  context.Context // of Open; io.ReaderAt has none
	name string
	end  []byte        // the end of the object
	body io.ReadCloser // from at on; nil: nothing is asked for
	at   int64
}

// endBytes is how much of the end of an object is asked for first: signed manifests are there.
const endBytes = 64 << 10

// Open opens an object, as it is now: if it is replaced while it is read, reading fails. It
// reads the end of it.
func (b *Bucket) Open(ctx context.Context, name string) (*Object, error) {
	o := &Object{b: b, ctx: ctx, name: name}
	ctx, cancel := brief(ctx)
	defer cancel()
	var opts minio.GetObjectOptions
	if err := opts.SetRange(0, -endBytes); err != nil {
		return nil, err
	}
	body, info, head, err := b.client.GetObject(ctx, b.bucket, b.prefix+name, opts)
	if isEmpty(err) {
		return o, nil
	}
	if err != nil {
		return nil, b.fail(ctx, name, err)
	}
	defer body.Close()
	from, to, size, err := ranged(head)
	if err != nil || to != size-1 || size-from > endBytes {
		return nil, b.another(err)
	}
	o.Size, o.Modified, o.ETag = size, info.LastModified, info.ETag
	if o.end, err = io.ReadAll(io.LimitReader(body, size-from)); err == nil && int64(len(o.end)) < size-from {
		err = io.ErrUnexpectedEOF
	}
	return o, b.fail(ctx, name, err)
}

// another says that a store does not send the part of an object that it is asked for.
func (b *Bucket) another(err error) error {
	return errors.Join(fmt.Errorf("%w: store %s sends another part of an object than it is asked for; does it speak S3?", container.ErrUnavailable, b.host), err)
}

// ranged reads which part of an object an answer has, of its first to its last byte. Of an
// object with nothing in it there is no part; any other answer without one is no store's.
func ranged(head http.Header) (from, to, size int64, err error) {
	text := head.Get("Content-Range")
	if text == "" && head.Get("Content-Length") == "0" && head.Get("ETag") != "" {
		return 0, -1, 0, nil
	}
	if n, err := fmt.Sscanf(text, "bytes %d-%d/%d", &from, &to, &size); err != nil || n != 3 {
		return 0, 0, 0, fmt.Errorf("%.80q is no range", text)
	}
	if from < 0 || from > to || to >= size {
		return 0, 0, 0, errors.New("it sends a part that lies outside of the object")
	}
	return from, to, size, nil
}

// ReadAt implements [io.ReaderAt]. What the line loses is asked for again from there on.
func (o *Object) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off >= o.Size {
		return 0, io.EOF
	}
	short := int64(len(p)) > o.Size-off
	if short {
		p = p[:o.Size-off]
	}
	if kept := o.Size - int64(len(o.end)); off >= kept {
		n = copy(p, o.end[off-kept:])
	}
	for failed := 0; n < len(p); {
		m, err := o.readOn(p[n:], off+int64(n))
		if n += m; m > 0 {
			failed = 0
		}
		var broken *brokenError
		if failed++; errors.As(err, &broken) && failed < tries && o.ctx.Err() == nil {
			continue
		}
		if isCode(minio.ToErrorResponse(err), minio.PreconditionFailed) {
			return n, fmt.Errorf("%w: object %s was replaced while it was read; try again", container.ErrUnavailable, o.b.prefix+o.name)
		}
		if err != nil {
			return n, o.b.fail(o.ctx, o.name, err)
		}
	}
	if short {
		err = io.EOF
	}
	return n, err
}

// brokenError says that the line was lost in the middle of an object.
type brokenError struct{ error }

func (b *brokenError) Unwrap() error { return b.error }

// readOn reads from the body that is there, or asks for one. After an error there is none.
func (o *Object) readOn(p []byte, off int64) (int, error) {
	if o.body == nil || o.at != off {
		if err := o.ask(off); err != nil {
			return 0, err
		}
	}
	n, err := o.body.Read(p)
	if o.at += int64(n); err == io.EOF && o.at < o.Size {
		err = io.ErrUnexpectedEOF
	} else if err == io.EOF {
		err = nil
	}
	if err != nil {
		_ = o.Close() // of what is read only
		return n, &brokenError{err}
	}
	return n, nil
}

// ask asks for the object from there to its end.
func (o *Object) ask(off int64) error {
	if err := o.Close(); err != nil {
		return err
	}
	var opts minio.GetObjectOptions
	err := opts.SetRange(off, o.Size-1)
	if err == nil && o.ETag != "" {
		err = opts.SetMatchETag(o.ETag)
	}
	if err != nil {
		return err
	}
	body, _, head, err := o.b.client.GetObject(o.ctx, o.b.bucket, o.b.prefix+o.name, opts)
	if err != nil {
		return err
	}
	if from, to, size, err := ranged(head); err != nil || from != off || to != size-1 || size != o.Size {
		return errors.Join(errors.New("it sends another part of the object than it is asked for"), err, body.Close())
	}
	o.body, o.at = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(body, o.Size-off), body}, off
	return nil
}

// Close implements [io.Closer].
func (o *Object) Close() (err error) {
	if o.body != nil {
		err, o.body = o.body.Close(), nil
	}
	return err
}
