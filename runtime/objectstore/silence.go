package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Bounds of Config.ReadTimeout.
const (
	minReadTimeout = time.Second
	maxReadTimeout = 10 * time.Minute
)

// errSilent is the cause of the end of a read during which the store sent nothing.
var errSilent = errors.New("the object store sent nothing for too long")

// isSilent reports whether a request was ended because the store sent nothing.
func isSilent(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errSilent) }

// validateReadTimeout checks the bounds.
func (c *Config) validateReadTimeout() error {
	if c.ReadTimeout != 0 && (c.ReadTimeout < minReadTimeout || c.ReadTimeout > maxReadTimeout) {
		return fmt.Errorf("SERVICE_S3_READ_TIMEOUT must be from %s to %s, or 0, not %s", minReadTimeout, maxReadTimeout, c.ReadTimeout)
	}
	return nil
}

// silence ends a context when the store sends nothing for a time. Readiness does so only for a store
// that does not respond to probes either: one may respond to them, and hang in the read of one object.
type silence struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// boundSilence returns a context that ends, with the cause errSilent, when limit has passed before
// heard.
func boundSilence(ctx context.Context, limit time.Duration) (context.Context, *silence) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &silence{limit: limit, timer: time.AfterFunc(limit, func() { cancel(errSilent) }), cancel: cancel}
}

// heard is called when the store has sent something, and expect before the next read.
func (s *silence) heard()  { s.timer.Stop() }
func (s *silence) expect() { s.timer.Reset(s.limit) }

// end releases the context.
func (s *silence) end() {
	s.timer.Stop()
	s.cancel(nil)
}

// openBounded is get with ReadTimeout, which bounds all attempts and then each read of the body.
func (s *Store) openBounded(ctx context.Context, bucket, key, span string) (io.ReadCloser, error) {
	if s.readTimeout == 0 {
		return s.get(ctx, bucket, key, span)
	}
	ctx, silent := boundSilence(ctx, s.readTimeout)
	body, err := s.get(ctx, bucket, key, span)
	silent.heard()
	if err != nil {
		if isSilent(ctx) {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, errSilent)
		}
		silent.end()
		return nil, err
	}
	return &boundedBody{ReadCloser: body, ctx: ctx, silence: silent}, nil
}

// boundedBody ends a read during which the store sends nothing. The time between two reads does not
// count: then the receiver is slow.
type boundedBody struct {
	io.ReadCloser
	ctx     context.Context // of the request
	silence *silence
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	b.silence.expect()
	n, err := b.ReadCloser.Read(p)
	b.silence.heard()
	if err != nil && !errors.Is(err, io.EOF) && isSilent(b.ctx) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, errSilent)
	}
	return n, err
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	err := b.ReadCloser.Close()
	b.silence.end()
	return err
}

// openDirect makes the first attempt of a read. It may last for half of ReadTimeout, so that a
// connection that hangs leaves time for another one.
func (s *Store) openDirect(ctx context.Context, bucket, key, span string) (io.ReadCloser, error) {
	if s.readTimeout == 0 {
		return s.direct.open(ctx, bucket, key, span)
	}
	ctx, silent := boundSilence(ctx, s.readTimeout/2) // it ends with the context of the caller
	body, err := s.direct.open(ctx, bucket, key, span)
	silent.heard()
	return body, err
}
