package bucket

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// patience is how long a request may move next to nothing: a store that puts a large
	// object together thinks for a while before it answers.
	patience = 2 * time.Minute
	// leastMoved is what a request moves in that time at least, in bytes.
	leastMoved = 64 << 10
	// maxAnswer bounds each answer that is no part of an object, in bytes: a list of a thousand
	// names has less than one million.
	maxAnswer = 8 << 20
	// maxRefusal bounds what says that there is no such object, and maxHead the place in a list
	// where it says that it is one.
	maxRefusal = 64 << 10
	maxHead    = 1 << 10
)

// errTooLong says that an answer has no end.
var errTooLong = errors.New("its answer is longer than any that S3 knows")

// errNoStore says that an error came from something else, as from a server of web pages.
var errNoStore = errors.New("what it answers is none of S3")

// patient ends requests that do not go on.
type patient struct {
	carry http.RoundTripper
	every time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &watch{ctx: ctx, cancel: cancel, every: p.every}
	w.timer = time.AfterFunc(p.every, w.look)
	req = req.Clone(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &watched{ReadCloser: req.Body, watch: w}
	}
	resp, err := p.carry.RoundTrip(req)
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		w.end()
		return nil, err
	}
	body := &watched{ReadCloser: resp.Body, watch: w, left: mostOf(req, resp.StatusCode), last: true}
	if resp.Body, err = believable(req, resp.StatusCode, body); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return resp, nil
}

// mostOf is how long an answer may be: a part of an object as long as was asked for.
func mostOf(req *http.Request, status int) int64 {
	text, of := strings.CutPrefix(req.Header.Get("Range"), "bytes=")
	if !of || status >= 300 {
		return maxAnswer
	}
	var from, to int64
	if n, err := fmt.Sscanf(text, "%d-%d", &from, &to); n == 1 && err != nil { // the last bytes
		return -from
	}
	return to - from + 1
}

// believable refuses two answers that the library takes from any server: a page is a list of
// nothing, and one that says that there is no such page says that there is no such object.
func believable(req *http.Request, status int, body io.ReadCloser) (io.ReadCloser, error) {
	list := req.Method == http.MethodGet && req.Header.Get("Range") == "" && status == http.StatusOK
	if !list && status != http.StatusNotFound {
		return body, nil
	}
	from := bufio.NewReaderSize(body, maxRefusal)
	most := maxHead
	if status == http.StatusNotFound {
		most = maxRefusal
	}
	head, err := from.Peek(most)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if status == http.StatusNotFound {
		var said struct{ Code string }
		if bad := xml.Unmarshal(head, &said); bad != nil || said.Code == "" {
			return nil, errNoStore
		}
	} else if !bytes.Contains(head, []byte("<ListBucketResult")) {
		return nil, errNoStore
	}
	return struct {
		io.Reader
		io.Closer
	}{from, body}, nil
}

// watch ends a request that moves too little.
type watch struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	every  time.Duration
	timer  *time.Timer
	moved  atomic.Int64
	over   atomic.Bool
}

func (w *watch) look() {
	switch {
	case w.over.Load():
	case w.moved.Swap(0) < leastMoved:
		w.cancel(errSilent)
	default:
		w.timer.Reset(w.every)
	}
}

// end releases what a request holds.
func (w *watch) end() {
	w.over.Store(true)
	w.timer.Stop()
	w.cancel(nil)
}

// watched counts what is read of a body, and ends an answer that is too long.
type watched struct {
	io.ReadCloser
	*watch
	left int64 // what may still come
	last bool  // its end is that of the request
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.moved.Add(int64(n))
	if err != nil && err != io.EOF && errors.Is(context.Cause(b.ctx), errSilent) {
		err = errSilent
	}
	if b.left -= int64(n); b.left < 0 && b.last {
		return 0, errTooLong
	}
	return n, err
}

// Close implements [io.Closer].
func (b *watched) Close() error {
	if b.last {
		b.end()
	}
	return b.ReadCloser.Close()
}
