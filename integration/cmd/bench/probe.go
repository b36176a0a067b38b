package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// probe is a client of the coordinator that keeps its connections.
type probe struct {
	client *http.Client
	url    string
	token  string
	orders int // that have ended; not for concurrent use
}

// newProbe returns a client for the API at url, whose certificate is vouched
// for by the file ca.
func newProbe(url, ca, token string) (*probe, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", ca)
	}
	return &probe{
		client: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 64,
		}},
		url: url, token: token,
	}, nil
}

// call makes one request and returns the body of the answer.
func (p *probe) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	// Reading to the end is what keeps the connection.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("the coordinator answered %s: %s", resp.Status, answer)
	}
	return answer, nil
}

// ping asks for something that takes the coordinator no work.
func (p *probe) ping(ctx context.Context) error {
	_, err := p.call(ctx, http.MethodGet, "/healthz", nil)
	return err
}

// get decodes what the coordinator says about something.
func (p *probe) get(ctx context.Context, path string, v any) error {
	b, err := p.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// request returns the body that orders spec of the host.
func request(spec any) ([]byte, error) {
	b, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Host string `json:"host"`
		Spec []byte `json:"spec"`
	}{hostName, b})
}

// order asks for one action and returns when its final state is known, which
// has to be DONE.
func (p *probe) order(ctx context.Context, request []byte) error {
	b, err := p.call(ctx, http.MethodPost, "/v1/actions?wait=30s", request)
	if err != nil {
		return err
	}
	var a struct{ ID, State, Reason, Detail string }
	if err := json.Unmarshal(b, &a); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	if a.State != "DONE" {
		return fmt.Errorf("action %s is %s %s %s", a.ID, a.State, a.Reason, a.Detail)
	}
	return nil
}

// oneByOne orders n times, one after another, and returns the times in
// milliseconds.
func (p *probe) oneByOne(ctx context.Context, n int, request []byte) ([]float64, error) {
	p.orders += n
	return times(n, func() error { return p.order(ctx, request) })
}

// atOnce orders n times with that many in flight, and returns how long all of
// it took.
func (p *probe) atOnce(ctx context.Context, n, inFlight int, request []byte) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var begun atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range inFlight {
		all.Go(func() {
			for begun.Add(1) <= int64(n) {
				if err := p.order(ctx, request); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	p.orders += n
	return took, context.Cause(ctx)
}
