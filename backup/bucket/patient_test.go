package bucket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

type carry func(*http.Request) (*http.Response, error)

func (c carry) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

// drip gives so many bytes each second, as long as its request is.
type drip struct {
	ctx context.Context
	n   int
}

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
		return min(d.n, len(p)), nil
	}
}

// TestPatience: a request ends that moves nothing, or next to nothing, and no other.
func TestPatience(t *testing.T) {
	for name, tc := range map[string]struct {
		carry carry
		after time.Duration // 0: it does not end by itself
		fails error
	}{
		"no answer": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, patience, errSilent},
		"a drip": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 206, Body: io.NopCloser(drip{r.Context(), 10})}, nil
		}, patience, errSilent},
		"slow": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 206, Body: io.NopCloser(io.LimitReader(drip{r.Context(), 1 << 10}, 1<<20))}, nil
		}, 1 << 10 * time.Second, nil},
		"its body goes": {func(r *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, io.MultiReader(io.LimitReader(drip{r.Context(), 1 << 10}, 1<<20), r.Body))
			return &http.Response{StatusCode: 206, Body: http.NoBody}, err
		}, patience, errSilent}, // what is read beside it moves nothing of the request
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://s3.example/", bytes.NewReader([]byte("x")))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Range", "bytes=0-9999999")
				from := time.Now()
				resp, err := (&patient{carry: tc.carry, every: patience}).RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					err = errors.Join(err, resp.Body.Close())
				}
				if took := time.Since(from).Round(time.Minute); !errors.Is(err, tc.fails) || took != tc.after.Round(time.Minute) {
					t.Errorf("after %s: %v, want %s, %v", took, err, tc.after, tc.fails)
				}
			})
		})
	}
}
