// Roundtrip measures how long an order takes from a user to a host and back:
// it asks a coordinator to run /bin/true on one host again and again, over one
// connection that stays open, and prints the median and the 99th percentile of
// the times until the action's final state is known to the user.
//
// It uses nothing of Hostler but its HTTP API, so it measures what a stranger
// would see.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "roundtrip:", err)
		os.Exit(1)
	}
}

// errUsage says that the flags were wrong and that the user has been told.
var errUsage = errors.New("usage")

// run is the program: it reads the flags in args and prints the figures.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("roundtrip", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("url", "", "address of the coordinator, https://host:port")
	ca := flags.String("ca", "", "file with the certificate of the fleet's CA, PEM")
	tokenFile := flags.String("token-file", "", "file with a token of the role operator")
	host := flags.String("host", "", "host that runs /bin/true")
	n := flags.Int("n", 100, "how many orders are measured, after one that is not")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	if *url == "" || *ca == "" || *tokenFile == "" || *host == "" || *n < 1 || flags.NArg() > 0 {
		flags.Usage()
		return errUsage
	}
	p, err := newProbe(*url, *ca, *tokenFile, *host)
	if err != nil {
		return err
	}
	times, err := p.measure(ctx, *n)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "orders: %d\np50: %s\np99: %s\n", len(times), show(percentile(times, 50)), show(percentile(times, 99)))
	return err
}

// probe asks for one order after another.
type probe struct {
	client *http.Client
	url    string // of the actions, with the wish to wait for the end
	token  string
	body   []byte // the same request each time
}

func newProbe(url, caFile, tokenFile, host string) (*probe, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(request{Host: host, Spec: []byte(`{"kind":"host.run","argv":["/bin/true"]}`)})
	if err != nil {
		return nil, err
	}
	return &probe{
		client: &http.Client{Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: roots},
			MaxIdleConnsPerHost: 1,
		}},
		url:   strings.TrimSuffix(url, "/") + "/v1/actions?wait=30s",
		token: strings.TrimSpace(string(token)),
		body:  body,
	}, nil
}

// request is what POST /v1/actions is told: a host, and the bytes of what it
// is to do, which travel to it unchanged.
type request struct {
	Host string `json:"host"`
	Spec []byte `json:"spec"`
}

// action is what it answers, as far as it matters here.
type action struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// measure runs one order to warm up and then n in a row, and returns their
// times in ascending order.
func (p *probe) measure(ctx context.Context, n int) ([]time.Duration, error) {
	if err := p.order(ctx); err != nil {
		return nil, err
	}
	times := make([]time.Duration, n)
	for i := range times {
		begin := time.Now()
		if err := p.order(ctx); err != nil {
			return nil, fmt.Errorf("order %d: %w", i+1, err)
		}
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return times, nil
}

// order asks for one order and returns when it is done. An order that ended in
// any other way is an error.
func (p *probe) order(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// Reading to the end is what keeps the connection.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the coordinator answered %s: %s", resp.Status, answer)
	}
	var a action
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	if a.State != "DONE" {
		return fmt.Errorf("action %s is %s %s", a.ID, a.State, a.Reason)
	}
	return nil
}

// percentile returns the smallest of the sorted times that is not below p
// percent of them.
func percentile(times []time.Duration, p int) time.Duration {
	return times[(len(times)*p+99)/100-1]
}

// show prints a time in milliseconds.
func show(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
