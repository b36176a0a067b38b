package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/integration/cmd/bench/proc"
	"github.com/hostler-io/hostler/protocol"
)

// streamMB is how much output a command writes whose speed is measured, in MiB.
const streamMB = 200

// outputs measures what a command writes on its way to whoever reads it.
func (b *bench) outputs(ctx context.Context) error {
	for _, step := range []func(context.Context) error{b.firstByte, b.lineLag, b.stdout, b.stdin, b.manyFollowers} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// say is a command whose output is followed from its request on.
func (b *bench) say(ctx context.Context, argv ...string) (id string, err error) {
	body, err := request(protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: argv}, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}, TimeLimit: protocol.TimeLimit{TimeoutMS: protocol.NoTimeout}}})
	if err != nil {
		return "", err
	}
	answer, err := b.probe.call(ctx, http.MethodPost, "/v1/actions", body)
	if err != nil {
		return "", err
	}
	b.probe.orders++
	var a struct{ ID string }
	return a.ID, json.Unmarshal(answer, &a)
}

// follow opens the output of a command. hold makes the command wait.
func (p *probe) follow(ctx context.Context, id string, hold bool) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/actions/"+id+"/output?follow=true&hold="+strconv.FormatBool(hold), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("the coordinator answered %s", resp.Status)
	}
	return resp.Body, nil
}

// firstByte is from the request to the first byte that a follower reads, of one command
// at a time: the next one is asked for when the one before has ended, and not while its
// host is busy with that.
func (b *bench) firstByte(ctx context.Context) error {
	return b.best(ctx, []row{{name: "first_byte_p50_ms", unit: "ms", target: 12, floor: floors.firstByte}}, func() ([]float64, error) {
		values := make([]float64, 60)
		for i := range values {
			if err := pause(ctx, betweenSamples); err != nil {
				return nil, err
			}
			begin := time.Now()
			id, err := b.say(ctx, "/bin/echo", "x")
			if err != nil {
				return nil, err
			}
			out, err := b.probe.follow(ctx, id, true)
			if err != nil {
				return nil, err
			}
			_, err = io.ReadFull(out, make([]byte, 1))
			values[i] = ms(time.Since(begin))
			if err == nil {
				_, err = io.Copy(io.Discard, out) // ends when the command has
			}
			if err = errors.Join(err, out.Close()); err != nil {
				return nil, err
			}
		}
		return []float64{percentile(values, 50)}, nil
	})
}

// betweenSamples is the pause after a sample, in which its unfinished work ends.
const betweenSamples = 10 * time.Millisecond

// lineLag is from the writing of a line to its reading by a follower. The line
// is written when a byte comes in from a pipe, which takes some of it.
func (b *bench) lineLag(ctx context.Context) error {
	return b.best(ctx, []row{{name: "line_lag_p50_ms", unit: "ms", target: 2, floor: floors.line}}, func() ([]float64, error) {
		path := b.fleet.path("ask")
		_ = os.Remove(path) // of the time before
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return nil, err
		}
		id, err := b.say(ctx, "/bin/cat", path)
		if err != nil {
			return nil, err
		}
		out, err := b.probe.follow(ctx, id, true)
		if err != nil {
			return nil, err
		}
		defer out.Close()
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		line := []byte("a line of some length, as logs have them\n")
		got := make([]byte, len(line))
		values := make([]float64, 100)
		for i := range values {
			if err := pause(ctx, betweenSamples); err != nil {
				return nil, err
			}
			begin := time.Now()
			if _, err := pipe.Write(line); err != nil {
				return nil, err
			}
			if _, err := io.ReadFull(out, got); err != nil {
				return nil, err
			}
			values[i] = ms(time.Since(begin))
		}
		return []float64{percentile(values, 50)}, nil
	})
}

// stdout is how fast much output comes to the command line.
func (b *bench) stdout(ctx context.Context) error {
	for _, of := range []struct {
		name   string
		block  string
		target float64
	}{{"stdout_4k_mb_s", "4k", 120}, {"stdout_1m_mb_s", "1M", 150}} {
		var peak float64
		if err := b.best(ctx, []row{{name: of.name, unit: perMB, target: of.target, floor: floors.pipe}}, func() ([]float64, error) {
			speed, rss, err := b.stdoutOnce(ctx, of.block)
			peak = max(peak, rss)
			return []float64{speed}, err
		}); err != nil {
			return err
		}
		b.add(strings.TrimSuffix(of.name, "mb_s")+"agent_rss_mb", peak, 40)
	}
	return nil
}

