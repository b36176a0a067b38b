package webapi

import (
	"io"
	"net/http"
	"time"
)

// MovingBody has the body of a request fail when nothing of it has come for a while.
func MovingBody(w http.ResponseWriter, body io.ReadCloser, patience time.Duration) io.ReadCloser {
	return movingBody{body, http.NewResponseController(w), patience}
}

type movingBody struct {
	io.ReadCloser
	conn     *http.ResponseController
	patience time.Duration
}

func (b movingBody) Read(p []byte) (int, error) {
	_ = b.conn.SetReadDeadline(time.Now().Add(b.patience)) // only connections of tests have none
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{}) // as above
	}
	return n, err
}
