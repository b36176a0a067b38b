package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// heeding reads until somebody wants an end: files may be as large as a disk, and a
// signal that is taken and not heeded is none.
type heeding struct {
	ctx context.Context
	r   io.Reader
}

func (h heeding) Read(p []byte) (int, error) {
	if err := context.Cause(h.ctx); err != nil {
		return 0, err
	}
	return h.r.Read(p)
}

// broken says of work that came to no end what to do next: a signal ended it, or
// there was no room. Whatever else a signal or a full disk looks like further up is no
// fault of what was read.
func broken(ctx context.Context, err error, left, again string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted (%w): %s\n%s", context.Cause(ctx), left, again)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w\n%s Make room first. %s", err, left, again)
	}
	return err
}