// stdoutOnce returns the speed of one command, and the largest memory of the
// agent meanwhile.
func (b *bench) stdoutOnce(ctx context.Context, block string) (speed, peak float64, err error) {
	const size = streamMB << 20
	count := strconv.Itoa(size >> 12)
	if block == "1M" {
		count = strconv.Itoa(streamMB)
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			if v, err := proc.RSS(b.fleet.agent); err == nil {
				peak = max(peak, v)
			}
			t := time.NewTimer(20 * time.Millisecond)
			select {
			case <-t.C:
			case <-done:
				t.Stop()
				return
			}
		}
	})
	var got atomic.Int64
	cmd := b.fleet.command(ctx, "hostler", "run", hostName, "--timeout", "none", "--", "dd", "if=/dev/zero", "bs="+block, "count="+count, "status=none")
	cmd.Stdout = counting{&got}
	var talk bytes.Buffer
	cmd.Stderr = &talk
	begin := time.Now()
	err = cmd.Run()
	took := time.Since(begin)
	b.probe.orders++
	close(done)
	watch.Wait()
	if err != nil || got.Load() != size {
		return 0, 0, errors.Join(err, fmt.Errorf("%d bytes came of %d: %s", got.Load(), size, talk.Bytes()))
	}
	return float64(size) / 1e6 / took.Seconds(), peak, nil
}

type counting struct{ n *atomic.Int64 }

func (c counting) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// slowFollowers is how many look on beside the one who has asked.
const slowFollowers = 100

// afterFollowers is how long the coordinator gets to see that those of the time
// before are gone: what that costs it is none of the next one's time.
const afterFollowers = 300 * time.Millisecond

// manyFollowers compares the speed of a command that slow readers look on to,
// with its speed without them: in pairs, of which now the one and now the other
// comes first, for the machine changes its speed meanwhile. The middle of the
// ratios counts, not the best.
func (b *bench) manyFollowers(ctx context.Context) error {
	const pairs = 7
	fmt.Fprintln(b.talk, "measuring followers_ratio")
	ratios := make([]float64, pairs)
	for i := range ratios {
		var speed [2]float64 // alone, beside slow ones
		for j := range speed {
			which := (i + j) % 2
			if err := pause(ctx, afterFollowers); err != nil {
				return err
			}
			var err error
			if speed[which], err = b.followed(ctx, which*slowFollowers); err != nil {
				return fmt.Errorf("measuring followers_ratio: %w", err)
			}
		}
		ratios[i] = speed[1] / speed[0]
	}
	b.report.figures = append(b.report.figures, row{name: "followers_ratio", unit: ratio, target: 0.9}.figure(percentile(ratios, 50), floors{}))
	return nil
}

// followed returns how fast the one who has asked reads, beside so many who read
// a little now and then.
func (b *bench) followed(ctx context.Context, slow int) (float64, error) {
	gate := b.fleet.path("gate")
	_ = os.Remove(gate) // of the time before
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		return 0, err
	}
	id, err := b.say(ctx, "/bin/cat", gate)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	defer g.Wait()
	defer cancel()
	for range slow {
		out, err := b.probe.follow(ctx, id, false)
		if err != nil {
			return 0, err
		}
		g.Go(func() error {
			defer out.Close()
			buf := make([]byte, 4096)
			for pause(ctx, 500*time.Millisecond) == nil {
				if _, err := out.Read(buf); err != nil {
					break
				}
			}
			return nil
		})
	}
	out, err := b.probe.follow(ctx, id, true)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	pipe, err := os.OpenFile(gate, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	g.Go(func() error {
		defer pipe.Close()
		_, err := io.CopyBuffer(pipe, io.LimitReader(zeros{}, streamMB<<20), make([]byte, 1<<20))
		return err
	})
	n, err := io.Copy(io.Discard, out)
	if err != nil || n != streamMB<<20 {
		return 0, errors.Join(err, fmt.Errorf("%d bytes came", n))
	}
	return float64(n) / 1e6 / time.Since(begin).Seconds(), nil
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// timePipe sends what a command writes once over TLS, into a file that is synced
// like output is, and over TLS again to a reader: what no transport of output can
// do without. It returns MB a second.
func timePipe(dir string) (float64, error) {
	near, far, err := tlsPair()
	if err != nil {
		return 0, err
	}
	defer near.Close()
	defer far.Close()
	onward, reader, err := tlsPair()
	if err != nil {
		return 0, err
	}
	defer onward.Close()
	defer reader.Close()
	f, err := os.Create(filepath.Join(dir, "pipe"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const size, chunk, batch = 64 << 20, 128 << 10, 1 << 20
	begin := time.Now()
	var g errgroup.Group
	g.Go(func() error {
		block := make([]byte, chunk)
		_, _ = rand.Read(block) // it never fails
		for range size / chunk {
			if _, err := near.Write(block); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		buf := make([]byte, batch)
		for range size / batch {
			if _, err := io.ReadFull(far, buf); err != nil {
				return err
			}
			if _, err := f.Write(buf); err != nil {
				return err
			}
			if err := f.Sync(); err != nil {
				return err
			}
			if _, err := onward.Write(buf); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		_, err := io.CopyN(io.Discard, reader, size)
		return err
	})
	err = g.Wait()
	return size / 1e6 / time.Since(begin).Seconds(), err
}

// tlsPair is a connection over loopback.
func tlsPair() (near, far net.Conn, err error) {
	config, err := calibrationTLS()
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	s, err := l.Accept()
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return tls.Client(c, config), tls.Server(s, config), nil
}
