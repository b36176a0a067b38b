package podman

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hostler-io/hostler/container"
)

// Log implements container.Logger. Who follows it is told of the end of the container.
func (r *Runtime) Log(ctx context.Context, name string, q container.LogQuery, stdout, stderr io.Writer) error {
	if err := container.CheckReference(name); err != nil {
		return fmt.Errorf("podman log: %w: %w", container.ErrNotFound, err)
	}
	if err := (logs{r}).copy(ctx, name, q, stdout, stderr); err != nil {
		return fmt.Errorf("podman log %q: %w", name, err)
	}
	return nil
}

// logs reads the logs of containers.
type logs struct{ *Runtime }

func (r logs) copy(ctx context.Context, name string, q container.LogQuery, stdout, stderr io.Writer) error {
	if q.Runtime {
		return fmt.Errorf("%w: podman keeps no log of its own about a container; its log of events is: podman events", container.ErrUnsupported)
	}
	d, err := r.inspect(ctx, name)
	if err != nil {
		return err
	}
	ask := url.Values{"stdout": {"true"}, "stderr": {"true"}, "tail": {strconv.Itoa(q.Tail)}}
	if !q.Since.IsZero() {
		ask.Set("since", strconv.FormatInt(q.Since.Unix(), 10))
	}
	if q.Follow {
		ask.Set("follow", "true")
	}
	body, err := r.api.open(ctx, http.MethodGet, "/containers/"+d.ID+"/logs", ask, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	err = copyFrames(body, stdout, stderr)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// stderrFrame is the first byte of a frame of the second stream.
const stderrFrame = 2

// copyFrames takes apart what podman sends of several streams in one, see frames.
func copyFrames(from io.Reader, stdout, stderr io.Writer) error {
	var head [8]byte
	for {
		if _, err := io.ReadFull(from, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		to := stdout
		if head[0] == stderrFrame {
			to = stderr
		}
		if _, err := io.CopyN(to, from, int64(binary.BigEndian.Uint32(head[4:]))); err != nil {
			return err
		}
	}
}
