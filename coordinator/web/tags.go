package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// unchangedHeader carries the ETag of an answer that the client has already.
const unchangedHeader = "If-None-Match"

// maxTagged is the largest answer that gets an ETag, in bytes: it is held until its end
// is known, and a few dozen of them may be under way.
const maxTagged = 1 << 20

// unchanged describes the answer. The header is no parameter of the operations: generators
// would give each of them one more argument, and clients that were made before would not
// compile any more.
func unchanged() *huma.Response {
	return &huma.Response{Description: "The answer is the one whose ETag was sent as " + unchangedHeader + "."}
}

// serveTagged serves a request that reads. An answer in JSON gets an ETag over its
// bytes, unless it has one that says more, and is left out if the client has it. What
// is not JSON, or is large, or is sent in parts, passes as it is.
func serveTagged(w http.ResponseWriter, r *http.Request, next http.Handler) {
	t := &taggedWriter{ResponseWriter: w, held: r.Header.Values(unchangedHeader)}
	next.ServeHTTP(t, r)
	t.end()
}

// taggedWriter holds an answer back until its tag is known.
type taggedWriter struct {
	http.ResponseWriter
	held    []string // what the client has
	status  int      // 0: not known yet
	through bool     // nothing is held back
	body    bytes.Buffer
}

// Unwrap lets a [http.ResponseController] reach the connection.
func (w *taggedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *taggedWriter) WriteHeader(status int) {
	switch {
	case w.status != 0:
	case status == http.StatusOK && strings.HasPrefix(w.Header().Get("Content-Type"), "application/json"):
		w.status = status
	default:
		w.status, w.through = status, true
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (w *taggedWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.through && w.body.Len()+len(b) > maxTagged {
		if err := w.release(); err != nil {
			return 0, err
		}
	}
	if w.through {
		return w.ResponseWriter.Write(b)
	}
	return w.body.Write(b)
}

// FlushError sends what there is: a handler that asks for that sends in parts.
func (w *taggedWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	var err error
	if !w.through {
		err = w.release()
	}
	return errors.Join(err, http.NewResponseController(w.ResponseWriter).Flush())
}

// release holds nothing back any more.
func (w *taggedWriter) release() error {
	w.through = true
	w.ResponseWriter.WriteHeader(w.status)
	_, err := w.ResponseWriter.Write(w.body.Bytes())
	return err
}

// end sends what was held back, or that the client has it.
func (w *taggedWriter) end() {
	if w.through || w.status == 0 {
		return
	}
	h := w.Header()
	tag := h.Get("ETag")
	if tag == "" {
		sum := sha256.Sum256(w.body.Bytes())
		tag = strconv.Quote(hex.EncodeToString(sum[:8]))
		h.Set("ETag", tag)
	}
	if has(w.held, tag) {
		h.Del("Content-Type")
		h.Del("Content-Length")
		w.ResponseWriter.WriteHeader(http.StatusNotModified)
		return
	}
	_ = w.release() // the client is gone
}

// has reports whether a tag is among those of If-None-Match. A cache on the way may have
// made them weak ones, which are as good for reading.
func has(held []string, tag string) bool {
	for _, line := range held {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
				return true
			}
		}
	}
	return false
}
