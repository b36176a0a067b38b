package podman

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/hostler-io/hostler/container"
)

// What is read of one answer at most, in bytes.
const (
	maxAnswer  = 64 << 20 // the list of all containers with their labels
	maxProblem = 64 << 10
	maxEvent   = 256 << 10 // one event, or one line of progress
)

// base is where the service has its API. The name of the host means nothing on a socket.
const base = "http://podman/v4.0.0/libpod"

// api is podman's service.
type api struct {
	socket string
	client *http.Client
}

func newAPI(socket string) *api {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, &awayError{err}
		}
		return c, nil
	}
	return &api{socket, &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 4}}}
}

// awayError is why nothing could be asked.
type awayError struct{ err error }

func (e *awayError) Error() string { return e.err.Error() }
func (e *awayError) Unwrap() error { return e.err }

// A problem is an answer that says no.
type problem struct {
	Status  int    `json:"-"`
	Cause   string `json:"cause"`
	Message string `json:"message"`
}

func (p *problem) Error() string { return cmp.Or(p.Message, http.StatusText(p.Status)) }

// Is makes the problem what a caller may branch on.
func (p *problem) Is(target error) bool {
	switch p.Status {
	case http.StatusNotFound:
		return target == container.ErrNotFound
	case http.StatusConflict:
		return target == container.ErrBusy
	}
	return false
}

// call asks for something and decodes the answer into out, unless that is nil. The
// status 304 says that nothing needed to be done, and is no error.
func (a *api) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	body, err := a.open(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		return a.explain(ctx, err)
	case len(b) > maxAnswer:
		return fmt.Errorf("podman's answer exceeds %d bytes", maxAnswer)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("podman's answer to %s %s: %w", method, path, err)
	}
	return nil
}

// open asks for something and returns the answer, which the caller reads and closes.
func (a *api) open(ctx context.Context, method, path string, query url.Values, in any) (io.ReadCloser, error) {
	var body io.Reader
	switch in := in.(type) {
	case nil:
	case io.Reader:
		body = in
	default:
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, a.explain(ctx, err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	p := &problem{Status: resp.StatusCode}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if json.Unmarshal(b, p) != nil {
		p.Message = strings.TrimSpace(string(b))
	}
	return nil, p
}

// explain tells an end of the caller's own from a service that is away, and from one
// that has ended under an operation.
func (a *api) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(cause, container.ErrTimeout) {
			cause = fmt.Errorf("%w: %w", container.ErrTimeout, cause)
		}
		return cause
	}
	if away, ok := errors.AsType[*awayError](err); ok {
		hint := "start the unit podman.socket, or without systemd: podman system service --time=0 unix://" + a.socket
		if errors.Is(err, syscall.EACCES) {
			hint = "the agent must be root"
		}
		return fmt.Errorf("%w: podman's service does not answer at %s (%s); %w", container.ErrUnavailable, a.socket, hint, away.err)
	}
	return fmt.Errorf("%w: podman's service has ended the connection: %w", container.ErrInterrupted, err)
}
