package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// stdin is how fast a command gets to read much: from the request, when the
// coordinator has the payload, until the command has read all of it, from a file
// that is whole, synced and of its digest on the host.
func (b *bench) stdin(ctx context.Context) error {
	data := make([]byte, streamMB<<20)
	return b.best(ctx, []row{{name: "stdin_mb_s", unit: perMB, target: 150, floor: floors.pipe}}, func() ([]float64, error) {
		if _, err := rand.Read(data[:1<<20]); err != nil { // another payload each time
			return nil, err
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		if err := b.probe.upload(ctx, sum, data); err != nil {
			return nil, err
		}
		command := protocol.Command("wc", "-c")
		command.StdinBytes, command.TimeoutMS = int64(len(data)), protocol.NoTimeout
		if err := command.StdinSHA256.UnmarshalText([]byte(sum)); err != nil {
			return nil, err
		}
		body, err := request(protocol.Spec{Kind: protocol.KindRun, Args: command})
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		answer, err := b.probe.call(ctx, http.MethodPost, "/v1/actions?wait=5m", body)
		took := time.Since(begin)
		b.probe.orders++
		if err == nil && !bytes.Contains(answer, []byte(`"DONE"`)) {
			err = fmt.Errorf("it has not ended well: %.300s", answer)
		}
		return []float64{float64(len(data)) / 1e6 / took.Seconds()}, err
	})
}

// upload sends a payload.
func (p *probe) upload(ctx context.Context, sum string, data []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("%s/v1/payloads/%s?bytes=%d", p.url, sum, len(data)), bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the coordinator answered %s", resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}
